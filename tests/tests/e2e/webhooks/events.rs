use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64;
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, until};
use encke_tests::{Backend, BackendRequest, RunningServer, tokens};
use ring::hmac;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{CHANNELS, SECRET, SESSIONS, accepted_events, await_request, await_session, launch_with_webhook};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_secs()
}

/// Verifies a signature as the Standard Webhooks specification requires of receivers.
#[track_caller]
pub(crate) fn assert_signed(request: &BackendRequest) {
    let header = |name| request.header(name).unwrap_or_else(|| panic!("no {name}"));
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let encoded = SECRET.strip_prefix("whsec_").expect("a secret has this prefix");
    let key = BASE64.decode(encoded.as_bytes()).expect("base64");
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let mut signed = format!("{id}.{timestamp}.").into_bytes();
    signed.extend(&request.body);
    let signature = BASE64.encode(hmac::sign(&key, &signed).as_ref());
    assert_eq!(header("webhook-signature"), format!("v1,{signature}"));
    let timestamp: u64 = timestamp.parse().expect("seconds");
    assert!(now() - timestamp <= TIMEOUT.as_secs(), "{timestamp}");
    assert_eq!(header("content-type"), "application/json");
}

#[test]
fn session_events_are_signed_and_in_order() {
    let backend = Backend::start();
    let server = launch_with_webhook(&backend, SESSIONS, "").start();
    let client = server.client();
    let session = client.hello.session.clone();
    let hello = client.drop_connection();
    server.await_phase(&session, "suspended");
    let first = server.resume(&hello.resume);
    let mut second = server.resume(&hello.resume);
    second.send(r#"{"close":{}}"#);
    await_session(
        &backend,
        &session,
        &[
            (1, "session.opened", "connect"),
            (2, "session.suspended", "connection_lost"),
            (3, "session.resumed", "reconnect"),
            (4, "session.resumed", "take_over"),
            (5, "session.closed", "client"),
        ],
    );
    drop(first);
    let requests = backend.requests();
    requests.iter().for_each(assert_signed);
    assert!(requests.iter().all(|request| request.path == "/encke"));
    let ids: Vec<_> = accepted_events(&backend).iter().map(|event| event["id"].to_string()).collect();
    assert!(ids.iter().enumerate().all(|(index, id)| !ids[..index].contains(id)), "{ids:?}");
}

#[test]
fn events_contain_only_applicable_fields() {
    let backend = Backend::start();
    let secret = format!("auth.secret={}", tokens::SECRET);
    let server = launch_with_webhook(&backend, &format!("{SESSIONS},{CHANNELS}"), "").set(&secret).start();
    let claims = json!({"sub": "al\"ice", "channels": {"*": ["subscribe"]}});
    let token = tokens::sign(&claims, tokens::SECRET);
    let mut client = encke_tests::Client::connect(server.public, &format!("token={token}"));
    client.subscribe("news");
    until("two events are accepted", || accepted_events(&backend).len() == 2);
    let mut events = accepted_events(&backend);
    for event in &mut events {
        let event = event.as_object_mut().expect("an object");
        let at_ms = event.remove("at_ms").and_then(|at| at.as_u64()).expect("at_ms");
        assert!(now().abs_diff(at_ms / 1000) <= TIMEOUT.as_secs(), "{at_ms}");
        assert!(event.remove("id").is_some_and(|id| id.is_string()));
    }
    let session = json!({"event": "session.opened", "number": 1, "session": client.hello.session, "user": "al\"ice", "reason": "connect"});
    let channel = json!({"event": "channel.occupied", "channel": "news"});
    for expected in [session, channel] {
        assert!(events.contains(&expected), "{expected} in {events:?}");
    }
}

#[test]
fn only_configured_events_are_sent() {
    let backend = Backend::start();
    let server = launch_with_webhook(&backend, r#""session.closed""#, "").start();
    let mut client = server.client();
    client.subscribe("news");
    client.send(r#"{"close":{}}"#);
    await_session(&backend, &client.hello.session, &[(2, "session.closed", "client")]);
    assert_eq!(accepted_events(&backend).len(), 1);
}

fn events_of_channel(backend: &Backend, channel: &str) -> Vec<Value> {
    let events = accepted_events(backend).into_iter().filter(|event| event["channel"] == channel);
    events.map(|mut event| event["event"].take()).collect()
}

#[test]
fn occupied_and_vacated_are_sent() {
    let backend = Backend::start();
    let server = launch_with_webhook(&backend, CHANNELS, "").set("session.reconnect_window=1s").start();
    let (mut first, mut second) = (server.client(), server.client());
    first.subscribe("news");
    second.subscribe("news");
    second.subscribe("/a/*");
    // A suspended session keeps its subscriptions until it expires.
    let hello = first.drop_connection();
    server.await_removal(&hello.session);
    second.request(r#"{"id":9,"unsubscribe":{"channel":"news"}}"#);
    second.subscribe("news");
    second.send(r#"{"close":{}}"#);
    let (occupied, vacated) = ("channel.occupied", "channel.vacated");
    until("all events of the channel are accepted", || {
        events_of_channel(&backend, "news") == [occupied, vacated, occupied, vacated]
    });
    until("all events of the pattern are accepted", || {
        events_of_channel(&backend, "/a/*") == [occupied, vacated]
    });
}

/// If sessions survive a restart, no events are lost or repeated.
#[test]
fn events_continue_after_a_restart() {
    let backend = Backend::start();
    let folder = TempDir::new().expect("a temporary directory can be created");
    let snapshot = format!("shutdown.snapshot={}", folder.path().join("snapshot").display());
    let start = || {
        let launch = launch_with_webhook(&backend, &format!("{SESSIONS},{CHANNELS}"), "").set(&snapshot);
        launch.set("session.reconnect_window=2s").start()
    };
    let mut server = start();
    let mut client = server.client();
    client.subscribe("news");
    server.terminate();
    assert!(server.await_exit(TIMEOUT).success());
    let server = start();
    server.await_removal(&client.hello.session);
    let session = &client.hello.session;
    await_session(
        &backend,
        session,
        &[
            (1, "session.opened", "connect"),
            (2, "session.suspended", "moved"),
            (3, "session.expired", "reconnect_window"),
        ],
    );
    until("all events of the channel are accepted", || {
        events_of_channel(&backend, "news") == ["channel.occupied", "channel.vacated"]
    });
}

#[test]
fn events_during_a_drain_are_sent() {
    const SESSIONS_OPEN: usize = 300;
    let backend = Backend::start();
    let mut server = launch_with_webhook(&backend, r#""session.closed""#, "").start();
    let clients: Vec<_> = (0..SESSIONS_OPEN).map(|_| server.client()).collect();
    server.terminate();
    // The clients do not answer, so closing their connections takes `close_timeout`.
    assert!(server.await_exit(TIMEOUT).success());
    let closed = accepted_events(&backend);
    assert_eq!(closed.len(), SESSIONS_OPEN);
    for client in &clients {
        assert!(
            closed
                .iter()
                .any(|event| event["session"] == client.hello.session && event["reason"] == "draining")
        );
    }
}

#[test]
fn simultaneous_events_share_a_request() {
    let backend = Backend::start();
    let server = launch_with_webhook(&backend, CHANNELS, "").set("limits.commands_per_second=1000").start();
    let mut client = server.client();
    for number in 0..120 {
        client.send(&format!(r#"{{"subscribe":{{"channel":"c{number}"}}}}"#));
    }
    client.send(r#"{"close":{}}"#);
    until("all events are accepted", || accepted_events(&backend).len() == 240);
    let requests = backend.requests().len();
    assert!(requests < 240, "{requests}");
    assert!(
        backend
            .requests()
            .iter()
            .all(|request| request.json()["events"].as_array().is_some_and(|it| it.len() <= 100))
    );
}

#[test]
fn events_are_sent_promptly() {
    let backend = Backend::start();
    let server: RunningServer = launch_with_webhook(&backend, SESSIONS, "").start();
    let from = std::time::Instant::now();
    let client = server.client();
    let request = await_request(&backend, "the event", |request| {
        request.json()["events"][0]["session"] == client.hello.session
    });
    let after = request.received_at - from;
    assert!(after < Duration::from_millis(50) + MAX_LATENESS, "{after:?}");
}
