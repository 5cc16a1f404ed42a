use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, client_id, connect, connect_now, disconnect, events,
    handshake, publish, session, subscribe,
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
    let told = server.admin.session(&session(&id));
    assert_eq!((&told["transport"], &told["dialect"]), (&json!("websocket"), &json!("bayeux")));
    // Without the extension, messages come when they are there, connect or not.
    server.admin.publish("/news", 1);
    assert_eq!(events(&socket.messages()), [1]);
    socket.send(&json!([connect(&id)]));
    await_held(&server, &id);
    server.admin.publish("/news", 2);
    assert_eq!(events(&socket.messages()), [2]);
    let reply = socket.request(&publish(&id, "/other", 1));
    assert_successful(&reply[0]);
    let came = socket.request(&disconnect(&id));
    assert!(came.iter().any(|reply| reply["channel"] == "/meta/disconnect" && reply["successful"] == true));
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

/// Faye and aiocometd handshake by a request even for WebSocket.
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
        // It is not closed before: the socket has to look elsewhere.
        let answer = polls.request(&connect_now(&id));
        assert_successful(connect_reply(&answer));
        server.admin.publish("/news", 2 * number + 1);
        assert_eq!(events(&polls.request(&connect_now(&id))), [2 * number + 1]);
        assert_eq!(server.admin.session(&session(&id))["transport"], "poll");
    }
    let lifecycle = server.logs.lifecycle(&session(&id));
    assert!(lifecycle.iter().all(|(event, _)| event == "opened" || event == "resumed"), "{lifecycle:?}");
}

