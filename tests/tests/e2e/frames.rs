use std::io::Write;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use encke_tests::raw::{BINARY, CLOSE, MASK, PING, PONG, TEXT, masked};
use encke_tests::waiting::{let_pass, until};
use encke_tests::{RawClient, RunningServer};

/// Asserts that the session was suspended for `reason` and can be resumed.
#[track_caller]
fn assert_suspended(server: &RunningServer, session: &str, resume: &str, reason: &str) {
    server.await_phase(session, "suspended");
    server.logs.await_lifecycle(session, &[("opened", "connect"), ("suspended", reason)]);
    assert_eq!(server.admin.metrics().events("suspended", reason), 1.0);
    assert!(server.resume(resume).hello.recovered);
    server.assert_healthy();
}

/// Asserts that the server answers these bytes with a Close frame with this code and then ends the stream.
#[track_caller]
fn assert_bad(settings: &[&str], bytes: &[u8], code: u16) {
    let server = RunningServer::with(settings);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.send(bytes);
    assert_eq!(client.close_code(), code, "{:02x?}", &bytes[..bytes.len().min(16)]);
    client.await_end();
    assert_suspended(&server, &hello.session, &hello.resume, "bad_frame");
}

#[test]
fn an_unmasked_frame() {
    assert_bad(&[], &[0x81, 0x02, b'{', b'}'], 1002);
}

#[test]
fn reserved_bits() {
    for first in [0xc1, 0xa1, 0x91] {
        assert_bad(&[], &[first, 0x80, 0, 0, 0, 0], 1002);
    }
}

#[test]
fn reserved_opcodes() {
    for first in [0x83, 0x87, 0x8b, 0x8f] {
        assert_bad(&[], &[first, 0x80, 0, 0, 0, 0], 1002);
    }
}

#[test]
fn a_fragmented_control_frame() {
    assert_bad(&[], &[0x09, 0x80, 0, 0, 0, 0], 1002);
}

#[test]
fn a_long_control_frame() {
    assert_bad(&[], &masked(0x89, &[b'x'; 126]), 1002);
}

#[test]
fn a_continuation_without_a_message() {
    assert_bad(&[], &[0x80, 0x80, 0, 0, 0, 0], 1002);
}

#[test]
fn a_message_within_a_message() {
    assert_bad(&[], &[0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0], 1002);
}

#[test]
fn too_big_in_one_frame() {
    assert_bad(&["limits.max_message=1KiB"], &masked(TEXT, &[b' '; 1025]), 1009);
}

#[test]
fn too_big_by_its_announced_length() {
    // The header announces 2^62 bytes, but none is sent. The server must neither wait for them nor allocate
    // memory for them.
    assert_bad(&[], &[0x81, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1009);
}

#[test]
fn too_big_in_fragments() {
    let mut bytes = masked(0x01, &[b' '; 512]);
    bytes.extend(masked(0x00, &[b' '; 512]));
    bytes.extend(masked(0x80, b" "));
    assert_bad(&["limits.max_message=1KiB"], &bytes, 1009);
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
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "unfinished")]);
    assert!(server.resume(&hello.resume).hello.recovered);
    for client in [&mut one, &mut three] {
        client.send(rest);
        assert_eq!(client.object()["reply"]["id"], 1, "the other connections are open");
    }
    until("no partial message is left", || partial_bytes() == 0.0);
}

/// The memory of a long message is released even if its client stays connected.
#[test]
fn memory_of_a_long_message_is_released() {
    const CLIENTS: usize = 300;
    let server = RunningServer::with(&[]);
    let mut text = br#"{"id":1,"presence":{"channel":"a"}}"#.to_vec();
    text.resize(60_000, b' ');
    let message = masked(TEXT, &text);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| RawClient::greeted(server.public, "").0).collect();
    let before = server.resident_bytes();
    for client in &mut clients {
        client.send(&message);
        assert_eq!(client.object()["reply"]["id"], 1);
    }
    let left = || server.resident_bytes().saturating_sub(before);
    until("the memory is released", || left() < (CLIENTS * message.len() / 4) as u64);
}

