use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use encke_tests::authority::Authority;
use encke_tests::waiting::{let_pass, until};
use encke_tests::{Backend, Launch, BackendReply, RunningServer};
use tempfile::TempDir;

use super::{CHANNELS, SECRET, SESSIONS, accepted, await_asked, await_session, telling, webhook};

/// Opens and ends a session, and waits until the backend has accepted that.
fn assert_told(server: &RunningServer, backend: &Backend) {
    let mut client = server.client();
    client.send(r#"{"close":{}}"#);
    let (opened, closed) = ((1, "session.opened", "connect"), (2, "session.closed", "client"));
    await_session(backend, &client.hello.session, &[opened, closed]);
}

#[test]
fn what_is_not_accepted_is_sent_again_the_same() {
    let backend = Backend::start();
    let tries = Arc::new(AtomicUsize::new(0));
    // No answer, an error of the server, an error of ours, a redirect.
    backend.reply_with(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => BackendReply::status(0),
        1 => BackendReply::status(500),
        2 => BackendReply::status(404),
        3 => BackendReply { headers: "Location: /elsewhere\r\n".to_owned(), ..BackendReply::status(307) },
        _ => BackendReply::status(200),
    });
    let server = telling(&backend, r#""session.opened""#, "").start();
    let client = server.client();
    await_session(&backend, &client.hello.session, &[(1, "session.opened", "connect")]);
    let asked = backend.requests();
    assert_eq!(asked.len(), 5, "{asked:?}");
    assert!(asked.iter().all(|asked| asked.path == "/encke"), "a redirect is not followed");
    let same: HashSet<_> = asked.iter().map(|asked| (asked.header("webhook-id"), &asked.body)).collect();
    assert_eq!(same.len(), 1, "{asked:?}");
    server.logs.await_line("webhook request failed");
    server.logs.await_line("webhook recovered");
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value(r#"encke_webhook_requests_total{webhook="0",outcome="failed"}"#), 4.0);
    assert_eq!(metrics.value(r#"encke_webhook_events_total{webhook="0",outcome="delivered"}"#), 1.0);
    server.assert_healthy();
}

#[test]
fn a_backend_that_is_not_there_yet_is_told_later() {
    // Nobody else gets the port meanwhile.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let hook =
        format!("{{url=\"http://{address}/\",events=[{SESSIONS}],secret=\"{SECRET}\",timeout=\"300ms\"}}");
    let server = Launch::default().set(&format!("webhook=[{hook}]")).start();
    let mut client = server.client();
    client.send(r#"{"close":{}}"#);
    // Connections are accepted by the kernel alone, and end with the listener.
    server.logs.await_line("no answer within");
    drop(listener);
    let backend = Backend::start_at(address);
    let (opened, closed) = ((1, "session.opened", "connect"), (2, "session.closed", "client"));
    await_session(&backend, &client.hello.session, &[opened, closed]);
}

#[test]
fn what_does_not_fit_the_queue_is_counted_and_told() {
    const MOST: usize = 10;
    const OPENED: usize = 300;
    let backend = Backend::start();
    backend.reply_with_status(503);
    let server = telling(&backend, r#""session.opened""#, &format!(",max_queued={MOST}")).start();
    let clients: Vec<_> = (0..OPENED).map(|_| server.client()).collect();
    let overflowed = r#"encke_webhook_events_total{webhook="0",outcome="overflowed"}"#;
    until("all others are dropped", || server.admin.metrics().value(overflowed) == (OPENED - MOST) as f64);
    assert_eq!(server.admin.metrics().value(r#"encke_webhook_queued{webhook="0"}"#), MOST as f64);
    backend.reply_with_status(200);
    until("those that fit", || accepted(&backend).len() == MOST);
    // Lanes that had an event under way when others were dropped tell of these with the next.
    let told = || {
        let accepted = backend.requests().into_iter().filter(|asked| asked.status == Some(200));
        accepted.filter_map(|asked| asked.json()["dropped"].as_u64()).sum::<u64>()
    };
    let mut more = 0;
    until("how many were dropped", || {
        drop(server.client());
        more += 1;
        told() == (OPENED - MOST) as u64
    });
    until("one more each", || accepted(&backend).len() == MOST + more);
    assert_eq!(told(), (OPENED - MOST) as u64, "it is told once");
    drop(clients);
}

#[test]
fn what_was_tried_for_too_long_is_given_up_and_told() {
    let backend = Backend::start();
    backend.reply_with_status(503);
    let server = telling(&backend, r#""channel.occupied","channel.vacated""#, r#",retry_for="1s""#).start();
    let mut client = server.client();
    client.subscribe("news");
    server.logs.await_line("webhook events dropped");
    backend.reply_with_status(200);
    client.request(r#"{"id":9,"unsubscribe":{"channel":"news"}}"#);
    let asked = await_asked(&backend, "the next event", |asked| asked.status == Some(200));
    assert_eq!(asked.json()["dropped"], 1);
    assert_eq!(asked.json()["events"][0]["event"], "channel.vacated");
    client.subscribe("news");
    until("the one after that", || accepted(&backend).len() == 2);
    assert_eq!(backend.requests().last().expect("a request").json().get("dropped"), None, "it was told");
    assert_eq!(server.admin.metrics().value(r#"encke_webhook_queued{webhook="0"}"#), 0.0);
}

#[test]
fn a_backend_that_never_answers_delays_nothing_but_its_own_events() {
    let (stuck, sound) = (Backend::start(), Backend::start());
    stuck.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_secs(60)));
    let hooks = format!(
        "webhook=[{},{}]",
        webhook(&stuck, SESSIONS, r#",name="stuck""#),
        webhook(&sound, SESSIONS, r#",name="sound""#)
    );
    let settings = [&*hooks, "session.ping_interval=1s", "session.pong_timeout=1s"];
    let mut server = Launch::with(&settings).set("shutdown.drain=2s").start();
    let client = server.client().into_background();
    (0..20).for_each(|_| assert_told(&server, &sound));
    client.await_more_pings(2);
    assert!(!client.has_ended());
    server.terminate();
    assert!(server.await_exit(encke_tests::waiting::TIMEOUT).success(), "it ends without its answer");
    server.logs.await_line("undelivered webhook events were lost");
}

#[test]
fn tls_needs_a_certificate_of_an_authority_that_is_trusted() {
    let (authority, folder) = (Authority::new(), TempDir::new().expect("a folder"));
    let (certificate, key) = authority.issue("127.0.0.1", folder.path());
    let backend = Backend::start_tls(&certificate, &key);
    let hook = |ca: &Authority| {
        let (address, ca) = (backend.address, ca.path());
        let url = format!("url=\"https://{address}/\",events=[{SESSIONS}],secret=\"{SECRET}\"");
        format!("webhook=[{{{url},ca=\"{}\"}}]", ca.display())
    };
    let server = Launch::default().set(&hook(&authority)).start();
    assert_told(&server, &backend);

    let before = backend.requests().len();
    let stranger = Authority::new();
    let server = Launch::default().set(&hook(&stranger)).start();
    drop(server.client());
    server.logs.await_line("invalid peer certificate");
    assert_eq!(backend.requests().len(), before, "it is told nothing");
}

/// Ten channels that come and go, told to a backend that takes its time.
#[test]
fn the_order_of_a_channel_is_kept_while_the_backend_is_slow() {
    const ROUNDS: usize = 30;
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_millis(20)));
    let server = telling(&backend, CHANNELS, "").start();
    let mut clients: Vec<_> = (0..2).map(|_| server.client()).collect();
    for round in 0..ROUNDS {
        for client in &mut clients {
            let channel = format!("c{}", round % 10);
            client.subscribe(&channel);
            client.request(&format!(r#"{{"id":9,"unsubscribe":{{"channel":"{channel}"}}}}"#));
        }
    }
    until("all events", || accepted(&backend).len() == 2 * 2 * ROUNDS);
    for channel in 0..10 {
        let channel = format!("c{channel}");
        let events: Vec<_> =
            accepted(&backend).into_iter().filter(|event| event["channel"] == channel).collect();
        assert_eq!(events.len(), 4 * ROUNDS / 10);
        for (index, event) in events.iter().enumerate() {
            let expected = if index.is_multiple_of(2) { "channel.occupied" } else { "channel.vacated" };
            assert_eq!(event["event"], expected, "{channel}: {events:?}");
        }
    }
    let_pass(Duration::from_millis(100));
    assert_eq!(accepted(&backend).len(), 4 * ROUNDS, "nothing comes twice");
}
