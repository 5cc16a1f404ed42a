use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use encke_tests::RunningServer;
use encke_tests::waiting::until;
use serde_json::{Value, json};

use super::{message, refresh_to_nothing, resume, send_to_session, send_to_user, token, unsubscribed};

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
    let hello = server.suspend(client);
    send_to_session(server.admin, &session, 4);
    let mut client = resume(&server, &hello, "seq=4");
    assert_eq!(client.object(), message(5, "$session", 3, 4));
    // Other sessions do not receive these messages.
    send_to_session(server.admin, &other.hello.session, "other");
    assert_eq!(other.object(), message(1, "$session", 1, "other"));
}

#[test]
fn all_sessions_of_a_user_receive_its_messages() {
    let server = RunningServer::with_tokens(&[]);
    let mut alice = [server.client_of("alice"), server.client_of("alice")];
    let mut bob = server.client_of("bob");
    let suspended = server.suspend(server.client_of("alice"));
    assert_eq!(send_to_user(server.admin, "alice", 1), (3, Some(1)));
    for client in &mut alice {
        assert_eq!(client.object(), message(1, "$user", 1, 1));
    }
    // A session that is opened later receives only later messages.
    let mut late = server.client_of("alice");
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
    // Messages are removed with their last receiver. The offsets begin again with the next session.
    send_to_session(server.admin, &bob.hello.session, "x");
    for client in alice.iter_mut().chain([&mut bob, &mut late, &mut resumed]) {
        client.close();
    }
    until("the logs are empty", || server.admin.metrics().value("encke_log_bytes") == 0.0);
    let mut bob = server.client_of("bob");
    assert_eq!(send_to_user(server.admin, "bob", "again"), (1, Some(1)));
    assert_eq!(bob.object(), message(1, "$user", 1, "again"));
}

/// The limits and permissions of clients do not apply to direct messages.
#[test]
fn clients_have_no_influence_on_direct_messages() {
    let server = RunningServer::with_tokens(&["limits.max_subscriptions=1", "limits.max_channels=1"]);
    let mut client = server.client_of("alice");
    let session = client.hello.session.clone();
    send_to_session(server.admin, &session, 1);
    send_to_user(server.admin, "alice", 1);
    let mut first = [client.object(), client.object()];
    first.sort_by_key(Value::to_string);
    assert_eq!(first, [message(1, "$session", 1, 1), message(2, "$user", 1, 1)]);
    client.subscribe("news");
    for name in ["$session", "$user", &format!("$session:{session}"), "$user:alice"] {
        for command in ["subscribe", "presence", "publish"] {
            let mut fields = json!({"channel": name});
            if command == "publish" {
                fields["data"] = json!(1);
            }
            client.assert_refused(json!({"id": 1, command: fields}), "bad_channel");
        }
        client.request(json!({"id": 1, "unsubscribe": {"channel": name}}));
        let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        server.admin.get(&format!("/api/channels/{path}")).assert_error(400, "bad_channel");
    }
    // A token that allows nothing has no influence on direct messages either.
    client.send(refresh_to_nothing());
    assert_eq!(client.object(), unsubscribed("news", "forbidden"));
    assert_eq!(client.object(), json!({"reply": {"id": 9, "ok": {}}}));
    send_to_session(server.admin, &session, 2);
    assert_eq!(client.object(), message(3, "$session", 2, 2));
    let names = |list: &Value| -> Vec<String> {
        let names = list.as_array().expect("an array").iter().map(|it| it["channel"].as_str());
        names.map(|name| name.expect("a name").to_owned()).collect()
    };
    let listed = names(&server.admin.get("/api/channels").ok()["channels"]);
    assert!(!listed.iter().any(|name| name.starts_with('$')), "{listed:?}");
    assert_eq!(names(&server.admin.session(&session)["subscriptions"]), ["$session", "$user"]);
}

#[test]
fn invalid_messages_are_refused() {
    let server = RunningServer::with(&["limits.max_message=1KiB"]);
    let session = server.client().hello.session;
    let path = format!("/api/sessions/{session}/send");
    let long = json!({"data": "x".repeat(2000)}).to_string();
    for (body, status, code) in [
        ("{}", 400, "bad_request"),
        (r#"{"data":1,"channel":"news"}"#, 400, "bad_request"),
        (r#"{"data":1e400}"#, 400, "malformed"),
        (&*long, 413, "too_large"),
    ] {
        server.admin.post(&path, body).assert_error(status, code);
        server.admin.post("/api/users/alice/send", body).assert_error(status, code);
    }
    assert_eq!(server.admin.kick(&session).status, 204);
    server.admin.post(&path, r#"{"data":1}"#).assert_error(404, "not_found");
    server.admin.post("/api/sessions/x/send", r#"{"data":1}"#).assert_error(400, "bad_request");
}

/// Each message arrives once and in order, no matter which sessions are opened and closed in the meantime.
#[test]
fn sessions_begin_and_end_while_their_user_receives_messages() {
    let server = RunningServer::with_tokens(&[]);
    let token = token("alice", json!({}));
    let mut whole = server.client_with(&token);
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
        let mut client = server.client_with(&token);
        let first = offset(&client.object());
        for number in 1..=3 {
            assert_eq!(offset(&client.object()), first + number);
        }
        client.close();
    }
    is_stopped.store(true, Ordering::Release);
    for number in 1..=sender.join().expect("the sender does not panic") {
        assert_eq!(whole.object(), message(number, "$user", number, number));
    }
}
