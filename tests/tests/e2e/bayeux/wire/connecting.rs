use encke_tests::RunningServer;
use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, client_id, connect, connect_now,
    disconnect, events, handshake, publish, session, subscribe, with_field, with_token,
};
use encke_tests::server::IN_MEMORY;
use encke_tests::tokens::{token, unix_time};
use serde_json::{Value, json};

use super::{connect_reply, timing};

/// If the first connect were held, aiocometd would wait forever. The reply repeats the timeouts. A later
/// connect is held until there is a message, or until another one supersedes it.
#[test]
fn all_connects_but_the_first_are_held() {
    // The hold is longer than the test waits.
    let server = RunningServer::with(&["session.poll_hold=50s"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.handshake();
    let reply = polls.reply(&connect(&id));
    assert_successful(&reply);
    assert_eq!((&reply["channel"], &reply["id"]), (&json!("/meta/connect"), &json!("c")));
    assert_eq!(reply["advice"]["reconnect"], "retry");
    assert_eq!(timing(&reply["advice"]), json!([50_000, 0, 120_000]));
    assert_successful(&polls.reply(&subscribe(&id, "/news")));
    for number in 1..=2 {
        polls.send(&json!([connect(&id)]));
        server.await_held(&session(&id));
        server.admin.publish("/news", number);
        let answer = polls.response();
        assert_eq!(answer.len(), 2, "{answer:?}");
        assert_eq!((&answer[0]["channel"], &answer[0]["data"]), (&json!("/news"), &json!(number)));
        assert_eq!(answer[0].get("successful"), None);
        assert_successful(connect_reply(&answer));
    }
    // Two clients with the same id do not keep replacing each other: the first is advised to pause.
    polls.send(&connect(&id));
    server.await_held(&session(&id));
    let mut second = BayeuxPolling::connect(server.public);
    second.send(&with_field(connect(&id), "id", "second"));
    let superseded = polls.response();
    assert_eq!(events(&superseded), [] as [i32; 0]);
    let advice = &connect_reply(&superseded)["advice"];
    assert!(advice["interval"].as_u64().is_some_and(|pause_ms| pause_ms >= 1_000), "{superseded:?}");
    server.await_held(&session(&id));
    server.admin.publish("/news", 3);
    let answer = second.response();
    assert_eq!((events(&answer), &connect_reply(&answer)["id"]), (vec![json!(3)], &json!("second")));
    server.await_lifecycle(&session(&id), "opened connect");
}

#[test]
fn connect_without_a_hold_or_in_a_shared_request_is_answered_at_once() {
    let server = RunningServer::with(&[IN_MEMORY, "session.poll_hold=50s"]);
    let (mut polls, id) = BayeuxPolling::opened(server.public, &[]);
    assert_successful(&polls.reply(&connect_now(&id)));
    let answer = polls.request(&json!([connect(&id), subscribe(&id, "/news")]));
    assert_eq!(answer.len(), 2, "{answer:?}");
    assert_eq!(answer[0]["channel"], "/meta/subscribe");
    assert_successful(&answer[0]);
    assert_successful(connect_reply(&answer));
    // Messages come first, then replies; the reply to the connect is last.
    let answer = polls.request(&json!([connect(&id), publish(&id, "/news", 1), publish(&id, "/news", 2)]));
    assert_eq!(events(&answer), [1, 2]);
    assert_successful(connect_reply(&answer));
    assert_eq!(answer.len(), 5, "{answer:?}");
}

#[test]
fn connect_in_the_request_of_a_disconnect_is_answered() {
    let server = RunningServer::with(&[]);
    for reversed in [false, true] {
        let (mut polls, id) = BayeuxPolling::opened(server.public, &[]);
        assert_both_answered(polls.request(&connect_and_disconnect(&id, reversed)));
        server.await_removal(&session(&id));
        // The same over WebSockets: on the one of the session, and on one that has no session yet.
        let (mut socket, id) = BayeuxWebSocket::opened(server.public, &[]);
        assert_both_answered(two_replies(&mut socket, &connect_and_disconnect(&id, reversed)));
        let id = polls.open(&[]);
        let mut socket = BayeuxWebSocket::connect(server.public);
        assert_both_answered(two_replies(&mut socket, &connect_and_disconnect(&id, reversed)));
    }
}

fn connect_and_disconnect(id: &str, reversed: bool) -> Value {
    let mut messages = [connect(id), disconnect(id)];
    messages.rotate_left(usize::from(reversed));
    json!(messages)
}

#[track_caller]
fn assert_both_answered(mut replies: Vec<Value>) {
    replies.sort_by_key(|reply| reply["channel"].as_str().unwrap_or_default().to_owned());
    assert_eq!(replies.len(), 2, "{replies:?}");
    replies.iter().for_each(assert_successful);
    assert_eq!(replies[0]["channel"], "/meta/connect");
    assert_eq!(replies[0]["advice"]["reconnect"], "none", "{replies:?}");
}

#[track_caller]
fn two_replies(socket: &mut BayeuxWebSocket, messages: &Value) -> Vec<Value> {
    socket.send(messages);
    let mut messages = socket.messages();
    while messages.len() < 2 {
        messages.extend(socket.messages());
    }
    messages
}

/// The client's token has expired, but the client has the session's secret.
#[test]
fn a_client_without_a_valid_token_may_end_its_session() {
    let server = RunningServer::with_tokens(&[]);
    let token = token("alice", json!({"exp": unix_time().as_secs() + 4}));
    let hello = with_token(handshake(), &token);
    let mut polls = BayeuxPolling::connect(server.public);
    let [id, other] = [(); 2].map(|()| client_id(&polls.reply(&hello)));
    [&id, &other].iter().for_each(|id| server.await_phase(&session(id), "suspended"));
    for message in [connect(&id), subscribe(&id, "/x")] {
        assert_refused(&polls.reply(&message), "401");
    }
    assert_successful(&polls.reply(&disconnect(&id)));
    server.await_removal(&session(&id));
    // A connect in the same request is not advised to reconnect either.
    let mut socket = BayeuxWebSocket::connect(server.public);
    assert_both_answered(two_replies(&mut socket, &connect_and_disconnect(&other, false)));
}

/// A held connect is answered with the reason. No request is waiting for an answer between connects, so the
/// reply to the client's next message has the reason, regardless of the kind of message.
#[test]
fn kicked_client_is_advised_not_to_reconnect() {
    let server = RunningServer::with(&[]);
    let (mut polls, held) = BayeuxPolling::opened(server.public, &[]);
    polls.send(&connect(&held));
    server.await_held(&session(&held));
    server.admin.kick(&session(&held));
    let answer = polls.response();
    assert_eq!(connect_reply(&answer)["advice"]["reconnect"], "none", "{answer:?}");

    let id = polls.open(&[]);
    server.admin.kick(&session(&id));
    for message in [subscribe(&id, "/x"), connect(&id), connect_now(&id)] {
        let reply = polls.reply(&message);
        assert_refused(&reply, "403");
        assert_eq!(reply["advice"]["reconnect"], "none", "{reply}");
    }
    let reply = BayeuxWebSocket::connect(server.public).reply(&connect(&id));
    assert_eq!(reply["advice"]["reconnect"], "none", "{reply}");
    // A guessed secret reveals nothing about the session.
    let reply = polls.reply(&connect(&format!("{}.AAAAAAAAAAAAAAAAAAAAAA", session(&id))));
    assert_refused(&reply, "402");
}

/// A held connect is answered with a pause, in a form that every client understands: after an HTTP error,
/// Faye would wait for 5 s.
#[test]
fn a_drain_answers_held_connects() {
    let mut server = RunningServer::with(&[]);
    let (mut polls, id) = BayeuxPolling::opened(server.public, &[]);
    polls.send(&connect(&id));
    server.await_held(&session(&id));
    server.terminate();
    let answer = polls.response();
    let reply = connect_reply(&answer);
    assert!(reply["advice"]["interval"].is_u64(), "{answer:?}");
    // CometD's client throws an exception on a `handshake` advice in a successful reply.
    if reply["successful"] == true {
        assert_ne!(reply["advice"]["reconnect"], "handshake", "{answer:?}");
    }
    server.await_exit();
}
