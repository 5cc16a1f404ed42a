use encke_tests::process::Signal;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Client, EventStream, Hello, RawClient, PollClient, ServerOutput};
use serde_json::{Value, json};

use super::{MOVED, Restarts};

/// The client is told to come back soon, and closed.
#[track_caller]
fn assert_moved(client: &mut Client) {
    let goaway = client.object()["goaway"].clone();
    assert_eq!(goaway["reason"], "moved");
    assert!(goaway["retry_ms"].as_u64().is_some_and(|retry_ms| retry_ms < 2_000), "{goaway}");
    assert_eq!(client.next_within(TIMEOUT), Some(ServerOutput::Close(MOVED, "moved".into())));
}

/// The same session as before.
#[track_caller]
pub(crate) fn back(restarts: &Restarts, hello: &Hello, seq: u64) -> Client {
    let query = format!("resume={}&seq={seq}", hello.resume);
    let client = Client::connect(restarts.server.public, &query);
    assert!(client.hello.recovered, "{:?}", client.hello);
    assert_eq!((&client.hello.session, &client.hello.resume), (&hello.session, &hello.resume));
    client
}

/// Seq, offset and data of the next message.
#[track_caller]
pub(crate) fn message(client: &mut Client) -> (u64, u64, Value) {
    let object = client.object();
    let number = |name: &str| object["message"][name].as_u64().unwrap_or_else(|| panic!("{object}"));
    (number("seq"), number("offset"), object["message"]["data"].clone())
}

