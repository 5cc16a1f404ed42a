use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use encke_tests::port::listen;
use encke_tests::server::FREQUENT_PINGS;
use encke_tests::waiting::{eventually_within, let_pass, until};
use encke_tests::{Backend, BackendReply, Launch, RunningServer};

use super::{
    CHANNELS, SESSIONS, accepted_events, accepted_requests, await_request, await_session, events_of_channel,
    events_of_session, launch_with_webhook, webhook,
};

/// Opens and closes a session and waits until the backend has accepted both events.
#[track_caller]
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
fn each_problem_is_logged_once_with_its_cause() {
    let backend = Backend::start();
    let attempts = AtomicUsize::new(0);
    backend.reply_with(move |_| match attempts.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => BackendReply::status(503),
        _ => BackendReply { status: 401, ..BackendReply::json("bad signature") },
    });
    let server = launch_with_webhook(&backend, r#""session.opened""#, "").start();
    let _client = server.client();
    let line = server.logs.await_line("answered 401");
    assert_eq!(server.logs.count("webhook request failed"), 2, "{}", server.logs.text());
    for part in [
        "the receiver answered 401: it may have another secret than webhook.secret",
        "/encke",
        "bad signature",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn events_reach_a_backend_that_starts_later() {
    // Keep the port reserved.
    let (listener, address) = listen();
    let hook = webhook(&format!("http://{address}/"), SESSIONS, r#",timeout="300ms""#);
    let server = Launch::with(&[&format!("webhook=[{hook}]")]).start();
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
    const OPENED: usize = 100;
    let backend = Backend::start();
    backend.reply_with_status(503);
    let launch = launch_with_webhook(&backend, r#""session.opened""#, &format!(",max_queued={MAX_QUEUED}"));
    let server = launch.start();
    let _clients: Vec<_> = (0..OPENED).map(|_| server.client()).collect();
    let overflowed = r#"encke_webhook_events_total{webhook="0",outcome="overflowed"}"#;
    until("all other events are dropped", || {
        server.admin.metrics().value(overflowed) == (OPENED - MAX_QUEUED) as f64
    });
    assert_eq!(server.admin.metrics().value(r#"encke_webhook_queued{webhook="0"}"#), MAX_QUEUED as f64);
    backend.reply_with_status(200);
    until("the queued events are accepted", || accepted_events(&backend).len() == MAX_QUEUED);
    // A lane whose request was in progress when events were dropped reports them with its next request.
    let reported_drops = || -> u64 {
        accepted_requests(&backend).filter_map(|request| request.json()["dropped"].as_u64()).sum()
    };
    let mut more = 0;
    until("the number of dropped events is reported", || {
        drop(server.client());
        more += 1;
        reported_drops() == (OPENED - MAX_QUEUED) as u64
    });
    until("one event more for each session", || accepted_events(&backend).len() == MAX_QUEUED + more);
    assert_eq!(reported_drops(), (OPENED - MAX_QUEUED) as u64, "it is reported once");
}

#[test]
fn events_dropped_after_retry_for_are_reported() {
    let backend = Backend::start();
    backend.reply_with_status(503);
    let server = launch_with_webhook(&backend, CHANNELS, r#",retry_for="1s""#).start();
    let mut client = server.client();
    client.subscribe("news");
    server.logs.await_line("webhook events dropped");
    backend.reply_with_status(200);
    client.request(r#"{"id":9,"unsubscribe":{"channel":"news"}}"#);
    let request = await_request(&backend, "the next event", |request| request.status == Some(200)).json();
    assert_eq!((&request["dropped"], &request["events"][0]["event"]), (&1.into(), &"channel.vacated".into()));
    client.subscribe("news");
    until("the event after that is accepted", || accepted_events(&backend).len() == 2);
    let last = backend.requests().last().expect("a request").json();
    assert_eq!(last.get("dropped"), None, "the loss was reported before");
    assert_eq!(server.admin.metrics().value(r#"encke_webhook_queued{webhook="0"}"#), 0.0);
}

#[test]
fn a_hanging_backend_delays_only_its_own_events() {
    let (hanging, healthy) = (Backend::start(), Backend::start());
    hanging.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_secs(60)));
    let hooks = [(&hanging, r#",name="hanging""#), (&healthy, r#",name="healthy""#)]
        .map(|(backend, name)| webhook(&backend.url("/"), SESSIONS, name));
    let hooks = format!("webhook=[{}]", hooks.join(","));
    let mut server = Launch::with(&FREQUENT_PINGS).set(&hooks).set("shutdown.drain=2s").start();
    let client = server.client().into_background();
    (0..20).for_each(|_| assert_session_events_delivered(&server, &healthy));
    client.await_more_pings(1);
    assert!(!client.has_ended());
    server.terminate();
    assert!(server.await_exit().success(), "the shutdown does not wait for the response");
    server.logs.await_line("undelivered webhook events were lost");
}

/// Sessions with a subscription are disconnected, resumed or expired while the backend is down most of the
/// time. Each event is delivered once, and the events of each session and channel are in order.
#[test]
fn events_are_delivered_once_despite_backend_downtime() {
    const COUNT: usize = 100;
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_millis(5)));
    let launch = launch_with_webhook(&backend, &format!("{SESSIONS},{CHANNELS}"), "");
    let server = launch.set("session.reconnect_window=1s").start();
    let mut clients = Vec::new();
    for number in 0..COUNT {
        if number == COUNT / 4 {
            backend.reply_with(|_| BackendReply::status(0));
        }
        let mut client = server.client();
        client.subscribe(&format!("c{number}"));
        clients.push(client);
    }
    let sessions: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, client)| {
            let hello = server.suspend(client);
            if number % 3 == 0 {
                server.resume(&hello.resume).send(r#"{"close":{}}"#);
            }
            hello.session
        })
        .collect();
    sessions.iter().for_each(|session| server.await_removal(session));
    backend.reply_with_status(200);
    let closed = COUNT.div_ceil(3);
    let events = 6 * closed + 5 * (COUNT - closed);
    // The delay between attempts is at most 30 s.
    let all = eventually_within(Duration::from_secs(60), "all events are accepted", || {
        let all = accepted_events(&backend);
        (all.len() >= events).then_some(all)
    });
    for (number, session) in sessions.iter().enumerate() {
        let (opened, suspended) =
            ((1, "session.opened", "connect"), (2, "session.suspended", "connection_lost"));
        let expected = if number % 3 == 0 {
            &[opened, suspended, (3, "session.resumed", "reconnect"), (4, "session.closed", "client")][..]
        } else {
            &[opened, suspended, (3, "session.expired", "reconnect_window")]
        };
        assert_eq!(events_of_session(&all, session), expected);
        let of_channel = events_of_channel(&all, &format!("c{number}"));
        assert_eq!(of_channel, ["channel.occupied", "channel.vacated"]);
    }
    let ids: HashSet<_> = all.iter().map(|event| event["id"].to_string()).collect();
    assert_eq!((all.len(), ids.len()), (events, events), "every event once");
    let_pass(Duration::from_millis(100));
    assert_eq!(accepted_events(&backend).len(), events);
}
