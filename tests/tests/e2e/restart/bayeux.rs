use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_successful, client_id, connect, connect_now, connect_now_with_ack,
    connect_with_ack, events, handshake, session, subscribe, with_field,
};
use encke_tests::waiting::{TIMEOUT, until};
use serde_json::{Value, json};

use super::{MOVED, RestartableServer};

fn await_held(restarts: &RestartableServer, client_id: &str) {
    until("the connect is held", || {
        restarts.server.admin.session(&session(client_id))["deadlines"].to_string().contains("poll_hold")
    });
}

/// Asserts that the last reply advises the client to pause before it connects again.
#[track_caller]
fn assert_paused(answer: &[Value]) {
    let reply = answer.last().expect("a reply");
    assert_successful(reply);
    let advice = &reply["advice"];
    assert!(advice["interval"].as_u64().is_some_and(|pause| pause < 2_000), "{reply}");
    assert_ne!(advice["reconnect"], "handshake", "{reply}");
}

#[test]
fn a_held_connect_is_answered_and_the_session_continues() {
    let mut restarts = RestartableServer::with(&[]);
    let mut polls = BayeuxPolling::connect(restarts.server.public);
    let id = polls.open(&["/news"]);
    restarts.server.admin.publish("/news", 1);
    assert_eq!(events(&polls.request(&connect(&id))), [1]);
    polls.send(&connect(&id));
    await_held(&restarts, &id);
    restarts.server.terminate();
    assert_paused(&polls.response());
    restarts.server.await_exit(TIMEOUT);
    restarts.start();
    restarts.server.admin.publish("/news", 2);
    let mut polls = BayeuxPolling::connect(restarts.server.public);
    let answer = polls.request(&connect(&id));
    assert_eq!(events(&answer), [2], "{answer:?}");
    // The advised pause has ended.
    assert_eq!(answer.last().map(|reply| &reply["advice"]["interval"]), Some(&json!(0)), "{answer:?}");
    restarts.server.admin.publish("/news", 3);
    assert_eq!(events(&polls.request(&connect_now(&id))), [3]);
}

#[test]
fn unacknowledged_messages_are_repeated() {
    let mut restarts = RestartableServer::with(&[]);
    let mut polls = BayeuxPolling::connect(restarts.server.public);
    let id = client_id(&polls.reply(&with_field(handshake(), "ext", json!({"ack": true}))));
    assert_successful(&polls.reply(&subscribe(&id, "/news")));
    polls.request(&connect_now_with_ack(&id, 0));
    for number in 1..=2 {
        restarts.server.admin.publish("/news", number);
    }
    assert_eq!(events(&polls.request(&connect_with_ack(&id, 0))), [1, 2]);
    for _ in 0..2 {
        restarts.restart();
    }
    let mut polls = BayeuxPolling::connect(restarts.server.public);
    restarts.server.admin.publish("/news", 3);
    assert_eq!(events(&polls.request(&connect_with_ack(&id, 1))), [2, 3]);
    restarts.server.admin.publish("/news", 4);
    assert_eq!(events(&polls.request(&connect_now_with_ack(&id, 3))), [4]);
}

#[test]
fn a_websocket_session_continues() {
    let mut restarts = RestartableServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(restarts.server.public);
    let id = socket.open(&["/news"]);
    restarts.server.admin.publish("/news", 1);
    assert_eq!(events(&socket.messages()), [1]);
    socket.send(&connect(&id));
    await_held(&restarts, &id);
    restarts.server.terminate();
    assert_paused(&socket.messages());
    assert_eq!(socket.raw.close_code(), MOVED);
    drop(socket);
    restarts.server.await_exit(TIMEOUT);
    restarts.start();
    restarts.server.admin.publish("/news", 2);
    let mut socket = BayeuxWebSocket::connect(restarts.server.public);
    socket.send(&connect(&id));
    let mut received = socket.messages();
    while events(&received).is_empty() {
        received.extend(socket.messages());
    }
    let gaps = received.iter().find_map(|message| message["ext"]["encke"]["gaps"].as_array().cloned());
    // The client does not acknowledge messages. A message that may have been lost with the connection is
    // reported as a gap, and the new message arrives once.
    let gaps = gaps.unwrap_or_default();
    assert!(gaps.len() <= 1, "{received:?}");
    assert_eq!(events(&received), [2], "{received:?}");
}
