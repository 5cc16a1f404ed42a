use std::time::SystemTime;

use encke_tests::raw::Dial;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{TIMEOUT, eventually, until};
use encke_tests::{Client, EventStream, PollClient, RawClient, RunningServer};
use serde_json::json;

use super::{await_held, await_polls, command_query, goaway, hello, message, open, poll_query};

#[test]
fn a_drain_sends_goaway() {
    let mut server = RunningServer::with(&["shutdown.drain=15s"]);
    let (mut requests, hello) = open(&server, "news");
    let (mut between, other) = open(&server, "news");
    requests.send_get(&poll_query(&hello, 0));
    await_held(&server, &hello);
    server.terminate();
    assert_eq!(goaway(&requests.response().json()), "draining");
    requests.await_end();
    between.await_end();
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    for session in [&hello.session, &other.session] {
        server.logs.await_lifecycle(session, &[("opened", "connect"), ("closed", "draining")]);
    }
}

#[test]
fn a_kicked_client_receives_the_reason() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    requests.send_get(&poll_query(&hello, 0));
    await_held(&server, &hello);
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    let answer = requests.response().json();
    assert_eq!(answer, json!([{"goaway": {"reason": "kicked", "retry_ms": 2_147_483_647}}]));
    // The connection stays usable for another session.
    assert_eq!(requests.post(&command_query(&hello), "[]").status, 410);
    assert!(!super::hello(&requests.get("channels=news").json()).recovered);
}

/// The connection that carried the notification may have broken without the server noticing.
#[test]
fn a_kicked_client_receives_the_reason_again_on_reconnect() {
    let server = RunningServer::with(&[]);
    let (mut requests, polling) = open(&server, "news");
    requests.send_get(&poll_query(&polling, 0));
    await_held(&server, &polling);
    let (_socket, other) = RawClient::greeted(server.public, "");
    for hello in [&polling, &other] {
        assert_eq!(server.admin.kick(&hello.session).status, 204);
        assert_eq!(Client::refusal_code(server.public, &format!("resume={}", hello.resume)), 4101);
        assert!(!server.resume(&hello.resume).hello.recovered);
    }
}

