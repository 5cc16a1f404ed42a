use encke_tests::bayeux::{
    self, BayeuxPolling, BayeuxWebSocket, connect as held_connect, connect_now, events,
};
use encke_tests::tokens::SECRET;
use encke_tests::{Client, EventStream, RunningServer};
use serde_json::{Value, json};

use super::{
    KICKED, UNAUTHORIZED, message, removed, resume, revoke, send_to_session, send_to_user, subscribe_session,
    token, unsubscribe_session,
};
use crate::parking::await_parked;
use crate::poll::{open, poll_query};
use crate::restart::RestartableServer;

#[test]
fn messages_and_notices_arrive_on_every_transport_active_and_parked() {
    for parking in ["parking.after=off", "parking.after=0"] {
        let server = RunningServer::with(&[parking]);
        let mut client = server.client();
        let mut stream = EventStream::open(server.public, "channels=a");
        let (mut requests, polling) = open(&server, "a");
        let streaming = stream.hello();
        requests.send_get(&poll_query(&polling, 0));
        if parking == "parking.after=0" {
            await_parked(&server, 3);
        }
        let sessions = [&client.hello.session, &streaming.session, &polling.session].map(Clone::clone);
        // The next poll has this seq. A notice does not change the seq, and is not repeated.
        let mut assert_received = |expected: &Value, seq: u64| {
            assert_eq!(client.object(), *expected);
            let (id, object) = stream.object();
            assert_eq!(object, *expected);
            let prefix = format!("{}:{seq}", streaming.resume);
            let has_expected_id = id.as_ref().is_some_and(|id| id.starts_with(&prefix));
            assert!(has_expected_id || id.is_none() && expected["message"].is_null(), "{id:?}: {expected}");
            assert_eq!(requests.response().json(), json!([expected]));
            requests.send_get(&poll_query(&polling, seq));
        };
        let [notice, ..] = sessions.each_ref().map(|it| subscribe_session(server.admin, it, "news"));
        assert_received(&notice, 0);
        server.admin.publish("news", 1);
        assert_received(&message(1, "news", 1, 1), 1);
        for number in 1..=2 {
            sessions.iter().for_each(|session| _ = send_to_session(server.admin, session, number));
            assert_received(&message(1 + number, "$session", number, number), 1 + number);
        }
        sessions.iter().for_each(|session| unsubscribe_session(server.admin, session, "news"));
        assert_received(&removed("news"), 3);
    }
}

/// The notice is in the next reply to `/meta/connect`, and a held connect is answered to deliver it. It is not
/// repeated.
#[test]
fn bayeux_clients_receive_messages_and_notices() {
    let server = RunningServer::with(&[]);
    let encke = |answer: &[Value]| answer.last().expect("a reply")["ext"]["encke"].clone();
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.handshake();
    let session = bayeux::session(&id);
    polls.request(&json!([connect_now(&id)]));
    polls.send(&json!([held_connect(&id)]));
    let notice = subscribe_session(server.admin, &session, "/a");
    let answer = polls.response();
    assert_eq!(encke(&answer), json!({"subscribed": [notice["subscribed"]]}), "{answer:?}");
    polls.send(&json!([held_connect(&id)]));
    server.admin.publish("/a", 1);
    let answer = polls.response();
    assert_eq!((events(&answer), encke(&answer)), (vec![json!(1)], Value::Null), "{answer:?}");
    polls.send(&json!([held_connect(&id)]));
    unsubscribe_session(server.admin, &session, "/a");
    let answer = polls.response();
    assert_eq!(encke(&answer), json!({"unsubscribed": [removed("/a")["unsubscribed"]]}), "{answer:?}");
    send_to_session(server.admin, &session, 7);
    let answer = polls.request(&json!([connect_now(&id)]));
    assert_eq!((&answer[0]["channel"], events(&answer)), (&json!("$session"), vec![json!(7)]), "{answer:?}");

    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.handshake();
    socket.request(&connect_now(&id));
    socket.send(&json!([held_connect(&id)]));
    let notice = subscribe_session(server.admin, &bayeux::session(&id), "/a");
    let answer = socket.messages_up_to_reply(&json!("c"));
    assert_eq!(encke(&answer), json!({"subscribed": [notice["subscribed"]]}), "{answer:?}");
    server.admin.publish("/a", 2);
    socket.send(&json!([connect_now(&id)]));
    let answer = socket.messages_up_to_reply(&json!("c"));
    assert_eq!((events(&answer), encke(&answer)), (vec![json!(2)], Value::Null), "{answer:?}");
}

#[test]
fn messages_notices_and_revocations_survive_a_restart() {
    let mut restarts = RestartableServer::with(&[&format!("auth.secret={SECRET}")]);
    let server = &restarts.server;
    let [token, revoked] = ["alice", "mallory"].map(|user| token(user, json!({})));
    let hello = server.suspend(server.client_with(&token));
    send_to_session(server.admin, &hello.session, 1);
    assert_eq!(send_to_user(server.admin, "alice", 1), (1, Some(1)));
    let notice = subscribe_session(server.admin, &hello.session, "news");
    server.admin.publish("news", 1);
    assert_eq!(revoke(server.admin, "mallory").ok(), json!({"sessions": 0}));

    restarts.restart();
    let server = &restarts.server;
    assert_eq!(Client::refusal_code(server.public, &format!("token={revoked}")), UNAUTHORIZED);
    send_to_session(server.admin, &hello.session, 2);
    // Restored sessions are found by their users.
    assert_eq!(send_to_user(server.admin, "alice", 2), (1, Some(2)));
    let mut client = resume(server, &hello, &format!("seq=0&token={token}"));
    assert_eq!(client.object(), notice);
    let mut received: Vec<_> = (1..=5)
        .map(|seq| {
            let message = client.object()["message"].take();
            assert_eq!((&message["seq"], &message["offset"]), (&json!(seq), &message["data"]));
            format!("{} {}", message["channel"], message["data"])
        })
        .collect();
    received.sort();
    let expected = [r#""$session" 1"#, r#""$session" 2"#, r#""$user" 1"#, r#""$user" 2"#, r#""news" 1"#];
    assert_eq!(received, expected);
    // The client has not read this notice before it disconnects.
    unsubscribe_session(server.admin, &hello.session, "news");
    drop(client);
    restarts.restart();
    let mut client = resume(&restarts.server, &hello, &format!("seq=5&token={token}"));
    assert_eq!(client.object(), removed("news"));
    assert_eq!(revoke(restarts.server.admin, "alice").ok(), json!({"sessions": 1}));
    assert_eq!(client.close_code(), Some(KICKED));
}
