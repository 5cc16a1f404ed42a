use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, client_id, connect, connect_now,
    disconnect, events, handshake, publish, session, subscribe,
};
use encke_tests::raw::{BINARY, PONG, masked};
use encke_tests::server::IN_MEMORY;
use encke_tests::{RawClient, RunningServer};
use serde_json::json;

use super::{await_held, connect_reply};

const PROTOCOL_ERROR: u16 = 4103;
const UNSUPPORTED: u16 = 1003;
const TOO_BIG: u16 = 1009;

#[test]
fn a_session_over_a_websocket() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&["/news"]);
    let shown = server.admin.session(&session(&id));
    assert_eq!((&shown["transport"], &shown["dialect"]), (&json!("websocket"), &json!("bayeux")));
    // Without the extension, messages are sent as soon as they are published, with or without a held connect.
    server.admin.publish("/news", 1);
    assert_eq!(events(&socket.messages()), [1]);
    socket.send(&json!([connect(&id)]));
    await_held(&server, &id);
    server.admin.publish("/news", 2);
    assert_eq!(events(&socket.messages()), [2]);
    let reply = socket.request(&publish(&id, "/other", 1));
    assert_successful(&reply[0]);
    let received = socket.request(&disconnect(&id));
    assert!(
        received.iter().any(|reply| reply["channel"] == "/meta/disconnect" && reply["successful"] == true)
    );
    server.await_removal(&session(&id));
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect"), ("closed", "client")]);
}

#[test]
fn a_held_connect_on_a_websocket_ends_after_its_hold() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&[]);
    let from = std::time::Instant::now();
    assert_successful(&socket.reply(&connect(&id)));
    assert!(from.elapsed() >= std::time::Duration::from_secs(1), "{:?}", from.elapsed());
}

/// Faye and aiocometd handshake with an HTTP request even if they use WebSocket afterwards.
#[test]
fn a_session_changes_transports_freely() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.handshake();
    assert_successful(&polls.reply(&subscribe(&id, "/news")));
    for number in 1..=3 {
        let mut socket = BayeuxWebSocket::connect(server.public);
        assert_successful(&socket.reply(&connect_now(&id)));
        server.admin.publish("/news", 2 * number);
        assert_eq!(events(&socket.messages()), [2 * number]);
        assert_eq!(server.admin.session(&session(&id))["transport"], "websocket");
        // The client has not closed the socket, so the poll takes over the session.
        let answer = polls.request(&connect_now(&id));
        assert_successful(connect_reply(&answer));
        server.admin.publish("/news", 2 * number + 1);
        assert_eq!(events(&polls.request(&connect_now(&id))), [2 * number + 1]);
        assert_eq!(server.admin.session(&session(&id))["transport"], "poll");
    }
    let lifecycle = server.logs.lifecycle(&session(&id));
    assert!(lifecycle.iter().all(|(event, _)| event == "opened" || event == "resumed"), "{lifecycle:?}");
}

/// A client with a WebSocket may also send commands in HTTP requests.
#[test]
fn request_next_to_a_websocket_does_not_take_over() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&["/news"]);
    let mut polls = BayeuxPolling::connect(server.public);
    assert_successful(&polls.reply(&publish(&id, "/news", 1)));
    assert_eq!(events(&socket.messages()), [1]);
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

