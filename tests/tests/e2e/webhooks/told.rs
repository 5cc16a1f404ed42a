use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64;
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, until};
use encke_tests::{BackendRequest, Backend, RunningServer, tokens};
use ring::hmac;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{CHANNELS, SECRET, SESSIONS, accepted, await_asked, await_session, telling};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs()
}

/// As the backend of the specification would look at it.
#[track_caller]
pub(crate) fn assert_signed(asked: &BackendRequest) {
    let header = |name| asked.header(name).unwrap_or_else(|| panic!("no {name}"));
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let encoded = SECRET.strip_prefix("whsec_").expect("its prefix");
    let key = BASE64.decode(encoded.as_bytes()).expect("base64");
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let mut signed = format!("{id}.{timestamp}.").into_bytes();
    signed.extend(&asked.body);
    let signature = BASE64.encode(hmac::sign(&key, &signed).as_ref());
    assert_eq!(header("webhook-signature"), format!("v1,{signature}"));
    let timestamp: u64 = timestamp.parse().expect("seconds");
    assert!(now() - timestamp <= TIMEOUT.as_secs(), "{timestamp}");
    assert_eq!(header("content-type"), "application/json");
}

#[test]
fn the_life_of_a_session_is_told_in_order_and_signed() {
    let backend = Backend::start();
    let server = telling(&backend, SESSIONS, "").start();
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
    let asked = backend.requests();
    asked.iter().for_each(assert_signed);
    assert!(asked.iter().all(|asked| asked.path == "/encke"));
    let ids: Vec<_> = accepted(&backend).iter().map(|event| event["id"].to_string()).collect();
    assert!(ids.iter().enumerate().all(|(index, id)| !ids[..index].contains(id)), "{ids:?}");
}

#[test]
fn an_event_says_what_applies_and_nothing_else() {
    let backend = Backend::start();
    let secret = format!("auth.secret={}", tokens::SECRET);
    let server = telling(&backend, &format!("{SESSIONS},{CHANNELS}"), "").set(&secret).start();
    let claims = json!({"sub": "al\"ice", "channels": {"*": ["subscribe"]}});
    let token = tokens::sign(&claims, tokens::SECRET);
    let mut client = encke_tests::Client::connect(server.public, &format!("token={token}"));
    client.subscribe("news");
    until("two events", || accepted(&backend).len() == 2);
    let mut events = accepted(&backend);
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
fn only_what_is_asked_for_is_told() {
    let backend = Backend::start();
    let server = telling(&backend, r#""session.closed""#, "").start();
    let mut client = server.client();
    client.subscribe("news");
    client.send(r#"{"close":{}}"#);
    await_session(&backend, &client.hello.session, &[(2, "session.closed", "client")]);
    assert_eq!(accepted(&backend).len(), 1);
}

fn of_channel(backend: &Backend, channel: &str) -> Vec<Value> {
    let events = accepted(backend).into_iter().filter(|event| event["channel"] == channel);
    events.map(|mut event| event["event"].take()).collect()
}

#[test]
fn the_first_and_the_last_of_a_channel_are_told() {
    let backend = Backend::start();
    let server = telling(&backend, CHANNELS, "").set("session.reconnect_window=1s").start();
    let (mut first, mut second) = (server.client(), server.client());
    first.subscribe("news");
    second.subscribe("news");
    second.subscribe("/a/*");
    // A session without a connection follows on, until it expires.
    let hello = first.drop_connection();
    server.await_removal(&hello.session);
    second.request(r#"{"id":9,"unsubscribe":{"channel":"news"}}"#);
    second.subscribe("news");
    second.send(r#"{"close":{}}"#);
    let (occupied, vacated) = ("channel.occupied", "channel.vacated");
    until("the channel's events", || of_channel(&backend, "news") == [occupied, vacated, occupied, vacated]);
    until("the pattern's events", || of_channel(&backend, "/a/*") == [occupied, vacated]);
}

/// Nothing is told twice or not at all over a restart that sessions survive.
#[test]
fn a_restart_goes_on_where_the_process_before_has_ended() {
    let backend = Backend::start();
    let folder = TempDir::new().expect("a folder");
    let snapshot = format!("shutdown.snapshot={}", folder.path().join("snapshot").display());
    let start = || {
        let launch = telling(&backend, &format!("{SESSIONS},{CHANNELS}"), "").set(&snapshot);
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
    until("the channel's events", || of_channel(&backend, "news") == ["channel.occupied", "channel.vacated"]);
}

#[test]
fn what_happens_while_the_server_drains_is_told() {
    const SESSIONS_OPEN: usize = 300;
    let backend = Backend::start();
    let mut server = telling(&backend, r#""session.closed""#, "").start();
    let clients: Vec<_> = (0..SESSIONS_OPEN).map(|_| server.client()).collect();
    server.terminate();
    // The clients do nothing, so their connections take close_timeout to end.
    assert!(server.await_exit(TIMEOUT).success());
    let closed = accepted(&backend);
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
fn events_that_come_together_share_a_request() {
    let backend = Backend::start();
    let server = telling(&backend, CHANNELS, "").set("limits.commands_per_second=1000").start();
    let mut client = server.client();
    for number in 0..120 {
        client.send(&format!(r#"{{"subscribe":{{"channel":"c{number}"}}}}"#));
    }
    client.send(r#"{"close":{}}"#);
    until("all events", || accepted(&backend).len() == 240);
    let requests = backend.requests().len();
    assert!(requests < 240, "{requests}");
    assert!(
        backend
            .requests()
            .iter()
            .all(|asked| asked.json()["events"].as_array().is_some_and(|it| it.len() <= 100))
    );
}

#[test]
fn an_event_is_told_soon() {
    let backend = Backend::start();
    let server: RunningServer = telling(&backend, SESSIONS, "").start();
    let from = std::time::Instant::now();
    let client = server.client();
    let asked = await_asked(&backend, "the event", |asked| {
        asked.json()["events"][0]["session"] == client.hello.session
    });
    let after = asked.received_at - from;
    assert!(after < Duration::from_millis(50) + MAX_LATENESS, "{after:?}");
}
