use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use encke_tests::bayeux::{self, connect_now, events};
use encke_tests::tokens::SECRET;
use encke_tests::waiting::until;
use encke_tests::{Admin, Client, EventStream, Hello, PollClient, RunningServer};
use serde_json::{Value, json};

use super::{assert_error, client_of, come_back, connect, done, launch, message, token};
use crate::restart::{Restarts, back};

/// To a session.
#[track_caller]
fn say(admin: Admin, session: &str, data: impl Into<Value>) -> Value {
    let body = json!({"data": data.into()});
    done(&admin.post(&format!("/api/sessions/{session}/send"), &body.to_string()))
}

/// To a user: how many sessions get it, and where it is.
#[track_caller]
fn say_to(admin: Admin, user: &str, data: impl Into<Value>) -> (u64, Option<u64>) {
    let body = json!({"data": data.into()});
    let answer = done(&admin.post(&format!("/api/users/{user}/send"), &body.to_string()));
    (answer["sessions"].as_u64().expect("a number"), answer["offset"].as_u64())
}

#[test]
fn what_is_said_to_a_session_is_in_its_seq() {
    let server = RunningServer::with(&[]);
    let (mut client, mut other) = (server.client(), server.client());
    let session = client.hello.session.clone();
    client.subscribe("news");
    server.admin.publish("news", 1);
    assert_eq!(client.object(), message(1, "news", 1, 1));
    let said = say(server.admin, &session, json!({"any": ["json", 2]}));
    assert_eq!(said["offset"], 1);
    assert_eq!(client.object(), message(2, "$session", 1, json!({"any": ["json", 2]})));
    server.admin.publish("news", 2);
    assert_eq!(client.object(), message(3, "news", 2, 2));
    assert_eq!(say(server.admin, &session, 3), json!({"offset": 2, "epoch": said["epoch"]}));
    assert_eq!(client.object(), message(4, "$session", 2, 3));
    // It comes again as far as it was not acknowledged, also on a connection that takes over.
    let mut client = come_back(&server, &client.hello, "seq=1");
    for again in [message(2, "$session", 1, json!({"any": ["json", 2]})), message(3, "news", 2, 2)] {
        assert_eq!(client.object(), again);
    }
    let hello = client.drop_connection();
    server.await_phase(&session, "suspended");
    say(server.admin, &session, 4);
    let mut client = come_back(&server, &hello, "seq=4");
    assert_eq!(client.object(), message(5, "$session", 3, 4));
    // Nobody else hears it.
    say(server.admin, &other.hello.session.clone(), "other");
    assert_eq!(other.object(), message(1, "$session", 1, "other"));
}

#[test]
fn what_is_said_and_gone_is_told_as_a_gap() {
    let server = RunningServer::with(&["channel.history_messages=2"]);
    let hello = server.suspended_session();
    for number in 1..=5 {
        say(server.admin, &hello.session, number);
    }
    let mut client = come_back(&server, &hello, "seq=0");
    let gap = client.object();
    assert_eq!(gap["gap"]["channel"], "$session", "{gap}");
    assert_eq!(
        (&gap["gap"]["seq"], &gap["gap"]["from"], &gap["gap"]["to"]),
        (&json!(1), &json!(1), &json!(3))
    );
    assert_eq!(client.object(), message(2, "$session", 4, 4));
    assert_eq!(client.object(), message(3, "$session", 5, 5));
}

#[test]
fn it_comes_on_every_transport_awake_and_at_rest() {
    for rest in ["parking.after=off", "parking.after=0"] {
        let server = RunningServer::with(&[rest]);
        let mut client = server.client();
        let mut stream = EventStream::open(server.public, "channels=news");
        let mut requests = PollClient::connect(server.public);
        let polling = Hello::parse(requests.get("channels=news").json()[0].clone());
        let streaming = stream.hello();
        requests.send_get(&format!("resume={}&seq=0", polling.resume));
        if rest == "parking.after=0" {
            until("all rest", || server.admin.metrics().total("encke_connections_parked") == 3.0);
        }
        for number in 1..=2 {
            say(server.admin, &client.hello.session.clone(), number);
            assert_eq!(client.object(), message(number, "$session", number, number));
            say(server.admin, &streaming.session, number);
            let (id, object) = stream.object();
            assert_eq!(object, message(number, "$session", number, number));
            let expected = format!("{}:{number}", streaming.resume);
            assert!(id.is_some_and(|id| id.starts_with(&expected)), "it counts for its id");
            say(server.admin, &polling.session, number);
            assert_eq!(requests.response().json(), json!([message(number, "$session", number, number)]));
            requests.send_get(&format!("resume={}&seq={number}", polling.resume));
        }
    }
}

