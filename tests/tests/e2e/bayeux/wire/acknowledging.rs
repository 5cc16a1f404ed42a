use encke_tests::RunningServer;
use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, client_id, connect_now_with_ack, connect_with_ack,
    events, handshake, is_reply, publish, session, subscribe, with_field,
};
use encke_tests::waiting::until;
use serde_json::{Value, json};

use super::{await_held, connect_reply};

fn handshake_with_ack() -> Value {
    with_field(handshake(), "ext", json!({"ack": true}))
}

/// A session with the extension that follows `/news`: its client id.
#[track_caller]
fn open(polls: &mut BayeuxPolling) -> String {
    let reply = polls.reply(&handshake_with_ack());
    assert_agreed(&reply);
    let id = client_id(&reply);
    assert_successful(&polls.reply(&subscribe(&id, "/news")));
    assert_eq!(ack(&polls.request(&connect_now_with_ack(&id, 0))), 0);
    id
}

/// CometD takes either for a yes.
#[track_caller]
fn assert_agreed(reply: &Value) {
    let agreed = &reply["ext"]["ack"];
    assert!(*agreed == true || agreed["enabled"] == true, "{reply}");
}

/// What the reply to a connect asks to be acknowledged.
#[track_caller]
fn ack(answer: &[Value]) -> u64 {
    let reply = connect_reply(answer);
    assert_successful(reply);
    reply["ext"]["ack"].as_u64().unwrap_or_else(|| panic!("no ack: {reply}"))
}

#[test]
fn what_is_not_acknowledged_comes_again() {
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
    // On another connection.
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
fn what_was_never_sent_cannot_be_acknowledged() {
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

/// An answer that was lost, and the poll that the client sent meanwhile.
#[test]
fn of_two_connects_that_overlap_neither_loses_anything() {
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
    // The answer to the second is lost; one that was sent before it arrives after it.
    assert_eq!(events(&first.request(&connect_with_ack(&id, 0))), [1]);
    second.send(&connect_with_ack(&id, 1));
    await_held(&server, &id);
    // Whoever asks with an older one has not got what is after that.
    assert_eq!(events(&first.request(&connect_now_with_ack(&id, 0))), [1]);
    assert_eq!(events(&second.response()), [] as [i32; 0]);
    server.admin.publish("/news", 2);
    assert_eq!(events(&second.request(&connect_now_with_ack(&id, 1))), [2]);
}

/// Messages come with connects only: what else is asked for brings none.
#[test]
fn replies_to_others_bring_no_messages() {
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
fn over_a_websocket_messages_ride_on_connects_as_well() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let reply = socket.reply(&handshake_with_ack());
    assert_agreed(&reply);
    let id = client_id(&reply);
    assert_successful(&socket.reply(&subscribe(&id, "/news")));
    assert_eq!(ack(&socket.request(&connect_now_with_ack(&id, 0))), 0);
    // No connect is held: its replies are all that comes.
    for number in 1..=3 {
        let came = socket.request(&publish(&id, "/news", number));
        assert!(came.iter().all(is_reply), "{came:?}");
    }
    for _ in 0..2 {
        let came = socket.request(&connect_with_ack(&id, 0));
        assert_eq!((events(&came), ack(&came)), (vec![json!(1), json!(2), json!(3)], 3));
    }
    // Held, and then released by one message.
    socket.send(&connect_with_ack(&id, 3));
    await_held(&server, &id);
    server.admin.publish("/news", 4);
    let came = socket.messages_up_to_reply(&json!("c"));
    assert_eq!((events(&came), ack(&came)), (vec![json!(4)], 4));
    // Cut: by another connection, and by polls.
    drop(socket);
    let mut socket = BayeuxWebSocket::connect(server.public);
    assert_eq!(events(&socket.request(&connect_with_ack(&id, 3))), [4]);
    drop(socket);
    let mut polls = BayeuxPolling::connect(server.public);
    assert_eq!(events(&polls.request(&connect_with_ack(&id, 3))), [4]);
}

/// Also with one that is not to be held.
#[test]
fn over_a_websocket_what_waits_comes_with_a_connect_that_is_answered_at_once() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = client_id(&socket.reply(&handshake_with_ack()));
    assert_successful(&socket.reply(&subscribe(&id, "/news")));
    assert_eq!(ack(&socket.request(&connect_now_with_ack(&id, 0))), 0);
    for number in 1..=3 {
        server.admin.publish("/news", number);
        // Whatever tells the connection of it has done so by now.
        assert!(socket.request(&publish(&id, "/other", number)).iter().all(is_reply));
        let came = socket.request(&connect_now_with_ack(&id, number - 1));
        assert_eq!((events(&came), ack(&came)), (vec![json!(number)], number));
    }
}

/// A reader that takes nothing while its connect is held, until the server gives its connection up: nothing is lost with that, and
/// nobody else notices.
#[test]
fn a_reader_that_stalls_during_a_held_connect_loses_nothing() {
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
        // Its client polls on without reading.
        if number <= 20 {
            let connect = connect_with_ack(&id, 0).to_string();
            let _ =
                socket.raw.try_send(&encke_tests::raw::masked(encke_tests::raw::TEXT, connect.as_bytes()));
        }
    }
    server.await_phase(&session(&id), "suspended");
    let number = |data: &Value| data[0].as_u64().expect("a number");
    for (polls, id) in [(&mut other, &other_id), (&mut BayeuxPolling::connect(server.public), &id)] {
        let (mut came, mut seq) = (Vec::new(), 0);
        until("all has come", || {
            let answer = polls.request(&connect_now_with_ack(id, seq));
            came.extend(events(&answer).iter().map(number));
            seq = ack(&answer);
            came.len() as u64 >= MESSAGES
        });
        assert_eq!(came, Vec::from_iter(1..=MESSAGES));
    }
    server.assert_healthy();
}