/// Commands may come by requests beside a WebSocket.
#[test]
fn a_request_beside_a_websocket_takes_nothing_over() {
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
    let came = socket.messages_up_to_reply(&json!("c"));
    assert_eq!(came.len(), 2, "a connect that shares a frame is answered at once: {came:?}");
    assert_successful(connect_reply(&came));
    // It is known on this connection, and still it has to say whose message it is.
    socket.raw.text(r#"[{"id":"n","channel":"/a","data":1}]"#);
    let nameless = socket.messages();
    assert!(nameless[0]["error"].as_str().is_some_and(|error| error.starts_with("40")), "{nameless:?}");
    let unknown = socket.reply(&connect("s_unknown.unknown"));
    assert_refused(&unknown, "402");
    assert_eq!(unknown["advice"]["reconnect"], "handshake");
}

#[test]
fn what_is_not_json_ends_the_connection() {
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
    // JSON, but nothing that could be a message.
    for text in ["7", "[7]", "\"x\"", "[[]]", "{}"] {
        let mut socket = BayeuxWebSocket::connect(server.public);
        let id = socket.open(&[]);
        socket.raw.text(text);
        super::assert_refused_somehow(&socket.messages()[0]);
        assert_successful(&socket.reply(&connect_now(&id)));
    }
    // Before any session.
    let mut socket = BayeuxWebSocket::connect(server.public);
    socket.raw.text("nonsense");
    assert_eq!(socket.raw.close_code(), PROTOCOL_ERROR);
    server.assert_healthy();
}

/// A connection that says nothing is none.
#[test]
fn a_websocket_without_a_session_does_not_last() {
    let server = RunningServer::with(&["limits.handshake_timeout=1s"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let mut connected = BayeuxWebSocket::connect(server.public);
    let id = connected.open(&[]);
    let _ = socket.raw.await_end();
    assert_eq!(server.admin.phase(&session(&id)).as_deref(), Some("attached"));
}

/// Pings of the protocol below: Bayeux has none of its own.
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
    // Now it does not answer.
    server.await_phase(&session(&id), "suspended");
    let mut again = BayeuxWebSocket::connect(server.public);
    assert_successful(&again.reply(&connect_now(&id)));
}

/// `CometD` does, on the socket that it has, when it was told to.
#[test]
fn a_client_may_handshake_anew_on_its_socket() {
    let server = RunningServer::with(&[]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let old = socket.open(&["/news"]);
    let came = socket.request(&handshake());
    let new = client_id(came.last().expect("a reply"));
    assert_ne!(new, old);
    assert_successful(&socket.reply(&connect_now(&new)));
    assert_successful(&socket.reply(&subscribe(&new, "/news")));
    server.admin.publish("/news", 1);
    assert_eq!(events(&socket.messages()), [1], "once, and not for the old session as well");
    assert_refused(&socket.reply(&publish(&old, "/news", 2)), "402");
}

/// What may have been lost with a connection that failed is told, and nothing comes twice.
#[test]
fn without_the_extension_what_may_be_lost_is_told_as_a_gap() {
    let server = RunningServer::with(&[]);
    for is_confirmed in [false, true] {
        let mut socket = BayeuxWebSocket::connect(server.public);
        let id = socket.open(&["/news"]);
        let first = server.admin.publish("/news", 1)["offset"].as_u64().expect("an offset");
        assert_eq!(events(&socket.messages()), [1]);
        server.admin.publish("/news", 2);
        assert_eq!(events(&socket.messages()), [2]);
        if is_confirmed {
            // A client that asks again has got what came before the answer.
            assert_successful(&socket.reply(&connect_now(&id)));
            assert_successful(&socket.reply(&connect_now(&id)));
        }
        socket.raw.reset();
        server.await_phase(&session(&id), "suspended");
        server.admin.publish("/news", 3);
        let mut socket = BayeuxWebSocket::connect(server.public);
        let mut came = socket.request(&connect_now(&id));
        let is_news = |message: &serde_json::Value| message["channel"] == "/news";
        while !came.iter().any(is_news) {
            came.extend(socket.messages());
        }
        assert_eq!(events(&came), [3]);
        // With the first reply that can have it, or the next.
        came.extend(socket.request(&connect_now(&id)));
        let told: Vec<_> = came.iter().filter_map(|message| message["ext"]["encke"].get("gaps")).collect();
        if is_confirmed {
            assert_eq!(told, [] as [&serde_json::Value; 0], "{came:?}");
        } else {
            assert_eq!(told.len(), 1, "{came:?}");
            let gap = &told[0][0];
            let range = (&gap["channel"], &gap["from"], &gap["to"]);
            assert_eq!(range, (&json!("/news"), &json!(first), &json!(first + 1)), "{gap}");
        }
    }
}

/// A gap does not wait for the end of the hold: pongs would acknowledge it meanwhile, and then nobody would tell of it if the connection
/// were lost.
#[test]
fn without_the_extension_a_gap_is_told_at_once() {
    let server = RunningServer::with(&["channel.history_messages=1", "session.poll_hold=10m"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&["/news"]);
    socket.raw.reset();
    server.await_phase(&session(&id), "suspended");
    for number in 1..=3 {
        server.admin.publish("/news", number);
    }
    let mut socket = BayeuxWebSocket::connect(server.public);
    let came = socket.request(&connect(&id));
    let reply = connect_reply(&came);
    let gap = &reply["ext"]["encke"]["gaps"][0];
    assert_eq!(
        (&gap["channel"], &gap["from"], &gap["to"]),
        (&json!("/news"), &json!(1), &json!(2)),
        "{reply}"
    );
}

/// Its pongs do for acknowledgements: it is sent more than may be remembered at once.
#[test]
fn a_reader_that_answers_pings_is_sent_all() {
    let server = RunningServer::with(&["session.max_unacked=16"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&["/news"]);
    socket.send(&connect(&id));
    for number in 1..=100 {
        server.admin.publish("/news", number);
    }
    let mut came = Vec::new();
    while came.len() < 100 {
        came.extend(events(&socket.messages()));
    }
    assert_eq!(came, Vec::from_iter(1..=100));
}

/// So do its connects: each says that what came before the last answer has arrived.
#[test]
fn a_reader_that_asks_again_is_sent_all() {
    let server = RunningServer::with(&["session.max_unacked=16"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&["/news"]);
    for number in 1..=50 {
        server.admin.publish("/news", number);
    }
    let mut came = Vec::new();
    while came.len() < 50 {
        socket.send(&connect_now(&id));
        let mut has_answer = false;
        while !has_answer {
            let text = text_without_pong(&mut socket);
            has_answer = text.iter().any(|message| message["channel"] == "/meta/connect");
            came.extend(events(&text));
        }
    }
    assert_eq!(came, Vec::from_iter(1..=50));
}

/// It may be late: its session is there, with what it has not got.
#[test]
fn a_client_that_misses_a_pong_may_come_back() {
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=500ms"]);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let id = socket.open(&["/news"]);
    socket.send(&connect(&id));
    let told = text_without_pong(&mut socket).remove(0);
    assert_successful(&told);
    assert!(told["advice"]["interval"].is_u64() && told["advice"]["reconnect"] == "retry", "{told}");
    server.admin.publish("/news", 1);
    let mut again = BayeuxWebSocket::connect(server.public);
    assert_eq!(events(&again.request(&connect_now(&id))), [1]);
}

/// The next text; pings before it are not answered.
fn text_without_pong(socket: &mut BayeuxWebSocket) -> Vec<serde_json::Value> {
    loop {
        let frame = socket.raw.frame();
        if frame.first != encke_tests::raw::PING {
            return serde_json::from_slice(&frame.payload).expect("an array");
        }
    }
}
