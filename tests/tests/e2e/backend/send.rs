use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use encke_tests::bayeux::{self, connect_now, events};
use encke_tests::tokens::SECRET;
use encke_tests::waiting::until;
use encke_tests::{Admin, Client, EventStream, Hello, PollClient, RunningServer};
use serde_json::{Value, json};

use super::{assert_error, assert_ok, client_of, connect, launch, message, resume, token};
use crate::restart::{RestartableServer, resume_session};

/// Sends a message to a session.
#[track_caller]
fn send_to_session(admin: Admin, session: &str, data: impl Into<Value>) -> Value {
    let body = json!({"data": data.into()});
    assert_ok(&admin.post(&format!("/api/sessions/{session}/send"), &body.to_string()))
}

/// Sends a message to a user. Returns the number of sessions that receive it, and its offset.
#[track_caller]
fn send_to_user(admin: Admin, user: &str, data: impl Into<Value>) -> (u64, Option<u64>) {
    let body = json!({"data": data.into()});
    let answer = assert_ok(&admin.post(&format!("/api/users/{user}/send"), &body.to_string()));
    (answer["sessions"].as_u64().expect("a number"), answer["offset"].as_u64())
}

#[test]
fn messages_to_a_session_are_in_its_seq() {
    let server = RunningServer::with(&[]);
    let (mut client, mut other) = (server.client(), server.client());
    let session = client.hello.session.clone();
    client.subscribe("news");
    server.admin.publish("news", 1);
    assert_eq!(client.object(), message(1, "news", 1, 1));
    let sent = send_to_session(server.admin, &session, json!({"any": ["json", 2]}));
    assert_eq!(sent["offset"], 1);
    assert_eq!(client.object(), message(2, "$session", 1, json!({"any": ["json", 2]})));
    server.admin.publish("news", 2);
    assert_eq!(client.object(), message(3, "news", 2, 2));
    assert_eq!(send_to_session(server.admin, &session, 3), json!({"offset": 2, "epoch": sent["epoch"]}));
    assert_eq!(client.object(), message(4, "$session", 2, 3));
    // Unacknowledged messages are sent again, including on a connection that takes over.
    let mut client = resume(&server, &client.hello, "seq=1");
    for again in [message(2, "$session", 1, json!({"any": ["json", 2]})), message(3, "news", 2, 2)] {
        assert_eq!(client.object(), again);
    }
    let hello = client.drop_connection();
    server.await_phase(&session, "suspended");
    send_to_session(server.admin, &session, 4);
    let mut client = resume(&server, &hello, "seq=4");
    assert_eq!(client.object(), message(5, "$session", 3, 4));
    // Other sessions do not receive these messages.
    send_to_session(server.admin, &other.hello.session.clone(), "other");
    assert_eq!(other.object(), message(1, "$session", 1, "other"));
}

