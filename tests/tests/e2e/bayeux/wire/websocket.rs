use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, connect, connect_now, disconnect,
    events, publish, session,
};
use encke_tests::raw::{BINARY, PING, PONG, masked};
use encke_tests::server::{FREQUENT_PINGS, IN_MEMORY};
use encke_tests::{RawClient, RunningServer};
use serde_json::json;

use super::connect_reply;

const PROTOCOL_ERROR: u16 = 4103;
const UNSUPPORTED: u16 = 1003;
const TOO_BIG: u16 = 1009;

#[test]
fn a_session_over_a_websocket() {
    let server = RunningServer::with(&[]);
    let (mut socket, id) = BayeuxWebSocket::opened(server.public, &["/news"]);
    let shown = server.admin.session(&session(&id));
    assert_eq!((&shown["transport"], &shown["dialect"]), (&json!("websocket"), &json!("bayeux")));
    // Without the extension, messages are sent as soon as they are published, with or without a held connect.
    server.admin.publish("/news", 1);
    assert_eq!(events(&socket.messages()), [1]);
    socket.send(&json!([connect(&id)]));
    server.await_held(&session(&id));
    server.admin.publish("/news", 2);
    assert_eq!(events(&socket.messages()), [2]);
    let reply = socket.request(&publish(&id, "/other", 1));
    assert_successful(&reply[0]);
    // A client with a WebSocket may also send commands in HTTP requests.
    assert_successful(&BayeuxPolling::connect(server.public).reply(&publish(&id, "/news", 3)));
    assert_eq!(events(&socket.messages()), [3]);
    let received = socket.request(&disconnect(&id));
    assert!(
        received.iter().any(|reply| reply["channel"] == "/meta/disconnect" && reply["successful"] == true)
    );
    server.await_removal(&session(&id));
    server.await_lifecycle(&session(&id), "opened connect, closed client");
}

/// Faye opens a WebSocket while it decides how to send the handshake, which it then sends in a request.
#[test]
fn a_websocket_opened_before_the_handshake_gets_the_session() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = BayeuxPolling::connect(server.public).handshake();
    let received = socket.request(&connect_now(&id));
    assert_successful(connect_reply(&received));
    assert_eq!(server.admin.session(&session(&id))["transport"], "websocket");
    assert_eq!(server.admin.metrics().refusals("late"), 0.0);
}

/// The client's connects serve as acknowledgements, too: each confirms everything before the last answer.
#[test]
fn a_reader_that_connects_again_receives_everything() {
    let server = RunningServer::with(&["session.max_unacked=16"]);
    let (mut socket, id) = BayeuxWebSocket::opened(server.public, &["/news"]);
    server.admin.publish_each("/news", 1..=50);
    let mut received = Vec::new();
    while received.len() < 50 {
        received.extend(events(&socket.request(&connect_now(&id))));
    }
    assert_eq!(received, Vec::from_iter(1..=50));
}

#[test]
fn frames_are_arrays_or_single_objects() {
    let server = RunningServer::with(&[IN_MEMORY]);
    let (mut socket, id) = BayeuxWebSocket::opened(server.public, &[]);
    socket.raw.text("[]");
    assert_eq!(socket.raw.text_message(), "[]");
    let mut two = socket.request(&publish(&id, "/a", 1));
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

/// A socket that opens no session is closed after the handshake timeout.
#[test]
fn invalid_json_ends_the_connection() {
    let server = RunningServer::with(&["limits.max_message=4KiB", "limits.handshake_timeout=3s"]);
    let mut idle = BayeuxWebSocket::connect(server.public);
    let close_code = |send: &dyn Fn(&mut RawClient)| {
        let (mut socket, _) = BayeuxWebSocket::opened(server.public, &[]);
        send(&mut socket.raw);
        socket.raw.close_code()
    };
    for text in ["nonsense", "", "{", "[{]", "{}{}"] {
        assert_eq!(close_code(&|raw| raw.text(text)), PROTOCOL_ERROR, "{text}");
    }
    assert_eq!(close_code(&|raw| raw.text(&"x".repeat(4097))), TOO_BIG);
    assert_eq!(close_code(&|raw| raw.send(masked(BINARY, b"[]"))), UNSUPPORTED);
    // Send invalid input before the socket has a session.
    let mut socket = BayeuxWebSocket::connect(server.public);
    socket.raw.text("nonsense");
    assert_eq!(socket.raw.close_code(), PROTOCOL_ERROR);
    // Valid JSON that cannot be a message.
    let (mut socket, id) = BayeuxWebSocket::opened(server.public, &[]);
    for text in ["7", "[7]", "\"x\"", "[[]]", "{}"] {
        socket.raw.text(text);
        super::assert_refused_with_any_code(&socket.messages()[0]);
        assert_successful(&socket.reply(&connect_now(&id)));
    }
    let _ = idle.raw.await_end();
    assert_eq!(server.admin.phase(&session(&id)).as_deref(), Some("attached"));
}

/// The server uses WebSocket pings, because Bayeux defines none. A client that misses a pong may only be slow,
/// so its session is kept, with the messages that the client has not received.
#[test]
fn a_silent_websocket_is_pinged() {
    let server = RunningServer::with(&FREQUENT_PINGS);
    let (mut socket, id) = BayeuxWebSocket::opened(server.public, &["/news"]);
    socket.send(&connect(&id));
    let ping = socket.raw.frame_of(PING);
    socket.raw.send(masked(PONG, &ping.payload));
    // From now on, the client does not answer pings.
    let reply = serde_json::from_str::<Vec<_>>(&socket.raw.text_message()).expect("an array").remove(0);
    assert_successful(&reply);
    assert!(reply["advice"]["interval"].is_u64() && reply["advice"]["reconnect"] == "retry", "{reply}");
    server.await_phase(&session(&id), "suspended");
    server.admin.publish("/news", 1);
    let mut again = BayeuxWebSocket::connect(server.public);
    assert_eq!(events(&again.request(&connect_now(&id))), [1]);
}
