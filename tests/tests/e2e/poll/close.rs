use encke_tests::tokens::{token, unix_time};
use encke_tests::waiting::until;
use encke_tests::{Client, EventStream, PollClient, RawClient, RunningServer};
use serde_json::json;

use super::{command_query, goaway, hello, message, open, poll_query};

#[test]
fn a_drain_sends_goaway() {
    let mut server = RunningServer::with(&["shutdown.drain=15s"]);
    let (mut requests, hello) = open(&server, "news");
    let (mut between, other) = open(&server, "news");
    requests.send_get(&poll_query(&hello, 0));
    server.await_held(&hello.session);
    server.terminate();
    assert_eq!(goaway(&requests.response().json()), "draining");
    requests.await_end_without_response();
    between.await_end_without_response();
    assert_eq!(server.await_exit().code(), Some(0));
    for session in [&hello.session, &other.session] {
        server.await_lifecycle(session, "opened connect, closed draining");
    }
}

/// A held poll receives the reason for its end, and its connection stays usable. A session that is between
/// polls or suspended has no connection to notify, and the connection of a poll or a WebSocket may have broken
/// without the server noticing: the next connection is notified once, regardless of its transport.
#[test]
fn a_kicked_client_receives_the_reason() {
    let kicked = json!([{"goaway": {"reason": "kicked", "retry_ms": 2_147_483_647}}]);
    for (gap, phase) in [("60s", "attached"), ("1s", "suspended")] {
        let server = RunningServer::with(&[&format!("session.poll_gap={gap}")]);
        let (mut requests, first) = open(&server, "news");
        let (_, second) = open(&server, "news");
        let (_, third) = open(&server, "news");
        for hello in [&first, &second, &third] {
            server.await_phase(&hello.session, phase);
            assert_eq!(server.admin.kick(&hello.session).status, 204);
        }
        assert_eq!(requests.post(&command_query(&first), "[]").status, 410);
        assert_eq!(requests.get(&poll_query(&first, 0)).json(), kicked);
        assert!(!super::hello(&requests.get(&poll_query(&first, 0)).json()).recovered);
        assert_eq!(Client::refusal_code(server.public, &format!("resume={}", second.resume)), 4101);
        let events = EventStream::reconnect(server.public, "", &format!("{}:0", third.resume)).to_end();
        assert!(events.last().is_some_and(|last| last.contains(r#""reason":"kicked""#)), "{events:?}");
    }
    let server = RunningServer::with(&[]);
    let (mut requests, polling) = open(&server, "news");
    let (_socket, other) = RawClient::greeted(server.public, "");
    requests.send_get(&poll_query(&polling, 0));
    server.await_held(&polling.session);
    assert_eq!(server.admin.disconnect(&polling.session).status, 204);
    assert_eq!(goaway(&requests.response().json()), "disconnected");
    server.await_phase(&polling.session, "suspended");
    requests.send_get(&poll_query(&polling, 0));
    server.await_phase(&polling.session, "attached");
    for hello in [&polling, &other] {
        assert_eq!(server.admin.kick(&hello.session).status, 204);
        assert_eq!(Client::refusal_code(server.public, &format!("resume={}", hello.resume)), 4101);
        assert!(!server.resume(&hello.resume).hello.recovered);
    }
    assert_eq!(requests.response().json(), kicked);
    assert!(!super::hello(&requests.get("channels=news").json()).recovered);
}

#[test]
fn a_token_expires_while_a_poll_is_held() {
    let server = RunningServer::with_tokens(&[]);
    let expiring_in = |seconds: u64| token("alice", json!({"exp": unix_time().as_secs() + seconds}));
    let short = expiring_in(4);
    let mut requests = PollClient::connect(server.public);
    let hello = hello(&requests.get(&format!("channels=news&token={short}")).json());
    requests.send_get(&format!("{}&token={short}", poll_query(&hello, 0)));
    assert_eq!(goaway(&requests.response().json()), "token_expired");
    assert_eq!(requests.get(&format!("{}&token={short}", poll_query(&hello, 0))).status, 401);
    assert_eq!(requests.post(&command_query(&hello), r#"{"ack":{"seq":0}}"#).status, 401);
    server.admin.publish("news", 1);
    let long = expiring_in(1000);
    let answer = requests.get(&format!("{}&token={long}", poll_query(&hello, 0)));
    assert_eq!(answer.json(), json!([message(1, 1, 1)]));
    server.await_lifecycle(&hello.session, "opened connect, suspended token_expired, resumed reconnect");
}

/// A session keeps its connection slot between polls.
#[test]
fn polling_sessions_count_as_connections() {
    let server = RunningServer::with(&["limits.max_connections=2", "session.poll_gap=30s"]);
    let (mut requests, first) = open(&server, "news");
    let (other, second) = open(&server, "news");
    drop(other);
    let mut third = PollClient::connect(server.public);
    assert_eq!(goaway(&third.get("channels=news").json()), "overloaded");
    assert_eq!(Client::refusal_code(server.public, ""), 4005);
    for seq in 0..3 {
        server.admin.publish("news", seq);
        assert_eq!(requests.get(&poll_query(&first, seq)).json(), json!([message(seq + 1, seq + 1, seq)]));
    }
    requests.post(&command_query(&second), r#"{"close":{}}"#);
    until("a connection slot is free", || third.get("channels=news").json()[0]["hello"].is_object());
    assert_eq!(goaway(&PollClient::connect(server.public).get("channels=news").json()), "overloaded");
}

/// However early a client disconnects, the server notices and frees the session's connection slot.
#[test]
fn an_early_disconnect_frees_the_connection_slot() {
    const CLIENTS: usize = 500;
    let server = RunningServer::with(&["session.poll_gap=1s", "session.reconnect_window=3s"]);
    for path in ["poll", "events"] {
        for number in 0..CLIENTS {
            let mut client = RawClient::connect(server.public);
            client.send(format!("GET /{path}?channels=news HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes());
            if number % 2 == 0 {
                client.reset();
            }
        }
    }
    until("all sessions are suspended or closed", || server.admin.metrics().sessions("attached") == 0.0);
    until("all sessions are closed", || server.admin.metrics().sessions("suspended") == 0.0);
}
