use std::io::Write;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use encke_tests::raw::{BINARY, CLOSE, PING, PONG, TEXT, masked};
use encke_tests::waiting::{let_pass, until};
use encke_tests::{Hello, RawClient, RunningServer};

/// Asserts that the session was suspended for `reason` and can be resumed.
#[track_caller]
fn assert_suspended(server: &RunningServer, hello: &Hello, reason: &str) {
    server.await_phase(&hello.session, "suspended");
    server.await_lifecycle(&hello.session, &format!("opened connect, suspended {reason}"));
    assert!(server.resume(&hello.resume).hello.recovered);
}

/// The server sends a Close frame with a code, ends the stream, and keeps the session.
#[test]
fn invalid_frames_are_answered_with_a_close_code() {
    let server = RunningServer::with(&["limits.max_message=1KiB"]);
    let in_fragments = [masked(0x01, &[b' '; 512]), masked(0x00, &[b' '; 512]), masked(0x80, b" ")].concat();
    let cases: [(&str, &[u8], u16); 16] = [
        ("not masked", &[0x81, 0x02, b'{', b'}'], 1002),
        ("reserved bits", &[0xc1, 0x80, 0, 0, 0, 0], 1002),
        ("reserved bits", &[0xa1, 0x80, 0, 0, 0, 0], 1002),
        ("reserved bits", &[0x91, 0x80, 0, 0, 0, 0], 1002),
        ("a reserved opcode", &[0x83, 0x80, 0, 0, 0, 0], 1002),
        ("a reserved opcode", &[0x8f, 0x80, 0, 0, 0, 0], 1002),
        ("a fragmented ping", &[0x09, 0x80, 0, 0, 0, 0], 1002),
        ("a long ping", &masked(PING, &[b'x'; 126]), 1002),
        ("a continuation without a message", &[0x80, 0x80, 0, 0, 0, 0], 1002),
        ("a message within a message", &[0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0], 1002),
        ("too big", &masked(TEXT, &[b' '; 1025]), 1009),
        // None of the 2^62 bytes is sent. The server must neither wait for them nor allocate memory for them.
        ("too big by its announced length", &[0x81, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1009),
        ("too big in fragments", &in_fragments, 1009),
        ("invalid UTF-8", &masked(TEXT, &[b'"', 0xc3, 0x28, b'"']), 1007),
        ("binary", &masked(BINARY, b"{}"), 1003),
        ("binary in fragments", &[0x02, 0x80, 0, 0, 0, 0, 0x80, 0x80, 0, 0, 0, 0], 1003),
    ];
    for (name, bytes, code) in cases {
        let (mut client, hello) = RawClient::greeted(server.public, "");
        client.send(bytes);
        assert_eq!(client.close_code(), code, "{name}");
        client.await_end();
        assert_suspended(&server, &hello, "bad_frame");
    }
    assert_eq!(server.admin.metrics().events("suspended", "bad_frame"), cases.len() as f64);
    server.assert_healthy();
}

/// Codes that must not be sent are answered with 1002: 1005, 999 and half a code.
#[test]
fn a_close_frame_suspends_with_any_code() {
    let server = RunningServer::with(&[]);
    for (payload, answer) in [
        (&b""[..], &b""[..]),
        (b"\x03\xe8", b"\x03\xe8"),
        (b"\x03\xe9bye", b"\x03\xe9"),
        (b"\x10\x05", b"\x10\x05"),
        (b"\x03\xed", b"\x03\xea"),
        (b"\x03\xe7", b"\x03\xea"),
        (b"\x03", b"\x03\xea"),
    ] {
        let (mut client, hello) = RawClient::greeted(server.public, "");
        client.send(masked(CLOSE, payload));
        assert!(client.frame_of(CLOSE).payload.starts_with(answer), "{payload:02x?}");
        client.await_end();
        let reason = if payload.len() == 1 { "bad_frame" } else { "peer_closed" };
        assert_suspended(&server, &hello, reason);
    }
    server.assert_healthy();
}

#[test]
fn connections_that_end_within_a_frame_suspend() {
    let server = RunningServer::with(&[]);
    let ends: [fn(RawClient); 2] = [RawClient::reset, |mut client| {
        client.stream().shutdown(Shutdown::Write).expect("the socket is connected");
        client.await_end();
    }];
    for end in ends {
        let (mut client, hello) = RawClient::greeted(server.public, "");
        client.send(&masked(TEXT, &[b' '; 100])[..50]);
        end(client);
        assert_suspended(&server, &hello, "connection_lost");
    }
    server.assert_healthy();
}

#[test]
fn partial_messages_share_a_limit() {
    let server = RunningServer::with(&["limits.receive_total=100KiB"]);
    let partial_bytes = || server.admin.metrics().value("encke_partial_message_bytes");
    let begin = |bytes: &[u8], at_least: f64| {
        let (mut client, hello) = RawClient::greeted(server.public, "");
        client.send(bytes);
        until("the partial message has arrived", || partial_bytes() >= at_least);
        (client, hello)
    };
    let mut whole = br#"{"id":1,"presence":{"channel":"a"}}"#.to_vec();
    whole.resize(60_000, b' ');
    let whole = masked(TEXT, &whole);
    let (half, rest) = whole.split_at(30_000);
    let (mut one, _) = begin(half, 30_000.0);
    let fragment = [masked(0x01, &[b' '; 50_000]), masked(PING, b"now")].concat();
    let (mut largest, hello) = begin(&fragment, 80_000.0);
    assert_eq!(largest.frame_of(PONG).payload, b"now");
    // Wait until both connections are idle: among idle ones, the connection with the largest partial message
    // is closed.
    let_pass(Duration::from_millis(1_100));
    let (mut three, _) = begin(half, 60_000.0);
    assert_eq!(largest.close_frame().0, 1013);
    assert_eq!(server.admin.metrics().value("encke_partial_messages_closed_total"), 1.0);
    server.await_lifecycle(&hello.session, "opened connect, suspended unfinished");
    assert!(server.resume(&hello.resume).hello.recovered);
    for client in [&mut one, &mut three] {
        client.send(rest);
        assert_eq!(client.object()["reply"]["id"], 1, "the other connections are open");
    }
    until("no partial message is left", || partial_bytes() == 0.0);
}

/// One client sends a message of the maximum size in fragments with a ping between, one sends its bytes one by
/// one.
#[test]
fn messages_may_be_sent_in_pieces() {
    const REPLY: &[u8] = br#"{"reply":{"id":1,"ok":{}}}"#;
    let server = RunningServer::with(&["limits.max_message=1KiB"]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    let mut text = br#"{"id":1,"ack":{"seq":0}}"#.to_vec();
    text.resize(1024, b' ');
    for (first, part) in
        [(0x01, &text[..500]), (PING, &[7; 125]), (0x00, &text[500..1000]), (0x80, &text[1000..])]
    {
        client.send(masked(first, part));
    }
    assert_eq!(client.frame_of(PONG).payload, [7; 125]);
    assert_eq!(client.frame_of(TEXT).payload, REPLY);
    let (mut client, _) = RawClient::greeted(server.public, "");
    for byte in masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#) {
        client.send([byte]);
    }
    assert_eq!(client.frame_of(TEXT).payload, REPLY);
}

#[test]
fn close_code_reaches_a_client_that_keeps_sending() {
    let server = RunningServer::with(&["session.close_timeout=30s"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    let sender = client.stream().try_clone().expect("a socket can be cloned");
    let sending = std::thread::spawn(move || {
        let frame = masked(TEXT, br#"{"ack":{"seq":0}}"#).repeat(100);
        let mut sender = sender;
        let began = Instant::now();
        // Keep sending long after the kick, but well within `close_timeout`.
        while began.elapsed() < Duration::from_secs(1) {
            sender.write_all(&frame).expect("frames after the close are discarded, not answered by a reset");
        }
    });
    until("some frames have arrived", || {
        server.admin.session(&hello.session)["last_heard_ms"].as_f64().is_some_and(|ago| ago < 50.0)
    });
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    sending.join().expect("the sender does not panic");
    // The client starts reading only now.
    assert_eq!(client.close_code(), 4101);
    server.await_removal(&hello.session);
    server.assert_healthy();
}

/// Excess frames are delayed: none is lost, and the session stays open. Reconnecting does not reset the
/// allowance.
#[test]
fn frame_rate_is_limited_per_session() {
    const CONNECTIONS: usize = 2;
    const FRAMES: u8 = 100;
    let server = RunningServer::with(&["limits.frames_per_second=50"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    let began = Instant::now();
    for connection in 1..=CONNECTIONS {
        client.send((0..FRAMES).flat_map(|number| masked(PING, &[number])).collect::<Vec<_>>());
        for number in 0..FRAMES {
            assert_eq!(client.frame_of(PONG).payload, [number]);
        }
        if connection < CONNECTIONS {
            client = RawClient::greeted(server.public, &format!("resume={}", hello.resume)).0;
        }
    }
    // The first fifty are answered immediately, the others a few at a time.
    let after = began.elapsed();
    assert!(after >= Duration::from_millis(2_500), "{after:?}");
}