#[test]
fn a_websocket_comes_back_to_where_it_was_over_two_restarts() {
    let mut restarts = Restarts::with(&[]);
    let mut client = restarts.server.client();
    let hello = client.hello.clone();
    let epoch = client.subscribe("news");
    for number in 1..=3 {
        restarts.server.admin.publish("news", number);
    }
    for number in 1..=3 {
        assert_eq!(message(&mut client), (number, number, json!(number)));
    }
    restarts.server.terminate();
    assert_moved(&mut client);
    restarts.server.await_exit(TIMEOUT);
    let events = [("opened", "connect"), ("suspended", "moved")];
    restarts.server.logs.await_lifecycle(&hello.session, &events);
    restarts.start();
    restarts.server.await_phase(&hello.session, "suspended");
    // Nobody is there yet.
    assert_eq!(restarts.server.admin.publish("news", 4)["offset"], 4);
    // It has lost the last one.
    let mut client = back(&restarts, &hello, 2);
    for number in 3..=4 {
        assert_eq!(message(&mut client), (number, number, json!(number)));
    }
    assert_eq!(client.subscribe("news"), epoch, "it follows it already");
    restarts.server.admin.publish("news", 5);
    assert_eq!(message(&mut client), (5, 5, json!(5)));
    restarts.restart();
    // Twice, without its client.
    restarts.restart();
    restarts.server.admin.publish("news", 6);
    let mut client = back(&restarts, &hello, 5);
    assert_eq!(message(&mut client), (6, 6, json!(6)));
    restarts.server.logs.await_lifecycle(&hello.session, &[("resumed", "reconnect")]);
    client.send(r#"{"close":{}}"#);
    assert_eq!(client.close_code(), Some(1000));
    restarts.restart();
    let lost = Client::connect(restarts.server.public, &format!("resume={}", hello.resume));
    assert!(!lost.hello.recovered, "it has ended");
}

#[test]
fn a_suspended_session_waits_on() {
    let mut restarts = Restarts::with(&[]);
    let mut client = restarts.server.client();
    client.subscribe("news");
    let hello = client.drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    restarts.server.admin.publish("news", 1);
    restarts.restart();
    let remaining = restarts.server.admin.session(&hello.session)["deadlines"].to_string();
    assert!(remaining.contains("reconnect"), "{remaining}");
    restarts.server.admin.publish("news", 2);
    let mut client = back(&restarts, &hello, 0);
    assert_eq!((message(&mut client).2, message(&mut client).2), (json!(1), json!(2)));
}

#[test]
fn a_window_passes_in_the_next_process() {
    let mut restarts = Restarts::with(&["session.reconnect_window=3s"]);
    let hello = restarts.server.suspended_session();
    restarts.restart();
    restarts.server.await_removal(&hello.session);
    restarts.server.logs.await_lifecycle(&hello.session, &[("expired", "reconnect_window")]);
}

/// An end that the client was not told is told when it comes back, also of a session that only the process before knew the secret of.
#[test]
fn a_session_that_nobody_has_come_back_to_may_be_kicked() {
    let mut restarts = Restarts::with(&[]);
    let hello = restarts.server.suspended_session();
    restarts.restart();
    assert_eq!(restarts.server.admin.kick(&hello.session).status, 204);
    let refused = Client::refusal_code(restarts.server.public, &format!("resume={}", hello.resume));
    assert_eq!(refused, 4101);
}

/// A message that comes by a channel and a pattern comes once.
#[test]
fn who_was_kicked_before_is_told_so_afterwards() {
    let mut restarts = Restarts::with(&[]);
    let kicked = restarts.server.suspended_session();
    assert_eq!(restarts.server.admin.kick(&kicked.session).status, 204);
    for _ in 0..2 {
        restarts.restart();
    }
    let query = format!("resume={}", kicked.resume);
    assert_eq!(Client::refusal_code(restarts.server.public, &query), 4101);
    assert!(!restarts.server.resume(&kicked.resume).hello.recovered);
}

#[test]
fn patterns_go_on() {
    let mut restarts = Restarts::with(&[]);
    let mut client = restarts.server.client();
    let hello = client.hello.clone();
    let epoch = client.subscribe("/a/*");
    client.subscribe("/a/b");
    restarts.server.admin.publish("/a/b", 1);
    assert_eq!(message(&mut client).0, 1);
    let mut other = restarts.server.client();
    other.subscribe("/a/**");
    let other = other.drop_connection();
    restarts.server.await_phase(&other.session, "suspended");
    for number in 2..=3 {
        restarts.server.admin.publish("/a/b", number);
    }
    let told = (message(&mut client).2, message(&mut client).2);
    assert_eq!(told, (json!(2), json!(3)));
    restarts.restart();
    restarts.server.admin.publish("/a/b", 4);
    restarts.server.admin.publish("/a/c", 5);
    let mut client = back(&restarts, &hello, 1);
    for number in 2..=5 {
        let object = client.object();
        assert_eq!((&object["message"]["seq"], &object["message"]["data"]), (&json!(number), &json!(number)));
        if number >= 4 {
            assert_eq!(object["message"]["pattern"]["epoch"], epoch, "{object}");
        }
    }
    let mut other = back(&restarts, &other, 0);
    for number in 2..=5 {
        assert_eq!(message(&mut other).2, number);
    }
}

/// Of a channel alone, and of one that shares its messages with a pattern.
#[test]
fn a_message_is_still_its_users_after_a_restart() {
    let mut restarts = Restarts::with(&[&format!("auth.secret={SECRET}")]);
    let connect = |restarts: &Restarts| {
        let claims = json!({"sub": "al \"ice\"", "channels": {"*": ["subscribe", "publish"]}});
        Client::connect(restarts.server.public, &format!("token={}", sign(&claims, SECRET)))
    };
    let mut follower = connect(&restarts);
    follower.subscribe("/a/*");
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
fn when_a_message_was_published_is_said_as_before_after_a_restart() {
    let mut restarts = Restarts::with(&["namespace=[{prefix='chat.', at_ms=true}]"]);
    restarts.server.admin.publish("chat.a", 1);
    let ask = |restarts: &Restarts| {
        let mut client = restarts.server.client();
        client.request(r#"{"id":1,"subscribe":{"channel":"chat.a","last":1}}"#);
        client.object()["message"]["at_ms"].take()
    };
    let at = ask(&restarts);
    assert!(at.is_u64(), "{at}");
    restarts.restart();
    assert_eq!(ask(&restarts), at);
}

#[test]
fn what_was_unsubscribed_is_sent_again() {
    let mut restarts = Restarts::with(&["channel.history_age=1s"]);
    let mut client = restarts.server.client();
    let hello = client.hello.clone();
    client.subscribe("gone");
    restarts.server.admin.publish("gone", 1);
    assert_eq!(message(&mut client).0, 1);
    client.request(r#"{"id":2,"unsubscribe":{"channel":"gone"}}"#);
    client.subscribe("news");
    restarts.server.admin.publish("news", 2);
    assert_eq!(message(&mut client).0, 2);
    // The log goes away, but the session may have to say what was in it.
    until("the channel is gone", || restarts.server.admin.get("/api/channels/gone").status == 404);
    restarts.restart();
    let mut client = back(&restarts, &hello, 0);
    assert_eq!(client.object()["gap"]["channel"], "gone");
    client.object();
}

#[test]
fn a_stream_of_events_comes_back_by_its_last_id() {
    let mut restarts = Restarts::with(&[]);
    let mut events = EventStream::open(restarts.server.public, "channels=news");
    let hello = events.hello();
    restarts.server.admin.publish("news", 1);
    let (id, _) = events.object();
    restarts.server.terminate();
    let farewell = events.to_end().join("\n");
    assert!(farewell.contains(r#"{"goaway":{"reason":"moved","retry_ms":"#), "{farewell}");
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
fn polls_go_on_held_or_between_two() {
    let mut restarts = Restarts::with(&[]);
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
    until("it is held", || {
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

/// While one client stays, the others have nothing published behind their backs.
#[test]
fn nothing_is_published_while_it_drains() {
    let mut restarts = Restarts::with(&["shutdown.drain=15s", "session.close_timeout=15s"]);
    let (mut stays, hello) = RawClient::greeted(restarts.server.public, "");
    restarts.server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), MOVED);
    let answer = restarts.server.admin.post("/api/publish", r#"{"channel":"news","data":1}"#);
    assert_eq!((answer.status, &*answer.error_code()), (503, "draining"));
    assert_eq!(restarts.server.admin.phase(&hello.session).as_deref(), Some("suspended"));
    drop(stays);
    assert_eq!(restarts.server.await_exit(TIMEOUT).code(), Some(0));
    restarts.start();
    back(&restarts, &hello, 0);
}

/// Whoever asks for an end that does not come is told so: the session may be in the file already.
#[test]
fn nobody_is_kicked_while_it_drains() {
    let mut restarts = Restarts::with(&["shutdown.drain=15s", "session.close_timeout=15s"]);
    let (mut stays, hello) = RawClient::greeted(restarts.server.public, "");
    restarts.server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), MOVED);
    let answer = restarts.server.admin.kick(&hello.session);
    assert_eq!((answer.status, &*answer.error_code()), (503, "draining"));
    drop(stays);
    assert_eq!(restarts.server.await_exit(TIMEOUT).code(), Some(0));
    restarts.start();
    assert_eq!(restarts.server.admin.kick(&hello.session).status, 204);
    let refused = Client::refusal_code(restarts.server.public, &format!("resume={}", hello.resume));
    assert_eq!(refused, 4101);
}

/// Of secrets, the file has digests.
#[test]
fn a_secret_is_needed_as_before() {
    let mut restarts = Restarts::with(&[]);
    let hello = restarts.server.suspended_session();
    let (id, secret) = hello.resume.split_once('.').expect("a dot");
    restarts.stop();
    let bytes = std::fs::read(restarts.path()).expect("it was written");
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    let raw = data_encoding::BASE64URL_NOPAD.decode(secret.as_bytes()).expect("base64");
    assert!(!has(secret.as_bytes()) && !has(&raw), "the secret is in the file");
    restarts.start();
    let wrong = format!("{id}.{}", "A".repeat(secret.len()));
    let stranger = Client::connect(restarts.server.public, &format!("resume={wrong}"));
    assert!(!stranger.hello.recovered);
    back(&restarts, &hello, 0);
}

#[test]
fn a_session_stays_its_users() {
    let secret = format!("auth.secret={SECRET}");
    let mut restarts = Restarts::with(&[&secret]);
    let token = |user: &str| sign(&json!({"sub": user, "channels": {"news": ["subscribe"]}}), SECRET);
    let connect = |restarts: &Restarts, query: String| Client::try_connect(restarts.server.public, &query);
    let alice = connect(&restarts, format!("token={}", token("alice"))).expect("a good token");
    let hello = alice.drop_connection();
    restarts.restart();
    let resume = &hello.resume;
    let refused = connect(&restarts, format!("token={}&resume={resume}", token("bob")));
    assert_eq!(refused.err(), Some(4102));
    let again = connect(&restarts, format!("token={}&resume={resume}", token("alice"))).expect("hers");
    assert!(again.hello.recovered);
}

#[test]
fn a_killed_process_keeps_nothing_and_gaps_tell_it() {
    let mut restarts = Restarts::with(&[]);
    let mut client = restarts.server.client();
    let (hello, epoch) = (client.hello.clone(), client.subscribe("news"));
    restarts.server.admin.publish("news", 1);
    message(&mut client);
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
    let mut restarts = Restarts::with(&[]);
    let mut client = restarts.server.client();
    let publish = r#"{"id":1,"publish":{"channel":"news","data":1,"key":"k"}}"#;
    let of_api = |restarts: &Restarts| {
        restarts.server.admin.post("/api/publish", r#"{"channel":"news","data":2,"key":"k"}"#).json()
    };
    let (first, first_of_api) = (client.request(publish), of_api(&restarts));
    assert_eq!((&first["ok"]["offset"], &first_of_api["offset"]), (&json!(1), &json!(2)));
    let hello = client.drop_connection();
    restarts.restart();
    assert_eq!(back(&restarts, &hello, 0).request(publish)["ok"], first["ok"]);
    assert_eq!(of_api(&restarts), first_of_api);
    assert_eq!(restarts.server.admin.publish("news", 3)["offset"], 3);
}