/// A session that is between polls or suspended has no connection to notify. The next connection is notified
/// once, regardless of its transport.
#[test]
fn the_next_poll_reports_a_kick_between_polls() {
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
        let answer = requests.get(&poll_query(&first, 0)).json();
        assert_eq!(answer, json!([{"goaway": {"reason": "kicked", "retry_ms": 2_147_483_647}}]));
        assert!(!super::hello(&requests.get(&poll_query(&first, 0)).json()).recovered);
        assert_eq!(Client::refusal_code(server.public, &format!("resume={}", second.resume)), 4101);
        let events = EventStream::reconnect(server.public, "", &format!("{}:0", third.resume)).to_end();
        assert!(events.last().is_some_and(|last| last.contains(r#""reason":"kicked""#)), "{events:?}");
    }
}

/// A flood of commands closes the session. The next poll reports the same reason as the commands.
#[test]
fn the_next_poll_reports_a_close_for_flooding() {
    let server = RunningServer::with(&["limits.commands_per_second=1"]);
    let (mut requests, hello) = open(&server, "news");
    let flood = format!("[{}]", [r#"{"presence":{"channel":"news"}}"#; 64].join(","));
    assert_eq!(goaway(&requests.post(&command_query(&hello), &flood).json()), "limit");
    assert_eq!(goaway(&requests.get(&poll_query(&hello, 0)).json()), "limit");
}

#[test]
fn a_disconnected_client_may_resume() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    requests.send_get(&poll_query(&hello, 0));
    await_held(&server, &hello);
    assert_eq!(server.admin.disconnect(&hello.session).status, 204);
    assert_eq!(goaway(&requests.response().json()), "disconnected");
    server.await_phase(&hello.session, "suspended");
    server.admin.publish("news", 1);
    assert_eq!(requests.get(&poll_query(&hello, 0)).json(), json!([message(1, 1, 1)]));
    let events = [("opened", "connect"), ("suspended", "disconnected"), ("resumed", "reconnect")];
    server.logs.await_lifecycle(&hello.session, &events);
}

#[test]
fn a_lifetime_passes_while_a_poll_is_held() {
    let server = RunningServer::with(&["session.lifetime=1s"]);
    let (mut requests, hello) = open(&server, "news");
    requests.send_get(&poll_query(&hello, 0));
    assert_eq!(goaway(&requests.response().json()), "lifetime");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("closed", "lifetime")]);
}

#[test]
fn a_token_expires_while_a_poll_is_held() {
    let server = RunningServer::with(&[&format!("auth.secret={SECRET}")]);
    let now = || {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is past 1970").as_secs()
    };
    let token =
        |exp: u64| sign(&json!({"sub": "alice", "exp": exp, "channels": {"*": ["subscribe"]}}), SECRET);
    let short = token(now() + 3);
    let mut requests = PollClient::connect(server.public);
    let hello = hello(&requests.get(&format!("channels=news&token={short}")).json());
    requests.send_get(&format!("{}&token={short}", poll_query(&hello, 0)));
    assert_eq!(goaway(&requests.response().json()), "token_expired");
    assert_eq!(requests.get(&format!("{}&token={short}", poll_query(&hello, 0))).status, 401);
    assert_eq!(requests.post(&command_query(&hello), r#"{"ack":{"seq":0}}"#).status, 401);
    server.admin.publish("news", 1);
    let long = token(now() + 1000);
    let answer = requests.get(&format!("{}&token={long}", poll_query(&hello, 0)));
    assert_eq!(answer.json(), json!([message(1, 1, 1)]));
    let events = [("opened", "connect"), ("suspended", "token_expired"), ("resumed", "reconnect")];
    server.logs.await_lifecycle(&hello.session, &events);
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
    // Another poll of the session may use the slot on another connection while the first poll is held.
    requests.send_get(&poll_query(&first, 3));
    await_held(&server, &first);
    let mut again = PollClient::connect(server.public);
    again.send_get(&poll_query(&first, 3));
    assert_eq!(requests.response().status, 409);
    assert_eq!(goaway(&third.get("channels=news").json()), "overloaded");
    requests.post(&command_query(&second), r#"{"close":{}}"#);
    let mut served = None;
    until("a connection slot is free", || {
        let answer = third.get("channels=news").json();
        served = answer[0]["hello"]["session"].as_str().map(ToOwned::to_owned);
        served.is_some()
    });
    assert_eq!(goaway(&PollClient::connect(server.public).get("channels=news").json()), "overloaded");
}

/// A session that stops polling frees its connection slot when it is suspended.
#[test]
fn a_suspended_session_frees_its_connection_slot() {
    let server = RunningServer::with(&["limits.max_connections=1", "session.poll_gap=1s"]);
    let (_requests, hello) = open(&server, "news");
    let mut other = PollClient::connect(server.public);
    assert_eq!(goaway(&other.get("").json()), "overloaded");
    server.await_phase(&hello.session, "suspended");
    let new = eventually("a connection slot is free", || {
        let answer = other.get("channels=news").json();
        answer[0]["hello"]["session"].as_str().map(ToOwned::to_owned)
    });
    assert_ne!(new, hello.session);
    assert_eq!(goaway(&PollClient::connect(server.public).get(&poll_query(&hello, 0)).json()), "overloaded");
}

/// A client that does not read its response is a slow consumer. It receives the unread messages after it
/// reconnects.
#[test]
fn an_unread_response_is_repeated() {
    const LONG: usize = 60_000;
    let server = RunningServer::with(&["session.write_timeout=1s", "limits.send_buffer=4KiB"]);
    let (_, hello) = open(&server, "news");
    for number in 1..=4 {
        server.admin.publish("news", format!("{number}{}", "x".repeat(LONG)));
    }
    let dial = Dial { receive_buffer: Some(2048), ..Dial::default() };
    let mut slow = PollClient::over(dial.connect(server.public));
    slow.send_get(&poll_query(&hello, 0));
    await_polls(&server, 1);
    await_polls(&server, 0);
    let mut requests = PollClient::connect(server.public);
    let mut seq = 0;
    while seq < 4 {
        for object in requests.get(&poll_query(&hello, seq)).json().as_array().expect("an array") {
            seq += 1;
            assert_eq!(object["message"]["seq"], seq);
        }
    }
    until("the slow connection is closed", || server.admin.metrics().sessions("attached") == 1.0);
    drop(slow);
    server.assert_healthy();
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
