use std::collections::HashSet;
use std::time::Duration;

use encke_tests::waiting::{eventually_within, let_pass};
use encke_tests::{Backend, BackendReply};

use super::{SESSIONS, accepted_events, events_of_session, launch_with_webhook};

/// Sessions are disconnected, resumed or expired while the backend is down most of the time. Each event is
/// delivered once, and each session's events are in order.
#[test]
fn events_are_delivered_once_despite_backend_downtime() {
    const COUNT: usize = 300;
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_millis(5)));
    let server = launch_with_webhook(&backend, SESSIONS, "").set("session.reconnect_window=2s").start();
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
        let resumes = number % 3 == 0;
        if resumes {
            server.resume(&hello.resume).send(r#"{"close":{}}"#);
        }
        expected.push((hello.session, resumes));
    }
    expected.iter().for_each(|(session, _)| server.await_removal(session));
    backend.reply_with_status(200);
    let events: usize = expected.iter().map(|(_, resumes)| if *resumes { 4 } else { 3 }).sum();
    // The delay between attempts is at most 30 s, and about 16 s at this point.
    let all = eventually_within(Duration::from_secs(60), "all events are accepted", || {
        let all = accepted_events(&backend);
        (all.len() >= events).then_some(all)
    });
    let ids: HashSet<_> = all.iter().map(|event| event["id"].to_string()).collect();
    assert_eq!(
        (all.len(), ids.len()),
        (events, events),
        "every event once, since the backend has answered each accepted request"
    );
    for (session, resumes) in &expected {
        let actual: Vec<_> =
            events_of_session(&all, session).into_iter().map(|(number, event, _)| (number, event)).collect();
        let mut expected = vec!["session.opened", "session.suspended"];
        expected.extend(if *resumes {
            &["session.resumed", "session.closed"][..]
        } else {
            &["session.expired"]
        });
        let expected: Vec<_> = (1..).zip(expected.into_iter().map(ToOwned::to_owned)).collect();
        assert_eq!(actual, expected, "{session}");
    }
    let_pass(Duration::from_millis(100));
    assert_eq!(accepted_events(&backend).len(), events);
}
