use encke_tests::RunningServer;
use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, client_id, connect_now_with_ack,
    connect_with_ack, events, handshake, is_reply, publish, session, subscribe, with_field,
};
use encke_tests::waiting::until;
use serde_json::{Value, json};

use super::{await_held, connect_reply};

fn handshake_with_ack() -> Value {
    with_field(handshake(), "ext", json!({"ack": true}))
}

/// Opens a session with the extension, subscribed to `/news`. Returns its client id.
#[track_caller]
fn open(polls: &mut BayeuxPolling) -> String {
    let reply = polls.reply(&handshake_with_ack());
    assert_agreed(&reply);
    let id = client_id(&reply);
    assert_successful(&polls.reply(&subscribe(&id, "/news")));
    assert_eq!(ack(&polls.request(&connect_now_with_ack(&id, 0))), 0);
    id
}

/// Asserts that the server has agreed to use the extension, in either of the two forms that CometD accepts.
#[track_caller]
fn assert_agreed(reply: &Value) {
    let agreed = &reply["ext"]["ack"];
    assert!(*agreed == true || agreed["enabled"] == true, "{reply}");
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
    let id = open(&mut polls);
    for number in 1..=3 {
        server.admin.publish("/news", number);
    }
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
    assert_eq!(events(&other.request(&connect_with_ack(&id, 3))), [4]);
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

#[test]
fn ack_beyond_what_was_sent_is_refused() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = open(&mut polls);
    server.admin.publish("/news", 1);
    assert_eq!(ack(&polls.request(&connect_with_ack(&id, 0))), 1);
    for beyond in [2, 1 << 52] {
        let reply = polls.reply(&connect_now_with_ack(&id, beyond));
        assert_refused(&reply, "400");
        assert_eq!(reply["advice"]["reconnect"], "handshake", "{reply}");
    }
}

/// A response is lost, and the client has sent another poll in the meantime.
#[test]
fn overlapping_connects_lose_nothing() {
    let server = RunningServer::with(&[]);
    let mut first = BayeuxPolling::connect(server.public);
    let id = open(&mut first);
    first.send(&connect_with_ack(&id, 0));
    await_held(&server, &id);
    let mut second = BayeuxPolling::connect(server.public);
    second.send(&connect_with_ack(&id, 0));
    assert_eq!(events(&first.response()), [] as [i32; 0]);
    await_held(&server, &id);
    server.admin.publish("/news", 1);
    assert_eq!(events(&second.response()), [1]);
    // The answer to the second connect is lost, and an older connect arrives after it.
    assert_eq!(events(&first.request(&connect_with_ack(&id, 0))), [1]);
    second.send(&connect_with_ack(&id, 1));
    await_held(&server, &id);
    // A client that sends an older ack has not received the messages after that ack.
    assert_eq!(events(&first.request(&connect_now_with_ack(&id, 0))), [1]);
    assert_eq!(events(&second.response()), [] as [i32; 0]);
    server.admin.publish("/news", 2);
    assert_eq!(events(&second.request(&connect_now_with_ack(&id, 1))), [2]);
}

/// Messages are delivered only with replies to connects.
#[test]
fn only_replies_to_connects_carry_messages() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = open(&mut polls);
    server.admin.publish("/news", 1);
    for message in [publish(&id, "/news", 2), subscribe(&id, "/more")] {
        let answer = polls.request(&message);
        assert_eq!(events(&answer), [] as [i32; 0], "{message}");
    }
    assert_eq!(events(&polls.request(&connect_with_ack(&id, 0))), [1, 2]);
}

#[test]
fn messages_come_with_connects_over_a_websocket_as_well() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let reply = socket.reply(&handshake_with_ack());
    assert_agreed(&reply);
    let id = client_id(&reply);
    assert_successful(&socket.reply(&subscribe(&id, "/news")));
    assert_eq!(ack(&socket.request(&connect_now_with_ack(&id, 0))), 0);
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
    await_held(&server, &id);
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

#[test]
fn pending_messages_come_with_an_immediate_connect_over_a_websocket() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = client_id(&socket.reply(&handshake_with_ack()));
    assert_successful(&socket.reply(&subscribe(&id, "/news")));
    assert_eq!(ack(&socket.request(&connect_now_with_ack(&id, 0))), 0);
    for number in 1..=3 {
        server.admin.publish("/news", number);
        // The reply shows that the connection has been notified of the message by now.
        assert!(socket.request(&publish(&id, "/other", number)).iter().all(is_reply));
        let received = socket.request(&connect_now_with_ack(&id, number - 1));
        assert_eq!((events(&received), ack(&received)), (vec![json!(number)], number));
    }
}

/// A client reads nothing while its connect is held, until the server closes the connection. It loses no
/// messages, and other clients are not affected.
#[test]
fn reader_that_stalls_during_a_held_connect_loses_nothing() {
    const MESSAGES: u64 = 60;
    let server = RunningServer::with(&[
        "session.write_timeout=1s",
        "limits.send_buffer=8KiB",
        "channel.history_bytes=8MiB",
        "limits.max_message=64KiB",
    ]);
    let mut other = BayeuxPolling::connect(server.public);
    let other_id = open(&mut other);
    let dial = encke_tests::raw::Dial { receive_buffer: Some(4096), ..Default::default() };
    let mut socket = BayeuxWebSocket::over(encke_tests::RawClient::over(dial.connect(server.public)));
    let id = client_id(&socket.reply(&handshake_with_ack()));
    assert_successful(&socket.reply(&subscribe(&id, "/news")));
    assert_eq!(ack(&socket.request(&connect_now_with_ack(&id, 0))), 0);
    socket.send(&connect_with_ack(&id, 0));
    await_held(&server, &id);
    let long = "x".repeat(30_000);
    for number in 1..=MESSAGES {
        server.admin.publish("/news", json!([number, long]));
        // Keep sending polls without reading.
        if number <= 20 {
            let connect = connect_with_ack(&id, 0).to_string();
            let _ =
                socket.raw.try_send(&encke_tests::raw::masked(encke_tests::raw::TEXT, connect.as_bytes()));
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