#[test]
fn frames_are_arrays_or_single_objects() {
    let server = RunningServer::with(&[IN_MEMORY]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&[]);
    socket.raw.text("[]");
    assert_eq!(socket.raw.text_message(), "[]");
    let mut two = socket.request(&json!([publish(&id, "/a", 1), connect(&id)])[0]);
    assert_successful(&two.remove(0));
    socket.send(&json!([publish(&id, "/a", 1), connect(&id)]));
    let received = socket.messages_up_to_reply(&json!("c"));
    assert_eq!(received.len(), 2, "a connect that shares a frame is answered at once: {received:?}");
    assert_successful(connect_reply(&received));
    // The connection has a session, but each message still needs its client id.
    socket.raw.text(r#"[{"id":"n","channel":"/a","data":1}]"#);
    let nameless = socket.messages();
    assert!(nameless[0]["error"].as_str().is_some_and(|error| error.starts_with("40")), "{nameless:?}");
    let unknown = socket.reply(&connect("s_unknown.unknown"));
    assert_refused(&unknown, "402");
    assert_eq!(unknown["advice"]["reconnect"], "handshake");
}

#[test]
fn invalid_json_ends_the_connection() {
    let server = RunningServer::with(&["limits.max_message=4KiB"]);
    let closed = |send: &dyn Fn(&mut RawClient)| {
        let mut socket = BayeuxWebSocket::connect(server.public);
        let id = socket.open(&[]);
        send(&mut socket.raw);
        (socket.raw.close_code(), session(&id))
    };
    for text in ["nonsense", "", "{", "[{]", "{}{}"] {
        let (code, _) = closed(&|raw| raw.text(text));
        assert_eq!(code, PROTOCOL_ERROR, "{text}");
    }
    assert_eq!(closed(&|raw| raw.text(&"x".repeat(4097))).0, TOO_BIG);
    assert_eq!(closed(&|raw| raw.send(&masked(BINARY, b"[]"))).0, UNSUPPORTED);
    // Valid JSON that cannot be a message.
    for text in ["7", "[7]", "\"x\"", "[[]]", "{}"] {
        let mut socket = BayeuxWebSocket::connect(server.public);
        let id = socket.open(&[]);
        socket.raw.text(text);
        super::assert_refused_with_any_code(&socket.messages()[0]);
        assert_successful(&socket.reply(&connect_now(&id)));
    }
    // Send invalid input before the socket has a session.
    let mut socket = BayeuxWebSocket::connect(server.public);
    socket.raw.text("nonsense");
    assert_eq!(socket.raw.close_code(), PROTOCOL_ERROR);
    server.assert_healthy();
}

/// A socket that opens no session is closed after the handshake timeout.
#[test]
fn websocket_without_a_session_is_closed() {
    let server = RunningServer::with(&["limits.handshake_timeout=1s"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let mut connected = BayeuxWebSocket::connect(server.public);
    let id = connected.open(&[]);
    let _ = socket.raw.await_end();
    assert_eq!(server.admin.phase(&session(&id)).as_deref(), Some("attached"));
}

/// The server uses WebSocket pings, because Bayeux defines none.
#[test]
fn a_silent_websocket_is_pinged() {
    let server = RunningServer::with(&[
        "session.ping_interval=1s",
        "session.pong_timeout=500ms",
        "session.reconnect_window=60s",
    ]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&[]);
    socket.send(&connect(&id));
    for _ in 0..2 {
        let ping = socket.raw.frame_of(encke_tests::raw::PING);
        socket.raw.send(&masked(PONG, &ping.payload));
    }
    // From now on, the client does not answer pings.
    server.await_phase(&session(&id), "suspended");
    let mut again = BayeuxWebSocket::connect(server.public);
    assert_successful(&again.reply(&connect_now(&id)));
}

/// CometD handshakes again on its existing socket when the server advises it to.
#[test]
fn client_may_handshake_again_on_its_socket() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let old = socket.open(&["/news"]);
    let received = socket.request(&handshake());
    let new = client_id(received.last().expect("a reply"));
    assert_ne!(new, old);
    assert_successful(&socket.reply(&connect_now(&new)));
    assert_successful(&socket.reply(&subscribe(&new, "/news")));
    server.admin.publish("/news", 1);
    assert_eq!(events(&socket.messages()), [1], "delivered once, and not for the old session as well");
    assert_refused(&socket.reply(&publish(&old, "/news", 2)), "402");
}

/// Messages that may have been lost with a failed connection are reported as a gap, and no message arrives
/// twice.
#[test]
fn possible_losses_are_reported_as_a_gap_without_the_extension() {
    let server = RunningServer::with(&[]);
    for is_confirmed in [false, true] {
        let mut socket = BayeuxWebSocket::connect(server.public);
        let id = socket.open(&["/news"]);
        let first = server.admin.publish("/news", 1)["offset"].as_u64().expect("an offset");
        assert_eq!(events(&socket.messages()), [1]);
        server.admin.publish("/news", 2);
        assert_eq!(events(&socket.messages()), [2]);
        if is_confirmed {
            // A client that sends another connect has received everything before the last answer.
            assert_successful(&socket.reply(&connect_now(&id)));
            assert_successful(&socket.reply(&connect_now(&id)));
        }
        socket.raw.reset();
        server.await_phase(&session(&id), "suspended");
        server.admin.publish("/news", 3);
        let mut socket = BayeuxWebSocket::connect(server.public);
        let mut received = socket.request(&connect_now(&id));
        let is_news = |message: &serde_json::Value| message["channel"] == "/news";
        while !received.iter().any(is_news) {
            received.extend(socket.messages());
        }
        assert_eq!(events(&received), [3]);
        // The gap is in the first reply that can carry it, or in the next one.
        received.extend(socket.request(&connect_now(&id)));
        let gaps: Vec<_> =
            received.iter().filter_map(|message| message["ext"]["encke"].get("gaps")).collect();
        if is_confirmed {
            assert_eq!(gaps, [] as [&serde_json::Value; 0], "{received:?}");
        } else {
            assert_eq!(gaps.len(), 1, "{received:?}");
            let gap = &gaps[0][0];
            let range = (&gap["channel"], &gap["from"], &gap["to"]);
            assert_eq!(range, (&json!("/news"), &json!(first), &json!(first + 1)), "{gap}");
        }
    }
}

/// A gap is reported before the hold ends. Otherwise pongs could acknowledge it first, and if the connection
/// were then lost, the gap would never be reported.
#[test]
fn gaps_are_reported_at_once_without_the_extension() {
    let server = RunningServer::with(&["channel.history_messages=1", "session.poll_hold=10m"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&["/news"]);
    socket.raw.reset();
    server.await_phase(&session(&id), "suspended");
    for number in 1..=3 {
        server.admin.publish("/news", number);
    }
    let mut socket = BayeuxWebSocket::connect(server.public);
    let received = socket.request(&connect(&id));
    let reply = connect_reply(&received);
    let gap = &reply["ext"]["encke"]["gaps"][0];
    assert_eq!(
        (&gap["channel"], &gap["from"], &gap["to"]),
        (&json!("/news"), &json!(1), &json!(2)),
        "{reply}"
    );
}

/// The client's pongs serve as acknowledgements, so the client is sent more than the ring holds.
#[test]
fn reader_that_answers_pings_receives_everything() {
    let server = RunningServer::with(&["session.max_unacked=16"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&["/news"]);
    socket.send(&connect(&id));
    for number in 1..=100 {
        server.admin.publish("/news", number);
    }
    let mut received = Vec::new();
    while received.len() < 100 {
        received.extend(events(&socket.messages()));
    }
    assert_eq!(received, Vec::from_iter(1..=100));
}

/// The client's connects serve as acknowledgements, too: each confirms everything before the last answer.
#[test]
fn reader_that_connects_again_receives_everything() {
    let server = RunningServer::with(&["session.max_unacked=16"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&["/news"]);
    for number in 1..=50 {
        server.admin.publish("/news", number);
    }
    let mut received = Vec::new();
    while received.len() < 50 {
        socket.send(&connect_now(&id));
        let mut is_answered = false;
        while !is_answered {
            let text = text_without_pong(&mut socket);
            is_answered = text.iter().any(|message| message["channel"] == "/meta/connect");
            received.extend(events(&text));
        }
    }
    assert_eq!(received, Vec::from_iter(1..=50));
}

/// The client may only be slow, so its session is kept, with the messages that the client has not received.
#[test]
fn client_that_misses_a_pong_can_resume() {
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=500ms"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&["/news"]);
    socket.send(&connect(&id));
    let reply = text_without_pong(&mut socket).remove(0);
    assert_successful(&reply);
    assert!(reply["advice"]["interval"].is_u64() && reply["advice"]["reconnect"] == "retry", "{reply}");
    server.admin.publish("/news", 1);
    let mut again = BayeuxWebSocket::connect(server.public);
    assert_eq!(events(&again.request(&connect_now(&id))), [1]);
}

/// Returns the messages of the next text frame. Pings that precede it are not answered.
fn text_without_pong(socket: &mut BayeuxWebSocket) -> Vec<serde_json::Value> {
    loop {
        let frame = socket.raw.frame();
        if frame.first != encke_tests::raw::PING {
            return serde_json::from_slice(&frame.payload).expect("an array");
        }
    }
}
