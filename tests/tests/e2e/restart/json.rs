use encke_tests::process::Signal;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Client, EventStream, Hello, PollClient, RawClient, ServerOutput};
use serde_json::{Value, json};

use super::{MOVED, RestartableServer};

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
    for number in 1..=3 {
        restarts.server.admin.publish("news", number);
    }
    for number in 1..=3 {
        assert_eq!(next_message(&mut client), (number, number, json!(number)));
    }
    restarts.server.terminate();
    assert_moved(&mut client);
    restarts.server.await_exit(TIMEOUT);
    let events = [("opened", "connect"), ("suspended", "moved")];
    restarts.server.logs.await_lifecycle(&hello.session, &events);
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
    restarts.server.logs.await_lifecycle(&hello.session, &[("resumed", "reconnect")]);
    client.send(r#"{"close":{}}"#);
    assert_eq!(client.close_code(), Some(1000));
    restarts.restart();
    let lost = Client::connect(restarts.server.public, &format!("resume={}", hello.resume));
    assert!(!lost.hello.recovered, "the session is closed");
}

#[test]
fn a_suspended_session_stays_suspended() {
    let mut restarts = RestartableServer::with(&[]);
    let mut client = restarts.server.client();
    client.subscribe("news");
    let hello = client.drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    restarts.server.admin.publish("news", 1);
    restarts.restart();
    let remaining = restarts.server.admin.session(&hello.session)["deadlines"].to_string();
    assert!(remaining.contains("reconnect"), "{remaining}");
    restarts.server.admin.publish("news", 2);
    let mut client = resume_session(&restarts, &hello, 0);
    assert_eq!((next_message(&mut client).2, next_message(&mut client).2), (json!(1), json!(2)));
}

#[test]
fn a_reconnect_window_continues_in_the_next_process() {
    let mut restarts = RestartableServer::with(&["session.reconnect_window=3s"]);
    let hello = restarts.server.suspended_session();
    restarts.restart();
    restarts.server.await_removal(&hello.session);
    restarts.server.logs.await_lifecycle(&hello.session, &[("expired", "reconnect_window")]);
}

/// A close that the client has not received is reported when it reconnects, even for a session that has not
/// been resumed since the restart.
#[test]
fn a_restored_session_can_be_kicked() {
    let mut restarts = RestartableServer::with(&[]);
    let hello = restarts.server.suspended_session();
    restarts.restart();
    assert_eq!(restarts.server.admin.kick(&hello.session).status, 204);
    let refused = Client::refusal_code(restarts.server.public, &format!("resume={}", hello.resume));
    assert_eq!(refused, 4101);
}

#[test]
fn a_kicked_client_receives_the_reason_after_a_restart() {
    let mut restarts = RestartableServer::with(&[]);
    let kicked = restarts.server.suspended_session();
    assert_eq!(restarts.server.admin.kick(&kicked.session).status, 204);
    for _ in 0..2 {
        restarts.restart();
    }
    let query = format!("resume={}", kicked.resume);
    assert_eq!(Client::refusal_code(restarts.server.public, &query), 4101);
    assert!(!restarts.server.resume(&kicked.resume).hello.recovered);
}

/// A message that matches both a channel and a pattern arrives once.
#[test]
fn pattern_subscriptions_continue() {
    let mut restarts = RestartableServer::with(&[]);
    let mut client = restarts.server.client();
    let hello = client.hello.clone();
    let epoch = client.subscribe("/a/*");
    client.subscribe("/a/b");
    restarts.server.admin.publish("/a/b", 1);
    assert_eq!(next_message(&mut client).0, 1);
    let mut other = restarts.server.client();
    other.subscribe("/a/**");
    let other = other.drop_connection();
    restarts.server.await_phase(&other.session, "suspended");
    for number in 2..=3 {
        restarts.server.admin.publish("/a/b", number);
    }
    let data = (next_message(&mut client).2, next_message(&mut client).2);
    assert_eq!(data, (json!(2), json!(3)));
    restarts.restart();
    restarts.server.admin.publish("/a/b", 4);
    restarts.server.admin.publish("/a/c", 5);
    let mut client = resume_session(&restarts, &hello, 1);
    for number in 2..=5 {
        let object = client.object();
        assert_eq!((&object["message"]["seq"], &object["message"]["data"]), (&json!(number), &json!(number)));
        if number >= 4 {
            assert_eq!(object["message"]["pattern"]["epoch"], epoch, "{object}");
        }
    }
    let mut other = resume_session(&restarts, &other, 0);
    for number in 2..=5 {
        assert_eq!(next_message(&mut other).2, number);
    }
}

