use std::collections::HashSet;
use std::time::Duration;

use encke_tests::waiting::{eventually_within, let_pass};
use encke_tests::{Backend, BackendReply};

use super::{SESSIONS, accepted, of_session, telling};

/// Sessions that are cut, come back or expire, while the backend is down for most of it: each event once, in its order.
#[test]
fn the_backend_is_down_meanwhile_and_nothing_is_lost() {
    const COUNT: usize = 300;
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_millis(5)));
    let server = telling(&backend, SESSIONS, "").set("session.reconnect_window=2s").start();
    let mut clients = Vec::new();
    for number in 0..COUNT {
        if number == COUNT / 4 {
            backend.reply_with(|_| BackendReply::status(0));
        }
        clients.push(server.client());
    }
    let mut expected = Vec::new();
    for (number, client) in clients.into_iter().enumerate() {
        let hello = client.drop_connection();
        server.await_phase(&hello.session, "suspended");
        let comes_back = number % 3 == 0;
        if comes_back {
            server.resume(&hello.resume).send(r#"{"close":{}}"#);
        }
        expected.push((hello.session, comes_back));
    }
    expected.iter().for_each(|(session, _)| server.await_removal(session));
    backend.reply_with_status(200);
    let events: usize = expected.iter().map(|(_, comes_back)| if *comes_back { 4 } else { 3 }).sum();
    // A pause between two tries is up to 30 s, and 16 by then.
    let all = eventually_within(Duration::from_secs(60), "all events", || {
        let all = accepted(&backend);
        (all.len() >= events).then_some(all)
    });
    let ids: HashSet<_> = all.iter().map(|event| event["id"].to_string()).collect();
    assert_eq!(
        (all.len(), ids.len()),
        (events, events),
        "each once: the backend has answered whatever it accepted"
    );
    for (session, comes_back) in &expected {
        let told: Vec<_> =
            of_session(&all, session).into_iter().map(|(number, event, _)| (number, event)).collect();
        let mut expected = vec!["session.opened", "session.suspended"];
        expected.extend(if *comes_back {
            &["session.resumed", "session.closed"][..]
        } else {
            &["session.expired"]
        });
        let expected: Vec<_> = (1..).zip(expected.into_iter().map(ToOwned::to_owned)).collect();
        assert_eq!(told, expected, "{session}");
    }
    let_pass(Duration::from_millis(100));
    assert_eq!(accepted(&backend).len(), events);
}