#[test]
fn bayeux_clients_hear_it_by_the_same_name() {
    let server = RunningServer::with(&[]);
    let mut client = bayeux::BayeuxPolling::connect(server.public);
    let id = client.handshake();
    client.request(&json!([connect_now(&id)]));
    say(server.admin, &bayeux::session(&id), 7);
    let answer = client.request(&json!([connect_now(&id)]));
    assert_eq!(events(&answer), [json!(7)], "{answer:?}");
    assert_eq!(answer[0]["channel"], "$session");
}

#[test]
fn all_sessions_of_a_user_hear_what_is_said_to_it() {
    let server = launch().start();
    let mut alice = [client_of(&server, "alice"), client_of(&server, "alice")];
    let mut bob = client_of(&server, "bob");
    let suspended = client_of(&server, "alice").drop_connection();
    server.await_phase(&suspended.session, "suspended");
    assert_eq!(say_to(server.admin, "alice", 1), (3, Some(1)));
    for client in &mut alice {
        assert_eq!(client.object(), message(1, "$user", 1, 1));
    }
    // One that begins later hears what comes later.
    let mut late = client_of(&server, "alice");
    assert_eq!(say_to(server.admin, "alice", 2), (4, Some(2)));
    assert_eq!(late.object(), message(1, "$user", 2, 2));
    for client in &mut alice {
        assert_eq!(client.object(), message(2, "$user", 2, 2));
    }
    let query = format!("seq=0&token={}", token("alice", json!({})));
    let mut back = come_back(&server, &suspended, &query);
    for number in 1..=2 {
        assert_eq!(back.object(), message(number, "$user", number, number));
    }
    assert_eq!(say_to(server.admin, "bob", "b"), (1, Some(1)));
    assert_eq!(bob.object(), message(1, "$user", 1, "b"));
    assert_eq!(say_to(server.admin, "eve", 1), (0, None));
    // Of a user that has had no session in between, nothing is left.
    bob.send(r#"{"close":{}}"#);
    bob.close_code();
    let mut bob = client_of(&server, "bob");
    assert_eq!(say_to(server.admin, "bob", "anew"), (1, Some(1)));
    assert_eq!(bob.object(), message(1, "$user", 1, "anew"));
}

#[test]
fn what_was_said_is_gone_with_the_last_that_hears_it() {
    let server = launch().start();
    let mut clients = [client_of(&server, "alice"), client_of(&server, "alice")];
    say_to(server.admin, "alice", "x".repeat(1000));
    say(server.admin, &clients[0].hello.session, "x".repeat(1000));
    assert!(server.admin.metrics().value("encke_log_bytes") > 2000.0);
    for client in &mut clients {
        client.send(r#"{"close":{}}"#);
        client.close_code();
    }
    until("all is gone", || server.admin.metrics().value("encke_log_bytes") == 0.0);
}

/// Nor does it take what clients may have.
#[test]
fn no_client_has_a_say_in_it() {
    let server = launch().set("limits.max_subscriptions=1").set("limits.max_channels=1").start();
    let mut client = client_of(&server, "alice");
    let session = client.hello.session.clone();
    say(server.admin, &session, 1);
    say_to(server.admin, "alice", 1);
    let mut first = [client.object(), client.object()];
    first.sort_by_key(Value::to_string);
    assert_eq!(first, [message(1, "$session", 1, 1), message(2, "$user", 1, 1)]);
    client.subscribe("news");
    for name in ["$session", "$user", &format!("$session:{session}"), "$user:alice"] {
        for command in ["subscribe", "presence"] {
            let reply = client.request(&json!({"id": 1, command: {"channel": name}}).to_string());
            assert_eq!(reply["error"]["code"], "bad_channel", "{reply}");
        }
        let reply = client.request(&json!({"id": 1, "publish": {"channel": name, "data": 1}}).to_string());
        assert_eq!(reply["error"]["code"], "bad_channel", "{reply}");
        client.request(&json!({"id": 1, "unsubscribe": {"channel": name}}).to_string());
        let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_error(&server.admin.get(&format!("/api/channels/{path}")), 400, "bad_channel");
    }
    // Nor has a token that allows nothing.
    let nothing = token("alice", json!({"channels": {}}));
    client.send(&json!({"id": 2, "refresh": {"token": nothing}}).to_string());
    assert_eq!(client.object()["unsubscribed"]["channel"], "news");
    assert_eq!(client.object(), json!({"reply": {"id": 2, "ok": {}}}));
    say(server.admin, &session, 2);
    assert_eq!(client.object(), message(3, "$session", 2, 2));
    let listed = done(&server.admin.get("/api/channels"));
    let channels = listed["channels"].as_array().expect("an array");
    let is_direct = |it: &Value| it["channel"].as_str().expect("a name").starts_with('$');
    assert!(!channels.iter().any(is_direct), "{listed}");
    let followed = server.admin.session(&session)["subscriptions"].clone();
    let names = followed.as_array().expect("an array").iter().map(|it| it["channel"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["$session", "$user"], "{followed}");
}

#[test]
fn what_cannot_be_said_is_refused() {
    let server = RunningServer::with(&["limits.max_message=1KiB"]);
    let client = server.client();
    let session = client.hello.session.clone();
    let path = format!("/api/sessions/{session}/send");
    let long = json!({"data": "x".repeat(2000)}).to_string();
    for (body, status, code) in [
        ("{}", 400, "bad_request"),
        (r#"{"data":1,"channel":"news"}"#, 400, "bad_request"),
        (r#"{"data":1e400}"#, 400, "malformed"),
        (&*long, 413, "too_large"),
    ] {
        assert_error(&server.admin.post(&path, body), status, code);
        assert_error(&server.admin.post("/api/users/alice/send", body), status, code);
    }
    assert_eq!(server.admin.kick(&session).status, 204);
    assert_error(&server.admin.post(&path, r#"{"data":1}"#), 404, "not_found");
    assert_error(&server.admin.post("/api/sessions/x/send", r#"{"data":1}"#), 400, "bad_request");
}

#[test]
fn what_was_said_outlives_the_process() {
    let mut restarts = Restarts::with(&[]);
    let hello = restarts.server.client().drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    say(restarts.server.admin, &hello.session, 1);
    restarts.restart();
    say(restarts.server.admin, &hello.session, 2);
    let mut client = back(&restarts, &hello, 0);
    for number in 1..=2 {
        assert_eq!(client.object(), message(number, "$session", number, number));
    }
}

#[test]
fn what_was_said_to_a_user_outlives_the_process() {
    let secret = format!("auth.secret={SECRET}");
    let mut restarts = Restarts::with(&[&secret]);
    let token = token("alice", json!({}));
    let hello = connect(&restarts.server, &token).drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    assert_eq!(say_to(restarts.server.admin, "alice", 1), (1, Some(1)));
    restarts.restart();
    let mut new = connect(&restarts.server, &token);
    assert_eq!(say_to(restarts.server.admin, "alice", 2), (2, Some(2)));
    assert_eq!(new.object(), message(1, "$user", 2, 2));
    let query = format!("resume={}&seq=0&token={token}", hello.resume);
    let mut client = Client::connect(restarts.server.public, &query);
    for number in 1..=2 {
        assert_eq!(client.object(), message(number, "$user", number, number));
    }
}

/// Each message comes once and in order, whoever begins and ends meanwhile.
#[test]
fn sessions_come_and_go_while_their_user_is_spoken_to() {
    let server = launch().start();
    let token = token("alice", json!({}));
    let mut whole = connect(&server, &token);
    let (admin, is_over) = (server.admin, Arc::new(AtomicBool::new(false)));
    let speaker = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut spoken = 0;
            while !is_over.load(Ordering::Acquire) {
                spoken += 1;
                assert!(say_to(admin, "alice", spoken).0 >= 1);
            }
            spoken
        }
    });
    let offset = |object: &Value| object["message"]["offset"].as_u64().expect("a message");
    for _ in 0..30 {
        let mut client = connect(&server, &token);
        let first = offset(&client.object());
        for number in 1..=3 {
            assert_eq!(offset(&client.object()), first + number);
        }
        client.send(r#"{"close":{}}"#);
        client.close_code();
    }
    is_over.store(true, Ordering::Release);
    for number in 1..=speaker.join().expect("it may speak") {
        assert_eq!(whole.object(), message(number, "$user", number, number));
    }
}
