use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use encke_tests::authority::Authority;
use encke_tests::waiting::{let_pass, until};
use encke_tests::{Backend, BackendReply, Launch, RunningServer};
use tempfile::TempDir;

use super::{
    CHANNELS, SECRET, SESSIONS, accepted_events, await_request, await_session, launch_with_webhook, webhook,
};

/// Opens and closes a session and waits until the backend has accepted both events.
fn assert_session_events_delivered(server: &RunningServer, backend: &Backend) {
    let mut client = server.client();
    client.send(r#"{"close":{}}"#);
    let (opened, closed) = ((1, "session.opened", "connect"), (2, "session.closed", "client"));
    await_session(backend, &client.hello.session, &[opened, closed]);
}

#[test]
fn rejected_requests_are_repeated_unchanged() {
    let backend = Backend::start();
    let tries = Arc::new(AtomicUsize::new(0));
    // Reply with a closed connection, a server error, a client error and a redirect.
    backend.reply_with(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => BackendReply::status(0),
        1 => BackendReply::status(500),
        2 => BackendReply::status(404),
        3 => BackendReply { headers: "Location: /elsewhere\r\n".to_owned(), ..BackendReply::status(307) },
        _ => BackendReply::status(200),
    });
    let server = launch_with_webhook(&backend, r#""session.opened""#, "").start();
    let client = server.client();
    await_session(&backend, &client.hello.session, &[(1, "session.opened", "connect")]);
    let requests = backend.requests();
    assert_eq!(requests.len(), 5, "{requests:?}");
    assert!(requests.iter().all(|request| request.path == "/encke"), "a redirect is not followed");
    let distinct: HashSet<_> =
        requests.iter().map(|request| (request.header("webhook-id"), &request.body)).collect();
    assert_eq!(distinct.len(), 1, "{requests:?}");
    server.logs.await_line("webhook request failed");
    server.logs.await_line("webhook recovered");
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value(r#"encke_webhook_requests_total{webhook="0",outcome="failed"}"#), 4.0);
    assert_eq!(metrics.value(r#"encke_webhook_events_total{webhook="0",outcome="delivered"}"#), 1.0);
    server.assert_healthy();
}

#[test]
fn events_reach_a_backend_that_starts_later() {
    // Keep the port reserved.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("the listener is bound");
    let hook =
        format!("{{url=\"http://{address}/\",events=[{SESSIONS}],secret=\"{SECRET}\",timeout=\"300ms\"}}");
    let server = Launch::default().set(&format!("webhook=[{hook}]")).start();
    let mut client = server.client();
    client.send(r#"{"close":{}}"#);
    // Until the listener is dropped, the kernel accepts connections, but no process replies.
    server.logs.await_line("no answer within");
    drop(listener);
    let backend = Backend::start_at(address);
    let (opened, closed) = ((1, "session.opened", "connect"), (2, "session.closed", "client"));
    await_session(&backend, &client.hello.session, &[opened, closed]);
}

#[test]
fn overflowing_events_are_counted_and_reported() {
    const MAX_QUEUED: usize = 10;
    const OPENED: usize = 300;
    let backend = Backend::start();
    backend.reply_with_status(503);
    let server =
        launch_with_webhook(&backend, r#""session.opened""#, &format!(",max_queued={MAX_QUEUED}")).start();
    let clients: Vec<_> = (0..OPENED).map(|_| server.client()).collect();
    let overflowed = r#"encke_webhook_events_total{webhook="0",outcome="overflowed"}"#;
    until("all other events are dropped", || {
        server.admin.metrics().value(overflowed) == (OPENED - MAX_QUEUED) as f64
    });
    assert_eq!(server.admin.metrics().value(r#"encke_webhook_queued{webhook="0"}"#), MAX_QUEUED as f64);
    backend.reply_with_status(200);
    until("the queued events are accepted", || accepted_events(&backend).len() == MAX_QUEUED);
    // A lane whose request was in progress when events were dropped reports them with its next request.
    let reported_drops = || {
        let accepted = backend.requests().into_iter().filter(|request| request.status == Some(200));
        accepted.filter_map(|request| request.json()["dropped"].as_u64()).sum::<u64>()
    };
    let mut more = 0;
    until("the number of dropped events is reported", || {
        drop(server.client());
        more += 1;
        reported_drops() == (OPENED - MAX_QUEUED) as u64
    });
    until("one event more for each session", || accepted_events(&backend).len() == MAX_QUEUED + more);
    assert_eq!(reported_drops(), (OPENED - MAX_QUEUED) as u64, "it is reported once");
    drop(clients);
}

#[test]
fn events_dropped_after_retry_for_are_reported() {
    let backend = Backend::start();
    backend.reply_with_status(503);
    let server =
        launch_with_webhook(&backend, r#""channel.occupied","channel.vacated""#, r#",retry_for="1s""#)
            .start();
    let mut client = server.client();
    client.subscribe("news");
    server.logs.await_line("webhook events dropped");
    backend.reply_with_status(200);
    client.request(r#"{"id":9,"unsubscribe":{"channel":"news"}}"#);
    let request = await_request(&backend, "the next event", |request| request.status == Some(200));
    assert_eq!(request.json()["dropped"], 1);
    assert_eq!(request.json()["events"][0]["event"], "channel.vacated");
    client.subscribe("news");
    until("the event after that is accepted", || accepted_events(&backend).len() == 2);
    assert_eq!(
        backend.requests().last().expect("a request").json().get("dropped"),
        None,
        "the loss was reported before"
    );
    assert_eq!(server.admin.metrics().value(r#"encke_webhook_queued{webhook="0"}"#), 0.0);
}

#[test]
fn a_hanging_backend_delays_only_its_own_events() {
    let (hanging, healthy) = (Backend::start(), Backend::start());
    hanging.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_secs(60)));
    let hooks = format!(
        "webhook=[{},{}]",
        webhook(&hanging, SESSIONS, r#",name="hanging""#),
        webhook(&healthy, SESSIONS, r#",name="healthy""#)
    );
    let settings = [&*hooks, "session.ping_interval=1s", "session.pong_timeout=1s"];
    let mut server = Launch::with(&settings).set("shutdown.drain=2s").start();
    let client = server.client().into_background();
    (0..20).for_each(|_| assert_session_events_delivered(&server, &healthy));
    client.await_more_pings(2);
    assert!(!client.has_ended());
    server.terminate();
    assert!(
        server.await_exit(encke_tests::waiting::TIMEOUT).success(),
        "the shutdown does not wait for the response"
    );
    server.logs.await_line("undelivered webhook events were lost");
}

#[test]
fn tls_requires_a_trusted_certificate() {
    let (authority, folder) =
        (Authority::new(), TempDir::new().expect("a temporary directory can be created"));
    let (certificate, key) = authority.issue("127.0.0.1", folder.path());
    let backend = Backend::start_tls(&certificate, &key);
    let hook = |ca: &Authority| {
        let (address, ca) = (backend.address, ca.path());
        let url = format!("url=\"https://{address}/\",events=[{SESSIONS}],secret=\"{SECRET}\"");
        format!("webhook=[{{{url},ca=\"{}\"}}]", ca.display())
    };
    let server = Launch::default().set(&hook(&authority)).start();
    assert_session_events_delivered(&server, &backend);

    let before = backend.requests().len();
    let stranger = Authority::new();
    let server = Launch::default().set(&hook(&stranger)).start();
    drop(server.client());
    server.logs.await_line("invalid peer certificate");
    assert_eq!(backend.requests().len(), before, "the backend received nothing");
}

/// Ten channels become occupied and vacated repeatedly while the backend is slow.
#[test]
fn a_slow_backend_receives_channel_events_in_order() {
    const ROUNDS: usize = 30;
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_millis(20)));
    let server = launch_with_webhook(&backend, CHANNELS, "").start();
    let mut clients: Vec<_> = (0..2).map(|_| server.client()).collect();
    for round in 0..ROUNDS {
        for client in &mut clients {
            let channel = format!("c{}", round % 10);
            client.subscribe(&channel);
            client.request(&format!(r#"{{"id":9,"unsubscribe":{{"channel":"{channel}"}}}}"#));
        }
    }
    until("all events are accepted", || accepted_events(&backend).len() == 2 * 2 * ROUNDS);
    for channel in 0..10 {
        let channel = format!("c{channel}");
        let events: Vec<_> =
            accepted_events(&backend).into_iter().filter(|event| event["channel"] == channel).collect();
        assert_eq!(events.len(), 4 * ROUNDS / 10);
        for (index, event) in events.iter().enumerate() {
            let expected = if index.is_multiple_of(2) { "channel.occupied" } else { "channel.vacated" };
            assert_eq!(event["event"], expected, "{channel}: {events:?}");
        }
    }
    let_pass(Duration::from_millis(100));
    assert_eq!(accepted_events(&backend).len(), 4 * ROUNDS, "no event is repeated");
}
