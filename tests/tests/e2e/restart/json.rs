use encke_tests::tokens::{SECRET, token};
use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Client, EventStream, Hello, PollClient, RawClient, ServerOutput};
use serde_json::{Value, json};

use super::{MOVED, RestartableServer};
use crate::poll::{open, poll_query};

/// Asserts that the client is advised to reconnect soon and is disconnected.
#[track_caller]
fn assert_moved(client: &mut Client) {
    let goaway = client.object()["goaway"].clone();
    assert_eq!(goaway["reason"], "moved");
    assert!(goaway["retry_ms"].as_u64().is_some_and(|retry_ms| retry_ms < 2_000), "{goaway}");
    assert_eq!(client.next_within(TIMEOUT), Some(ServerOutput::Close(MOVED, "moved".into())));
}

/// Resumes the session with a client that has received messages up to `seq`.
#[track_caller]
pub(crate) fn resume_session(restarts: &RestartableServer, hello: &Hello, seq: u64) -> Client {
    let query = format!("resume={}&seq={seq}", hello.resume);
    let client = Client::connect(restarts.server.public, &query);
    assert!(client.hello.recovered, "{:?}", client.hello);
    assert_eq!((&client.hello.session, &client.hello.resume), (&hello.session, &hello.resume));
    client
}

/// Returns the seq, offset and data of the next message.
#[track_caller]
pub(crate) fn next_message(client: &mut Client) -> (u64, u64, Value) {
    let object = client.object();
    let number = |name: &str| object["message"][name].as_u64().unwrap_or_else(|| panic!("{object}"));
    (number("seq"), number("offset"), object["message"]["data"].clone())
}

#[test]
fn a_websocket_session_survives_two_restarts() {
    let mut restarts = RestartableServer::with(&[]);
    let mut client = restarts.server.client();
    let hello = client.hello.clone();
    let epoch = client.subscribe("news");
    restarts.server.admin.publish_each("news", 1..=3);
    for number in 1..=3 {
        assert_eq!(next_message(&mut client), (number, number, json!(number)));
    }
    restarts.server.terminate();
    assert_moved(&mut client);
    restarts.server.await_exit();
    restarts.server.await_lifecycle(&hello.session, "opened connect, suspended moved");
    restarts.start();
    restarts.server.await_phase(&hello.session, "suspended");
    // No client is connected yet.
    assert_eq!(restarts.server.admin.publish("news", 4)["offset"], 4);
    // The client has not received the last message.
    let mut client = resume_session(&restarts, &hello, 2);
    for number in 3..=4 {
        assert_eq!(next_message(&mut client), (number, number, json!(number)));
    }
    assert_eq!(client.subscribe("news"), epoch, "the session is already subscribed");
    restarts.server.admin.publish("news", 5);
    assert_eq!(next_message(&mut client), (5, 5, json!(5)));
    restarts.restart();
    // Restart a second time without the client having reconnected.
    restarts.restart();
    restarts.server.admin.publish("news", 6);
    let mut client = resume_session(&restarts, &hello, 5);
    assert_eq!(next_message(&mut client), (6, 6, json!(6)));
    restarts.server.await_lifecycle(&hello.session, "resumed reconnect");
    client.close();
    restarts.restart();
    let lost = Client::connect(restarts.server.public, &format!("resume={}", hello.resume));
    assert!(!lost.hello.recovered, "the session is closed");
}

/// A reconnect window continues in the next process. A client whose session was kicked, before or after a
/// restart, receives the reason when it reconnects.
#[test]
fn suspended_sessions_expire_or_can_be_kicked() {
    let mut restarts = RestartableServer::with(&["session.reconnect_window=5s"]);
    let expires = restarts.server.suspended_session();
    restarts.restart();
    restarts.server.await_removal(&expires.session);
    restarts.server.await_lifecycle(&expires.session, "expired reconnect_window");

    let mut restarts = RestartableServer::with(&[]);
    let sessions = [restarts.server.suspended_session(), restarts.server.suspended_session()];
    for hello in &sessions {
        assert_eq!(restarts.server.admin.kick(&hello.session).status, 204);
        restarts.restart();
    }
    for hello in &sessions {
        let query = format!("resume={}", hello.resume);
        assert_eq!(Client::refusal_code(restarts.server.public, &query), 4101);
        assert!(!restarts.server.resume(&hello.resume).hello.recovered);
    }
}

/// The channel has no subscribers and no messages any more when the server stops.
#[test]
fn a_removed_channel_keeps_its_position() {
    let mut restarts = RestartableServer::with(&["channel.history_age=100ms"]);
    let mut client = restarts.server.client();
    let epoch = client.subscribe("quiet");
    restarts.server.admin.publish("quiet", 1);
    assert_eq!(client.message()["offset"], 1);
    client.close();
    until("the channel is removed", || restarts.server.admin.metrics().value("encke_channels") == 0.0);
    for (since, recovered) in [(1, true), (0, false)] {
        restarts.stop();
        let shown = restarts.show_snapshot().stdout;
        assert!(shown.ends_with("sessions, positions of 1 removed channels\n"), "{shown}");
        restarts.start();
        let mut client = restarts.server.client();
        let since = json!({"epoch": epoch, "offset": since});
        let reply = client.request(json!({"id": 1, "subscribe": {"channel": "quiet", "since": since}}));
        let expected = json!({"channel": "quiet", "epoch": epoch, "offset": 1, "recovered": recovered});
        assert_eq!(reply["ok"], expected, "{reply}");
        client.close();
        until("the channel is removed", || restarts.server.admin.metrics().value("encke_channels") == 0.0);
    }
}

