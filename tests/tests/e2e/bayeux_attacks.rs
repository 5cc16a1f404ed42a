//! Clients of Bayeux that do what no stock client does.

use std::time::{Duration, Instant};

use encke_tests::RunningServer;
use encke_tests::bayeux::{
    Polls, Socket, assert_refused, assert_successful, client_id, connect, connect_now, connect_now_with_ack,
    connect_with_ack, events, handshake, is_reply, publish, subscribe, with,
};
use encke_tests::raw::{PING, TEXT, masked};
use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::until;
use serde_json::{Value, json};

const TRY_AGAIN_LATER: u16 = 1013;

/// A WebSocket of a client that acknowledges, which follows this channel and has had its first connect: its client id.
fn acknowledging(socket: &mut Socket, channel: &str) -> String {
    let id = client_id(&socket.reply(&with(handshake(), "ext", json!({ "ack": true }))));
    assert_successful(&socket.reply(&subscribe(&id, channel)));
    assert_successful(&socket.reply(&connect_now_with_ack(&id, 0)));
    id
}

/// Over a WebSocket as by requests.
#[test]
fn a_connect_that_is_answered_at_once_brings_what_there_is() {
    let server = RunningServer::with(&[]);
    let mut socket = Socket::connect(server.public);
    let id = acknowledging(&mut socket, "/a");
    for number in 1..=3 {
        server.admin.publish("/a", number);
    }
    for (ack, expected) in
        [(0, vec![1, 2, 3]), (0, vec![1, 2, 3]), (2, vec![3]), (1, vec![2, 3]), (3, vec![])]
    {
        let came = socket.ask(&connect_now_with_ack(&id, ack));
        assert_eq!(events(&came), expected, "after {ack}");
        assert_eq!(came.last().expect("a reply")["ext"]["ack"], 3, "{came:?}");
    }
}

/// A client that is told that its session is gone opens another.
#[test]
fn of_two_connects_in_one_request_neither_is_refused() {
    let server = RunningServer::with(&[IN_MEMORY]);
    let mut polls = Polls::connect(server.public);
    let id = polls.open(&["/a"]);
    server.admin.publish("/a", 1);
    let answer = polls.ask(&json!([with(connect(&id), "id", 1), with(connect(&id), "id", 2)]));
    assert_eq!(events(&answer), [1]);
    let replies: Vec<_> = answer.iter().filter(|message| is_reply(message)).collect();
    assert_eq!(replies.len(), 2, "{answer:?}");
    replies.into_iter().for_each(assert_successful);
}

/// A held connect is kept: what it carries besides should not be.
#[test]
fn a_connect_does_not_repeat_what_is_of_other_messages() {
    let server = RunningServer::with(&[]);
    let mut polls = Polls::connect(server.public);
    let id = polls.open(&[]);
    let reply = polls.reply(&with(connect_now(&id), "subscription", "x".repeat(60_000)));
    assert_successful(&reply);
    assert_eq!(reply.get("subscription"), None);
    assert_eq!(polls.reply(&subscribe(&id, "/a"))["subscription"], "/a");
}

/// By requests as over a WebSocket, before it has a session and after.
#[test]
fn an_ack_of_what_was_never_sent_leads_to_a_new_session() {
    let server = RunningServer::with(&[]);
    let assert_to_handshake = |reply: &Value| {
        assert_refused(reply, "400");
        assert_eq!(reply["advice"]["reconnect"], "handshake", "{reply}");
    };
    for beyond in [1, i64::MAX as u64, u64::MAX] {
        let mut socket = Socket::connect(server.public);
        let id = acknowledging(&mut socket, "/a");
        assert_to_handshake(&socket.reply(&connect_with_ack(&id, beyond)));
        let mut other = Socket::connect(server.public);
        assert_to_handshake(&other.reply(&connect_with_ack(&id, beyond)));
        assert_to_handshake(&Polls::connect(server.public).reply(&connect_with_ack(&id, beyond)));
        assert_successful(&socket.reply(&connect_now_with_ack(&id, 0)));
    }
}

/// Like frames, they wait when they come too fast, however many come at a time.
#[test]
fn messages_of_one_text_count_each() {
    const CONNECTS: usize = 64;
    let server = RunningServer::with(&["limits.frames_per_second=10"]);
    let mut socket = Socket::connect(server.public);
    let id = socket.open(&[]);
    let begun = Instant::now();
    let connects: Vec<_> = (0..CONNECTS).map(|number| with(connect_now(&id), "id", number)).collect();
    socket.send(&json!(connects));
    let _ = socket.up_to_reply(&json!(CONNECTS - 1));
    let _ = socket.ask(&publish(&id, "/a", 1));
    // A second's worth may come at once.
    assert!(begun.elapsed() > Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// What comes with a handshake on a socket that has a session, whole or not.
#[test]
fn nothing_is_lost_behind_a_new_handshake() {
    let server = RunningServer::with(&[]);
    let text = |message: &Value| masked(TEXT, message.to_string().as_bytes());
    let unknown = |id: u64| with(connect("s_unknown.unknown"), "id", id);
    let behind = [text(&unknown(1)), masked(PING, b"still there"), text(&unknown(2))].concat();
    for split in [0, 1, 20, behind.len() - 1] {
        let mut socket = Socket::connect(server.public);
        let _ = socket.open(&[]);
        let (whole, rest) = behind.split_at(split);
        socket.raw.send(&[&text(&handshake()), whole].concat());
        let _ = client_id(&socket.messages()[0]);
        socket.raw.send(rest);
        assert_refused(&socket.messages()[0], "402");
        assert_eq!(socket.raw.frame().payload, b"still there");
        assert_refused(&socket.messages()[0], "402");
    }
}

/// Before sockets have a session, what they begin to say counts for all of them.
#[test]
fn unfinished_texts_of_sockets_without_a_session_are_bounded() {
    let server = RunningServer::with(&[
        "limits.receive_total=256KiB",
        "limits.max_message=64KiB",
        // Those that are given up are no late ones, however long the machine takes.
        "limits.handshake_timeout=1m",
    ]);
    let text = masked(TEXT, &vec![b'x'; 60_000]);
    let mut sockets: Vec<_> = (0..8).map(|_| Socket::connect(server.public)).collect();
    for socket in &mut sockets {
        socket.raw.send(&text[..text.len() - 1]);
    }
    let metric = |name| server.admin.metrics().value(name);
    until("some are given up", || metric("encke_unfinished_closed_total") >= 4.0);
    // It is told why, whatever it was in the middle of.
    assert_eq!(sockets[0].raw.close_code(), TRY_AGAIN_LATER);
    drop(sockets);
    until("nothing is left", || metric("encke_unfinished_bytes") == 0.0);
}
