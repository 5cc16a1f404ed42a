use std::collections::HashSet;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use encke_tests::tokens::{self, unix_time};
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, until};
use encke_tests::{Backend, BackendRequest};
use ring::hmac;
use serde_json::json;
use tempfile::TempDir;

use super::{
    CHANNELS, SECRET, SESSIONS, accepted_events, await_channel, await_request, await_session,
    launch_with_webhook,
};

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
    assert!(unix_time().as_secs() - timestamp <= TIMEOUT.as_secs(), "{timestamp}");
    assert_eq!(header("content-type"), "application/json");
}

#[test]
fn session_events_are_signed_prompt_and_in_order() {
    let backend = Backend::start();
    let server = launch_with_webhook(&backend, SESSIONS, "").start();
    let from = Instant::now();
    let client = server.client();
    let session = client.hello.session.clone();
    let first = await_request(&backend, "the first event", |_| true);
    assert!(first.received_at - from < Duration::from_millis(50) + MAX_LATENESS);
    let hello = server.suspend(client);
    let _first = server.resume(&hello.resume);
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
    let requests = backend.requests();
    requests.iter().for_each(assert_signed);
    assert!(requests.iter().all(|request| request.path == "/encke"));
    let ids: HashSet<_> = accepted_events(&backend).iter().map(|event| event["id"].to_string()).collect();
    assert_eq!(ids.len(), 5, "{ids:?}");
}

#[test]
fn events_contain_only_applicable_fields() {
    let backend = Backend::start();
    let secret = format!("auth.secret={}", tokens::SECRET);
    let server = launch_with_webhook(&backend, &format!("{SESSIONS},{CHANNELS}"), "").set(&secret).start();
    let mut client = server.client_of("al\"ice");
    client.subscribe("news");
    until("two events are accepted", || accepted_events(&backend).len() == 2);
    let mut events = accepted_events(&backend);
    for event in &mut events {
        let event = event.as_object_mut().expect("an object");
        let at_ms = event.remove("at_ms").and_then(|at| at.as_u64()).expect("at_ms");
        assert!(unix_time().as_secs().abs_diff(at_ms / 1000) <= TIMEOUT.as_secs(), "{at_ms}");
        assert!(event.remove("id").is_some_and(|id| id.is_string()));
    }
    let session = json!({
        "event": "session.opened", "number": 1, "session": client.hello.session, "user": "al\"ice",
        "reason": "connect",
    });
    let channel = json!({"event": "channel.occupied", "channel": "news"});
    for expected in [session, channel] {
        assert!(events.contains(&expected), "{expected} in {events:?}");
    }
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
    server.stop();
    let server = start();
    let session = &client.hello.session;
    server.await_removal(session);
    await_session(
        &backend,
        session,
        &[
            (1, "session.opened", "connect"),
            (2, "session.suspended", "moved"),
            (3, "session.expired", "reconnect_window"),
        ],
    );
    await_channel(&backend, "news", &["channel.occupied", "channel.vacated"]);
}

/// Simultaneous events share requests. Events that are not configured are not sent.
#[test]
fn events_during_a_drain_are_sent() {
    const SESSIONS_OPEN: usize = 200;
    let backend = Backend::start();
    let launch = launch_with_webhook(&backend, r#""session.closed""#, "");
    let mut server = launch.set("session.close_timeout=100ms").start();
    let clients: Vec<_> = (0..SESSIONS_OPEN).map(|_| server.client()).collect();
    server.terminate();
    // The clients do not answer, so closing their connections takes `close_timeout`.
    assert!(server.await_exit().success());
    let closed: HashSet<_> = accepted_events(&backend)
        .iter()
        .map(|event| [&event["event"], &event["session"], &event["reason"]].map(ToString::to_string))
        .collect();
    let expected = clients.iter().map(|client| {
        [json!("session.closed"), json!(client.hello.session), json!("draining")].map(|it| it.to_string())
    });
    assert_eq!(closed, expected.collect());
    let requests = backend.requests();
    let sizes: Vec<_> = requests.iter().map(|it| it.json()["events"].as_array().map(Vec::len)).collect();
    assert!(sizes.len() < SESSIONS_OPEN && sizes.iter().all(|size| *size <= Some(100)), "{sizes:?}");
}