#[test]
fn maximum_size_in_fragments_with_a_ping_between() {
    let server = RunningServer::with(&["limits.max_message=1KiB"]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    let mut text = br#"{"id":1,"ack":{"seq":0}}"#.to_vec();
    text.resize(1024, b' ');
    client.send(&masked(0x01, &text[..500]));
    client.send(&masked(0x89, b"now"));
    client.send(&masked(0x00, &text[500..1000]));
    client.send(&masked(0x80, &text[1000..]));
    assert_eq!(client.frame_of(0x8a).payload, b"now");
    assert_eq!(client.frame_of(TEXT).payload, br#"{"reply":{"id":1,"ok":{}}}"#);
}

#[test]
fn bytes_one_by_one() {
    let server = RunningServer::with(&[]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    for byte in masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#) {
        client.send(&[byte]);
    }
    assert_eq!(client.frame_of(TEXT).payload, br#"{"reply":{"id":1,"ok":{}}}"#);
}

#[test]
fn frames_sent_along_with_the_request() {
    let server = RunningServer::with(&[]);
    let mut client = RawClient::connect(server.public);
    let mut bytes =
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            .to_vec();
    bytes.extend(masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#));
    client.send(&bytes);
    client.await_upgrade();
    client.hello();
    assert_eq!(client.frame_of(TEXT).payload, br#"{"reply":{"id":1,"ok":{}}}"#);
}

#[test]
fn invalid_utf8() {
    assert_bad(&[], &masked(TEXT, &[b'"', 0xc3, 0x28, b'"']), 1007);
}

#[test]
fn a_binary_message() {
    assert_bad(&[], &masked(BINARY, b"{}"), 1003);
}

#[test]
fn a_reset_in_the_middle_of_a_frame() {
    let server = RunningServer::with(&[]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.send(&masked(TEXT, &[b' '; 100])[..50]);
    client.reset();
    assert_suspended(&server, &hello.session, &hello.resume, "connection_lost");
}

#[test]
fn the_end_of_the_stream_in_the_middle_of_a_frame() {
    let server = RunningServer::with(&[]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.send(&masked(TEXT, &[b' '; 100])[..50]);
    client.stream().shutdown(Shutdown::Write).expect("the socket is connected");
    client.await_end();
    assert_suspended(&server, &hello.session, &hello.resume, "connection_lost");
}

#[test]
fn a_close_frame_suspends_with_any_code() {
    for payload in [&[][..], &[0x03, 0xe8], &[0x03, 0xe9, b'b', b'y', b'e'], &[0x0f, 0xa0], &[0x10, 0x05]] {
        let server = RunningServer::with(&[]);
        let (mut client, hello) = RawClient::greeted(server.public, "");
        client.send(&masked(CLOSE, payload));
        let answer = client.frame_of(CLOSE).payload;
        assert_eq!(answer[..answer.len().min(2)], payload[..payload.len().min(2)], "the code is echoed");
        client.await_end();
        assert_suspended(&server, &hello.session, &hello.resume, "peer_closed");
    }
}

#[test]
fn a_close_frame_with_a_bad_code_suspends_too() {
    // 1005 must not be sent, 999 does not exist, and one byte is half a code.
    for payload in [&[0x03, 0xed][..], &[0x03, 0xe7], &[0x03]] {
        let server = RunningServer::with(&[]);
        let (mut client, hello) = RawClient::greeted(server.public, "");
        client.send(&masked(CLOSE, payload));
        assert_eq!(client.close_code(), 1002, "{payload:02x?}");
        client.await_end();
        server.await_phase(&hello.session, "suspended");
        assert!(server.resume(&hello.resume).hello.recovered);
        server.assert_healthy();
    }
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

#[test]
fn close_code_reaches_a_client_in_the_middle_of_a_frame() {
    let server = RunningServer::with(&[]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    let mut header = vec![0x81, 0xfe, 0xff, 0xff];
    header.extend(MASK);
    client.send(&header);
    client.send(&[0; 1000]);
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    client.send(&[0; 10_000]);
    assert_eq!(client.close_code(), 4101);
    server.assert_healthy();
}

/// Excess frames are delayed: none is lost, and the connection stays open.
#[test]
fn frames_beyond_the_rate_are_read_later() {
    const FRAMES: u32 = 200;
    let server = RunningServer::with(&["limits.frames_per_second=50"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    let began = Instant::now();
    let pings: Vec<u8> = (0..FRAMES).flat_map(|number| masked(PING, &number.to_be_bytes())).collect();
    client.send(&pings);
    for number in 0..FRAMES {
        assert_eq!(client.frame_of(PONG).payload, number.to_be_bytes());
    }
    // The first fifty are answered immediately, the others a few at a time.
    let after = began.elapsed();
    assert!(after >= Duration::from_millis(2_500), "{after:?}");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

/// Reconnecting does not reset the allowance.
#[test]
fn frame_rate_is_limited_per_session() {
    const CONNECTIONS: u32 = 4;
    const FRAMES: u8 = 50;
    let server = RunningServer::with(&["limits.frames_per_second=50"]);
    let (client, hello) = RawClient::greeted(server.public, "");
    let began = Instant::now();
    let mut client = Some(client);
    for _ in 0..CONNECTIONS {
        let mut now = client
            .take()
            .unwrap_or_else(|| RawClient::greeted(server.public, &format!("resume={}", hello.resume)).0);
        let pings: Vec<u8> = (0..FRAMES).flat_map(|number| masked(PING, &[number])).collect();
        now.send(&pings);
        for number in 0..FRAMES {
            assert_eq!(now.frame_of(PONG).payload, [number]);
        }
    }
    let after = began.elapsed();
    assert!(after >= Duration::from_millis(2_500), "{after:?}");
}
