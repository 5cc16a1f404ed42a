//! Bayeux requests that no stock client sends.

use std::time::{Duration, Instant};

use encke_tests::RunningServer;
use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, client_id, connect, connect_now,
    connect_now_with_ack, connect_with_ack, events, handshake, is_reply, publish, subscribe, with_field,
};
use encke_tests::raw::{PING, TEXT, masked};
use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::until;
use serde_json::{Value, json};

const TRY_AGAIN_LATER: u16 = 1013;

/// Opens a session with acknowledgements, subscribes it to `channel`, and sends its first connect. Returns
/// the client id.
fn acknowledging(socket: &mut BayeuxWebSocket, channel: &str) -> String {
    let id = client_id(&socket.reply(&with_field(handshake(), "ext", json!({ "ack": true }))));
    assert_successful(&socket.reply(&subscribe(&id, channel)));
    assert_successful(&socket.reply(&connect_now_with_ack(&id, 0)));
    id
}

/// A connect with an older ack returns all later messages again. The same holds for connects over HTTP.
#[test]
fn immediate_connect_returns_unacknowledged_messages() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = acknowledging(&mut socket, "/a");
    server.admin.publish_each("/a", 1..=3);
    for (ack, expected) in
        [(0, vec![1, 2, 3]), (0, vec![1, 2, 3]), (2, vec![3]), (1, vec![2, 3]), (3, vec![])]
    {
        let received = socket.request(&connect_now_with_ack(&id, ack));
        assert_eq!(events(&received), expected, "after {ack}");
        assert_eq!(received.last().expect("a reply")["ext"]["ack"], 3, "{received:?}");
    }
}

/// If the second connect were refused as unknown, the client would open a new session. The server stores a
/// held connect and must not store unrelated fields with it.
#[test]
fn two_connects_in_one_request_both_succeed() {
    let server = RunningServer::with(&[IN_MEMORY]);
    let (mut polls, id) = BayeuxPolling::opened(server.public, &["/a"]);
    server.admin.publish("/a", 1);
    let answer =
        polls.request(&json!([with_field(connect(&id), "id", 1), with_field(connect(&id), "id", 2)]));
    assert_eq!(events(&answer), [1]);
    let replies: Vec<_> = answer.iter().filter(|message| is_reply(message)).collect();
    assert_eq!(replies.len(), 2, "{answer:?}");
    replies.into_iter().for_each(assert_successful);
    let reply = polls.reply(&with_field(connect_now(&id), "subscription", "x".repeat(60_000)));
    assert_successful(&reply);
    assert_eq!(reply.get("subscription"), None);
}

/// This holds over HTTP, and over a WebSocket before and after it has a session.
#[test]
fn ack_beyond_what_was_sent_requires_a_new_handshake() {
    let server = RunningServer::with(&[]);
    let assert_to_handshake = |reply: &Value| {
        assert_refused(reply, "400");
        assert_eq!(reply["advice"]["reconnect"], "handshake", "{reply}");
    };
    for beyond in [1, i64::MAX as u64, u64::MAX] {
        let mut socket = BayeuxWebSocket::connect(server.public);
        let id = acknowledging(&mut socket, "/a");
        assert_to_handshake(&socket.reply(&connect_with_ack(&id, beyond)));
        let mut other = BayeuxWebSocket::connect(server.public);
        assert_to_handshake(&other.reply(&connect_with_ack(&id, beyond)));
        assert_to_handshake(&BayeuxPolling::connect(server.public).reply(&connect_with_ack(&id, beyond)));
        assert_successful(&socket.reply(&connect_now_with_ack(&id, 0)));
    }
}

/// Messages over the rate limit are delayed like frames, regardless of how many arrive in one text.
#[test]
fn each_message_of_a_text_counts_against_the_rate_limit() {
    const CONNECTS: usize = 32;
    let server = RunningServer::with(&["limits.frames_per_second=10"]);
    let (mut socket, id) = BayeuxWebSocket::opened(server.public, &[]);
    let start = Instant::now();
    let connects: Vec<_> = (0..CONNECTS).map(|number| with_field(connect_now(&id), "id", number)).collect();
    socket.send(&json!(connects));
    let _ = socket.messages_up_to_reply(&json!(CONNECTS - 1));
    let _ = socket.request(&publish(&id, "/a", 1));
    // The rate limit allows a burst of one second's messages.
    assert!(start.elapsed() > Duration::from_secs(2), "{:?}", start.elapsed());
}

/// Input follows a second handshake on the same socket and is split at various bytes.
#[test]
fn input_behind_a_new_handshake_is_processed() {
    let server = RunningServer::with(&[]);
    let text = |message: &Value| masked(TEXT, message.to_string().as_bytes());
    let unknown = |id: u64| with_field(connect("s_unknown.unknown"), "id", id);
    let behind = [text(&unknown(1)), masked(PING, b"still there"), text(&unknown(2))].concat();
    for split in [0, 1, 20, behind.len() - 1] {
        let (mut socket, _) = BayeuxWebSocket::opened(server.public, &[]);
        let (whole, rest) = behind.split_at(split);
        socket.raw.send([&text(&handshake()), whole].concat());
        let _ = client_id(&socket.messages()[0]);
        socket.raw.send(rest);
        assert_refused(&socket.messages()[0], "402");
        assert_eq!(socket.raw.frame().payload, b"still there");
        assert_refused(&socket.messages()[0], "402");
    }
}

/// Partial messages of sockets without a session share one budget.
#[test]
fn partial_messages_of_sockets_without_a_session_are_bounded() {
    let server = RunningServer::with(&[
        "limits.receive_total=256KiB",
        "limits.max_message=64KiB",
        // Use a long timeout, so that no socket is closed for being slow, even on a slow machine.
        "limits.handshake_timeout=1m",
    ]);
    let text = masked(TEXT, &vec![b'x'; 60_000]);
    let mut sockets: Vec<_> = (0..8).map(|_| BayeuxWebSocket::connect(server.public)).collect();
    for socket in &mut sockets {
        socket.raw.send(&text[..text.len() - 1]);
    }
    let metric = |name| server.admin.metrics().value(name);
    until("some sockets are closed", || metric("encke_partial_messages_closed_total") >= 4.0);
    // The socket receives a close code, although it is in the middle of a message.
    assert_eq!(sockets[0].raw.close_code(), TRY_AGAIN_LATER);
    drop(sockets);
    until("no partial message is left", || metric("encke_partial_message_bytes") == 0.0);
}