/// Tests a channel with its own messages, and a channel that shares its messages with a pattern.
#[test]
fn messages_keep_their_users_and_times_after_a_restart() {
    let secret = format!("auth.secret={SECRET}");
    let settings = [&secret, "namespace=[{prefix='/a/', at_ms=true}]"];
    let mut restarts = RestartableServer::with(&settings);
    let connect = |restarts: &RestartableServer| restarts.server.client_of("al \"ice\"");
    let mut subscriber = connect(&restarts);
    subscriber.subscribe("/a/*");
    for channel in ["news", "/a/b"] {
        connect(&restarts).publish(channel, [1]);
        restarts.server.admin.publish(channel, 2);
    }
    let at_ms =
        [subscriber.object(), subscriber.object()].map(|mut object| object["message"]["at_ms"].take());
    assert!(at_ms.iter().all(Value::is_u64), "{at_ms:?}");
    restarts.restart();
    for channel in ["news", "/a/b", "/a/*"] {
        let mut client = connect(&restarts);
        client.request(json!({"id": 1, "subscribe": {"channel": channel, "last": 2}}));
        let messages = [client.object(), client.object()];
        let of = |name: &str| messages.each_ref().map(|object| object["message"][name].clone());
        assert_eq!(of("user"), [json!("al \"ice\""), Value::Null], "{channel}");
        let times = if channel == "news" { [Value::Null, Value::Null] } else { at_ms.clone() };
        assert_eq!(of("at_ms"), times, "{channel}");
    }
}

#[test]
fn an_event_stream_resumes_by_its_last_id() {
    let mut restarts = RestartableServer::with(&[]);
    let (mut events, hello) = EventStream::greeted(restarts.server.public, "channels=news");
    restarts.server.admin.publish("news", 1);
    let (id, _) = events.object();
    restarts.server.terminate();
    let end = events.to_end().join("\n");
    assert!(end.contains(r#"{"goaway":{"reason":"moved","retry_ms":"#), "{end}");
    restarts.server.await_exit();
    restarts.start();
    restarts.server.admin.publish("news", 2);
    let id = id.expect("messages have ids");
    let mut events = EventStream::reconnect(restarts.server.public, "channels=news", &id);
    let again = events.hello();
    assert!(again.recovered);
    assert_eq!(again.session, hello.session);
    assert_eq!(events.object().1["message"]["data"], 2);
}

#[test]
fn a_held_poll_is_answered_and_its_session_continues() {
    let mut restarts = RestartableServer::with(&[]);
    let (mut requests, hello) = open(&restarts.server, "news");
    restarts.server.admin.publish("news", 1);
    assert_eq!(requests.get(&poll_query(&hello, 0)).json()[0]["message"]["data"], 1);
    requests.send_get(&poll_query(&hello, 1));
    restarts.server.await_held(&hello.session);
    restarts.server.terminate();
    let answer = requests.response().json();
    assert_eq!(answer[0]["goaway"]["reason"], "moved", "{answer}");
    restarts.server.await_exit();
    restarts.start();
    restarts.server.admin.publish("news", 2);
    let answer = PollClient::connect(restarts.server.public).get(&poll_query(&hello, 1)).json();
    assert_eq!(answer.as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!(answer[0]["message"]["data"], 2);
}

/// While one client delays the drain, no message may be published and no session kicked: the other sessions,
/// which are already in the snapshot, would miss it.
#[test]
fn publishing_and_kicking_are_refused_while_draining() {
    let mut restarts = RestartableServer::with(&["shutdown.drain=60s", "session.close_timeout=60s"]);
    let (mut staying, hello) = RawClient::greeted(restarts.server.public, "");
    restarts.server.terminate();
    staying.object();
    assert_eq!(staying.close_code(), MOVED);
    let admin = restarts.server.admin;
    let publish = admin.post("/api/publish", r#"{"channel":"news","data":1}"#);
    for answer in [publish, admin.kick(&hello.session)] {
        answer.assert_error(503, "draining");
    }
    assert_eq!(admin.phase(&hello.session).as_deref(), Some("suspended"));
    drop(staying);
    assert_eq!(restarts.server.await_exit().code(), Some(0));
    restarts.start();
    resume_session(&restarts, &hello, 0);
}

/// The snapshot contains only digests of secrets.
#[test]
fn the_resume_secret_is_still_required() {
    let mut restarts = RestartableServer::with(&[]);
    let hello = restarts.server.suspended_session();
    let (id, secret) = hello.resume.split_once('.').expect("a resume token has a dot");
    restarts.stop();
    let bytes = std::fs::read(restarts.path()).expect("the file can be read");
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    let raw = data_encoding::BASE64URL_NOPAD.decode(secret.as_bytes()).expect("base64");
    assert!(!has(secret.as_bytes()) && !has(&raw), "the file contains the secret");
    restarts.start();
    let wrong = format!("{id}.{}", "A".repeat(secret.len()));
    let stranger = Client::connect(restarts.server.public, &format!("resume={wrong}"));
    assert!(!stranger.hello.recovered);
    resume_session(&restarts, &hello, 0);
}

#[test]
fn a_session_keeps_its_user() {
    let secret = format!("auth.secret={SECRET}");
    let mut restarts = RestartableServer::with(&[&secret]);
    let hello = restarts.server.client_of("alice").drop_connection();
    restarts.restart();
    let query = |user: &str| format!("resume={}&token={}", hello.resume, token(user, json!({})));
    assert_eq!(Client::refusal_code(restarts.server.public, &query("bob")), 4102);
    assert!(Client::connect(restarts.server.public, &query("alice")).hello.recovered);
}