/// Tests a channel with its own messages, and a channel that shares its messages with a pattern.
#[test]
fn messages_keep_their_users_after_a_restart() {
    let mut restarts = RestartableServer::with(&[&format!("auth.secret={SECRET}")]);
    let connect = |restarts: &RestartableServer| {
        let claims = json!({"sub": "al \"ice\"", "channels": {"*": ["subscribe", "publish"]}});
        Client::connect(restarts.server.public, &format!("token={}", sign(&claims, SECRET)))
    };
    let mut subscriber = connect(&restarts);
    subscriber.subscribe("/a/*");
    for channel in ["news", "/a/b"] {
        connect(&restarts).publish(channel, [1]);
        restarts.server.admin.publish(channel, 2);
    }
    restarts.restart();
    for channel in ["news", "/a/b", "/a/*"] {
        let mut client = connect(&restarts);
        client.request(&json!({"id": 1, "subscribe": {"channel": channel, "last": 2}}).to_string());
        let users = [client.object(), client.object()].map(|mut object| object["message"]["user"].take());
        assert_eq!(users, [json!("al \"ice\""), Value::Null], "{channel}");
    }
}

#[test]
fn messages_keep_their_times_after_a_restart() {
    let mut restarts = RestartableServer::with(&["namespace=[{prefix='chat.', at_ms=true}]"]);
    restarts.server.admin.publish("chat.a", 1);
    let published_at = |restarts: &RestartableServer| {
        let mut client = restarts.server.client();
        client.request(r#"{"id":1,"subscribe":{"channel":"chat.a","last":1}}"#);
        client.object()["message"]["at_ms"].take()
    };
    let at = published_at(&restarts);
    assert!(at.is_u64(), "{at}");
    restarts.restart();
    assert_eq!(published_at(&restarts), at);
}

#[test]
fn unacknowledged_messages_of_a_removed_channel_become_a_gap() {
    let mut restarts = RestartableServer::with(&["channel.history_age=1s"]);
    let mut client = restarts.server.client();
    let hello = client.hello.clone();
    client.subscribe("removed");
    restarts.server.admin.publish("removed", 1);
    assert_eq!(next_message(&mut client).0, 1);
    client.request(r#"{"id":2,"unsubscribe":{"channel":"removed"}}"#);
    client.subscribe("news");
    restarts.server.admin.publish("news", 2);
    assert_eq!(next_message(&mut client).0, 2);
    // The log is removed, but the session may still have to report the log's messages as lost.
    until("the channel is removed", || restarts.server.admin.get("/api/channels/removed").status == 404);
    restarts.restart();
    let mut client = resume_session(&restarts, &hello, 0);
    assert_eq!(client.object()["gap"]["channel"], "removed");
    client.object();
}

#[test]
fn an_event_stream_resumes_by_its_last_id() {
    let mut restarts = RestartableServer::with(&[]);
    let mut events = EventStream::open(restarts.server.public, "channels=news");
    let hello = events.hello();
    restarts.server.admin.publish("news", 1);
    let (id, _) = events.object();
    restarts.server.terminate();
    let end = events.to_end().join("\n");
    assert!(end.contains(r#"{"goaway":{"reason":"moved","retry_ms":"#), "{end}");
    restarts.server.await_exit(TIMEOUT);
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
fn polling_sessions_continue() {
    let mut restarts = RestartableServer::with(&[]);
    let open = || {
        let mut requests = PollClient::connect(restarts.server.public);
        let answer = requests.get("channels=news").json();
        (requests, Hello::parse(answer[0].clone()))
    };
    let ((mut held, holds), (mut between, waits)) = (open(), open());
    restarts.server.admin.publish("news", 1);
    for (requests, hello) in [(&mut held, &holds), (&mut between, &waits)] {
        let answer = requests.get(&format!("resume={}&seq=0", hello.resume)).json();
        assert_eq!(answer[0]["message"]["data"], 1);
    }
    held.send_get(&format!("resume={}&seq=1", holds.resume));
    until("the poll is held", || {
        let session = restarts.server.admin.session(&holds.session)["deadlines"].to_string();
        session.contains("poll_hold")
    });
    restarts.server.terminate();
    let answer = held.response().json();
    assert_eq!(answer[0]["goaway"]["reason"], "moved", "{answer}");
    between.await_end();
    restarts.server.await_exit(TIMEOUT);
    restarts.start();
    restarts.server.admin.publish("news", 2);
    for hello in [&holds, &waits] {
        let mut requests = PollClient::connect(restarts.server.public);
        let replies = requests.post(&format!("resume={}", hello.resume), r#"[{"id":1,"ack":{"seq":1}}]"#);
        assert_eq!(replies.json()[0]["reply"]["id"], 1, "{replies:?}");
        let answer = requests.get(&format!("resume={}&seq=1", hello.resume)).json();
        assert_eq!(answer.as_array().map(Vec::len), Some(1), "{answer}");
        assert_eq!(answer[0]["message"]["data"], 2);
    }
}

/// While one client delays the drain, no message may be published: the other sessions, which are already in
/// the snapshot, would miss it.
#[test]
fn publishing_is_refused_while_draining() {
    let mut restarts = RestartableServer::with(&["shutdown.drain=15s", "session.close_timeout=15s"]);
    let (mut staying, hello) = RawClient::greeted(restarts.server.public, "");
    restarts.server.terminate();
    staying.object();
    assert_eq!(staying.close_code(), MOVED);
    let answer = restarts.server.admin.post("/api/publish", r#"{"channel":"news","data":1}"#);
    assert_eq!((answer.status, &*answer.error_code()), (503, "draining"));
    assert_eq!(restarts.server.admin.phase(&hello.session).as_deref(), Some("suspended"));
    drop(staying);
    assert_eq!(restarts.server.await_exit(TIMEOUT).code(), Some(0));
    restarts.start();
    resume_session(&restarts, &hello, 0);
}

/// A kick that would have no effect is refused, because the session may already be in the snapshot.
#[test]
fn kicking_is_refused_while_draining() {
    let mut restarts = RestartableServer::with(&["shutdown.drain=15s", "session.close_timeout=15s"]);
    let (mut staying, hello) = RawClient::greeted(restarts.server.public, "");
    restarts.server.terminate();
    staying.object();
    assert_eq!(staying.close_code(), MOVED);
    let answer = restarts.server.admin.kick(&hello.session);
    assert_eq!((answer.status, &*answer.error_code()), (503, "draining"));
    drop(staying);
    assert_eq!(restarts.server.await_exit(TIMEOUT).code(), Some(0));
    restarts.start();
    assert_eq!(restarts.server.admin.kick(&hello.session).status, 204);
    let refused = Client::refusal_code(restarts.server.public, &format!("resume={}", hello.resume));
    assert_eq!(refused, 4101);
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
    let token = |user: &str| sign(&json!({"sub": user, "channels": {"news": ["subscribe"]}}), SECRET);
    let connect =
        |restarts: &RestartableServer, query: String| Client::try_connect(restarts.server.public, &query);
    let alice = connect(&restarts, format!("token={}", token("alice"))).expect("the token is valid");
    let hello = alice.drop_connection();
    restarts.restart();
    let resume = &hello.resume;
    let refused = connect(&restarts, format!("token={}&resume={resume}", token("bob")));
    assert_eq!(refused.err(), Some(4102));
    let again =
        connect(&restarts, format!("token={}&resume={resume}", token("alice"))).expect("the session is hers");
    assert!(again.hello.recovered);
}

#[test]
fn loss_after_a_kill_is_reported_as_a_gap() {
    let mut restarts = RestartableServer::with(&[]);
    let mut client = restarts.server.client();
    let (hello, epoch) = (client.hello.clone(), client.subscribe("news"));
    restarts.server.admin.publish("news", 1);
    next_message(&mut client);
    restarts.server.signal(Signal::KILL);
    restarts.server.await_exit(TIMEOUT);
    assert_eq!(restarts.files(), [""; 0]);
    restarts.start();
    let mut client = Client::connect(restarts.server.public, &format!("resume={}&seq=1", hello.resume));
    assert!(!client.hello.recovered);
    let since = format!(r#"{{"epoch":"{epoch}","offset":1}}"#);
    let reply = client.request(&format!(r#"{{"id":1,"subscribe":{{"channel":"news","since":{since}}}}}"#));
    assert_eq!(reply["ok"]["recovered"], false);
    assert_eq!(client.object()["gap"]["channel"], "news");
}

#[test]
fn a_publish_with_a_key_may_be_repeated_after_a_restart() {
    let mut restarts = RestartableServer::with(&[]);
    let mut client = restarts.server.client();
    let publish = r#"{"id":1,"publish":{"channel":"news","data":1,"key":"k"}}"#;
    let of_api = |restarts: &RestartableServer| {
        restarts.server.admin.post("/api/publish", r#"{"channel":"news","data":2,"key":"k"}"#).json()
    };
    let (first, first_of_api) = (client.request(publish), of_api(&restarts));
    assert_eq!((&first["ok"]["offset"], &first_of_api["offset"]), (&json!(1), &json!(2)));
    let hello = client.drop_connection();
    restarts.restart();
    assert_eq!(resume_session(&restarts, &hello, 0).request(publish)["ok"], first["ok"]);
    assert_eq!(of_api(&restarts), first_of_api);
    assert_eq!(restarts.server.admin.publish("news", 3)["offset"], 3);
}