#[test]
fn evicted_messages_are_reported_as_a_gap() {
    let server = RunningServer::with(&["channel.history_messages=2"]);
    let hello = server.suspended_session();
    for number in 1..=5 {
        send_to_session(server.admin, &hello.session, number);
    }
    let mut client = resume(&server, &hello, "seq=0");
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
fn messages_arrive_on_every_transport_active_and_parked() {
    for parking in ["parking.after=off", "parking.after=0"] {
        let server = RunningServer::with(&[parking]);
        let mut client = server.client();
        let mut stream = EventStream::open(server.public, "channels=news");
        let mut requests = PollClient::connect(server.public);
        let polling = Hello::parse(requests.get("channels=news").json()[0].clone());
        let streaming = stream.hello();
        requests.send_get(&format!("resume={}&seq=0", polling.resume));
        if parking == "parking.after=0" {
            until("all connections are parked", || {
                server.admin.metrics().total("encke_connections_parked") == 3.0
            });
        }
        for number in 1..=2 {
            send_to_session(server.admin, &client.hello.session.clone(), number);
            assert_eq!(client.object(), message(number, "$session", number, number));
            send_to_session(server.admin, &streaming.session, number);
            let (id, object) = stream.object();
            assert_eq!(object, message(number, "$session", number, number));
            let expected = format!("{}:{number}", streaming.resume);
            assert!(id.is_some_and(|id| id.starts_with(&expected)), "the event id counts the message");
            send_to_session(server.admin, &polling.session, number);
            assert_eq!(requests.response().json(), json!([message(number, "$session", number, number)]));
            requests.send_get(&format!("resume={}&seq={number}", polling.resume));
        }
    }
}

#[test]
fn bayeux_clients_receive_messages_on_the_same_channel() {
    let server = RunningServer::with(&[]);
    let mut client = bayeux::BayeuxPolling::connect(server.public);
    let id = client.handshake();
    client.request(&json!([connect_now(&id)]));
    send_to_session(server.admin, &bayeux::session(&id), 7);
    let answer = client.request(&json!([connect_now(&id)]));
    assert_eq!(events(&answer), [json!(7)], "{answer:?}");
    assert_eq!(answer[0]["channel"], "$session");
}

#[test]
fn all_sessions_of_a_user_receive_its_messages() {
    let server = launch().start();
    let mut alice = [client_of(&server, "alice"), client_of(&server, "alice")];
    let mut bob = client_of(&server, "bob");
    let suspended = client_of(&server, "alice").drop_connection();
    server.await_phase(&suspended.session, "suspended");
    assert_eq!(send_to_user(server.admin, "alice", 1), (3, Some(1)));
    for client in &mut alice {
        assert_eq!(client.object(), message(1, "$user", 1, 1));
    }
    // A session that is opened later receives only later messages.
    let mut late = client_of(&server, "alice");
    assert_eq!(send_to_user(server.admin, "alice", 2), (4, Some(2)));
    assert_eq!(late.object(), message(1, "$user", 2, 2));
    for client in &mut alice {
        assert_eq!(client.object(), message(2, "$user", 2, 2));
    }
    let query = format!("seq=0&token={}", token("alice", json!({})));
    let mut resumed = resume(&server, &suspended, &query);
    for number in 1..=2 {
        assert_eq!(resumed.object(), message(number, "$user", number, number));
    }
    assert_eq!(send_to_user(server.admin, "bob", "b"), (1, Some(1)));
    assert_eq!(bob.object(), message(1, "$user", 1, "b"));
    assert_eq!(send_to_user(server.admin, "eve", 1), (0, None));
    // Nothing is kept of a user who had no session for a while: the offsets begin again.
    bob.send(r#"{"close":{}}"#);
    bob.close_code();
    let mut bob = client_of(&server, "bob");
    assert_eq!(send_to_user(server.admin, "bob", "again"), (1, Some(1)));
    assert_eq!(bob.object(), message(1, "$user", 1, "again"));
}

#[test]
fn messages_are_removed_with_their_last_receiver() {
    let server = launch().start();
    let mut clients = [client_of(&server, "alice"), client_of(&server, "alice")];
    send_to_user(server.admin, "alice", "x".repeat(1000));
    send_to_session(server.admin, &clients[0].hello.session, "x".repeat(1000));
    assert!(server.admin.metrics().value("encke_log_bytes") > 2000.0);
    for client in &mut clients {
        client.send(r#"{"close":{}}"#);
        client.close_code();
    }
    until("the logs are empty", || server.admin.metrics().value("encke_log_bytes") == 0.0);
}

/// The limits and permissions of clients do not apply to direct messages.
#[test]
fn clients_have_no_influence_on_direct_messages() {
    let server = launch().set("limits.max_subscriptions=1").set("limits.max_channels=1").start();
    let mut client = client_of(&server, "alice");
    let session = client.hello.session.clone();
    send_to_session(server.admin, &session, 1);
    send_to_user(server.admin, "alice", 1);
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
    // A token that allows nothing has no influence on direct messages either.
    let nothing = token("alice", json!({"channels": {}}));
    client.send(&json!({"id": 2, "refresh": {"token": nothing}}).to_string());
    assert_eq!(client.object()["unsubscribed"]["channel"], "news");
    assert_eq!(client.object(), json!({"reply": {"id": 2, "ok": {}}}));
    send_to_session(server.admin, &session, 2);
    assert_eq!(client.object(), message(3, "$session", 2, 2));
    let listed = assert_ok(&server.admin.get("/api/channels"));
    let channels = listed["channels"].as_array().expect("an array");
    let is_direct = |it: &Value| it["channel"].as_str().expect("a name").starts_with('$');
    assert!(!channels.iter().any(is_direct), "{listed}");
    let subscriptions = server.admin.session(&session)["subscriptions"].clone();
    let names = subscriptions.as_array().expect("an array").iter().map(|it| it["channel"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["$session", "$user"], "{subscriptions}");
}

#[test]
fn invalid_messages_are_refused() {
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
fn messages_to_a_session_survive_a_restart() {
    let mut restarts = RestartableServer::with(&[]);
    let hello = restarts.server.client().drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    send_to_session(restarts.server.admin, &hello.session, 1);
    restarts.restart();
    send_to_session(restarts.server.admin, &hello.session, 2);
    let mut client = resume_session(&restarts, &hello, 0);
    for number in 1..=2 {
        assert_eq!(client.object(), message(number, "$session", number, number));
    }
}

#[test]
fn messages_to_a_user_survive_a_restart() {
    let secret = format!("auth.secret={SECRET}");
    let mut restarts = RestartableServer::with(&[&secret]);
    let token = token("alice", json!({}));
    let hello = connect(&restarts.server, &token).drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    assert_eq!(send_to_user(restarts.server.admin, "alice", 1), (1, Some(1)));
    restarts.restart();
    let mut new = connect(&restarts.server, &token);
    assert_eq!(send_to_user(restarts.server.admin, "alice", 2), (2, Some(2)));
    assert_eq!(new.object(), message(1, "$user", 2, 2));
    let query = format!("resume={}&seq=0&token={token}", hello.resume);
    let mut client = Client::connect(restarts.server.public, &query);
    for number in 1..=2 {
        assert_eq!(client.object(), message(number, "$user", number, number));
    }
}

/// Each message arrives once and in order, no matter which sessions are opened and closed in the meantime.
#[test]
fn sessions_begin_and_end_while_their_user_receives_messages() {
    let server = launch().start();
    let token = token("alice", json!({}));
    let mut whole = connect(&server, &token);
    let (admin, is_stopped) = (server.admin, Arc::new(AtomicBool::new(false)));
    let sender = std::thread::spawn({
        let is_stopped = Arc::clone(&is_stopped);
        move || {
            let mut sent = 0;
            while !is_stopped.load(Ordering::Acquire) {
                sent += 1;
                assert!(send_to_user(admin, "alice", sent).0 >= 1);
            }
            sent
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
    is_stopped.store(true, Ordering::Release);
    for number in 1..=sender.join().expect("the sender does not panic") {
        assert_eq!(whole.object(), message(number, "$user", number, number));
    }
}
