use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_successful, client_id, connect_now_with_ack, connect_with_ack,
    events, handshake, is_reply, publish, session, subscribe, with_field,
};
use encke_tests::raw::{Dial, TEXT, masked};
use encke_tests::waiting::until;
use encke_tests::{RawClient, RunningServer};
use serde_json::{Value, json};

use super::connect_reply;

/// Opens a session with the extension, subscribed to `/news`, with requests or on a WebSocket. Returns its
/// client id.
#[track_caller]
fn open(mut request: impl FnMut(&Value) -> Vec<Value>) -> String {
    let reply = request(&with_field(handshake(), "ext", json!({"ack": true}))).remove(0);
    // The server agrees in either of the two forms that CometD accepts.
    let agreed = &reply["ext"]["ack"];
    assert!(*agreed == true || agreed["enabled"] == true, "{reply}");
    let id = client_id(&reply);
    assert_successful(&request(&subscribe(&id, "/news"))[0]);
    assert_eq!(ack(&request(&connect_now_with_ack(&id, 0))), 0);
    id
}

/// Returns the ack of a reply to a connect, which the client sends with its next connect.
#[track_caller]
fn ack(answer: &[Value]) -> u64 {
    let reply = connect_reply(answer);
    assert_successful(reply);
    reply["ext"]["ack"].as_u64().unwrap_or_else(|| panic!("no ack: {reply}"))
}

#[test]
fn unacknowledged_messages_are_sent_again() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = open(|message| polls.request(message));
    server.admin.publish_each("/news", 1..=3);
    for _ in 0..3 {
        let answer = polls.request(&connect_with_ack(&id, 0));
        assert_eq!((events(&answer), ack(&answer)), (vec![json!(1), json!(2), json!(3)], 3));
    }
    // Acknowledging also works over another connection.
    let mut other = BayeuxPolling::connect(server.public);
    let answer = other.request(&connect_with_ack(&id, 2));
    assert_eq!((events(&answer), ack(&answer)), (vec![json!(3)], 3));
    let answer = other.request(&connect_now_with_ack(&id, 3));
    assert_eq!((events(&answer), ack(&answer)), (vec![], 3));
    server.admin.publish("/news", 4);
    // Only replies to connects carry messages.
    for message in [publish(&id, "/news", 5), subscribe(&id, "/more")] {
        assert_eq!(events(&other.request(&message)), [] as [i32; 0], "{message}");
    }
    assert_eq!(events(&other.request(&connect_with_ack(&id, 3))), [4, 5]);
    server.await_lifecycle(&session(&id), "opened connect");
}

#[test]
fn messages_come_with_connects_over_a_websocket_as_well() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = open(|message| socket.request(message));
    // No connect is held, so only replies arrive.
    for number in 1..=3 {
        let received = socket.request(&publish(&id, "/news", number));
        assert!(received.iter().all(is_reply), "{received:?}");
    }
    for _ in 0..2 {
        let received = socket.request(&connect_with_ack(&id, 0));
        assert_eq!((events(&received), ack(&received)), (vec![json!(1), json!(2), json!(3)], 3));
    }
    // A held connect is answered when a message is published.
    socket.send(&connect_with_ack(&id, 3));
    server.await_held(&session(&id));
    server.admin.publish("/news", 4);
    let received = socket.messages_up_to_reply(&json!("c"));
    assert_eq!((events(&received), ack(&received)), (vec![json!(4)], 4));
    // Unacknowledged messages are sent again after a disconnect: over another socket, and over polls.
    drop(socket);
    let mut socket = BayeuxWebSocket::connect(server.public);
    assert_eq!(events(&socket.request(&connect_with_ack(&id, 3))), [4]);
    drop(socket);
    let mut polls = BayeuxPolling::connect(server.public);
    assert_eq!(events(&polls.request(&connect_with_ack(&id, 3))), [4]);
}

/// A client reads nothing while its connect is held, until the server closes the connection. It loses no
/// messages, and other clients are not affected.
#[test]
fn reader_that_stalls_during_a_held_connect_loses_nothing() {
    const MESSAGES: u64 = 60;
    let server = RunningServer::with(&[
        "session.write_timeout=3s",
        "limits.send_buffer=8KiB",
        "channel.history_bytes=8MiB",
        "limits.max_message=64KiB",
    ]);
    let mut other = BayeuxPolling::connect(server.public);
    let other_id = open(|message| other.request(message));
    let slow = Dial::with_receive_buffer(4096).connect(server.public);
    let mut socket = BayeuxWebSocket::over(RawClient::over(slow));
    let id = open(|message| socket.request(message));
    socket.send(&connect_with_ack(&id, 0));
    server.await_held(&session(&id));
    let long = "x".repeat(30_000);
    for number in 1..=MESSAGES {
        server.admin.publish("/news", json!([number, long]));
        // Keep sending polls without reading.
        if number <= 20 {
            let _ = socket.raw.try_send(masked(TEXT, connect_with_ack(&id, 0).to_string().as_bytes()));
        }
    }
    server.await_phase(&session(&id), "suspended");
    let number = |data: &Value| data[0].as_u64().expect("a number");
    for (polls, id) in [(&mut other, &other_id), (&mut BayeuxPolling::connect(server.public), &id)] {
        let (mut received, mut seq) = (Vec::new(), 0);
        until("all messages have arrived", || {
            let answer = polls.request(&connect_now_with_ack(id, seq));
            received.extend(events(&answer).iter().map(number));
            seq = ack(&answer);
            received.len() as u64 >= MESSAGES
        });
        assert_eq!(received, Vec::from_iter(1..=MESSAGES));
    }
    server.assert_healthy();
}
