use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

use encke_tests::admin::send_request;
use encke_tests::raw::Dial;
use encke_tests::waiting::{LATE, TIMEOUT, until};
use encke_tests::{RawClient, RunningServer, bayeux};

const HANDSHAKE: Duration = Duration::from_secs(1);

fn server() -> RunningServer {
    RunningServer::with(&["limits.handshake_timeout=1s"])
}

#[track_caller]
fn assert_cut_on_time(from: Instant, at: Instant) {
    let after = at - from;
    assert!(after >= HANDSHAKE, "cut after {after:?}");
    assert!(after <= HANDSHAKE + LATE, "cut after {after:?}");
}

#[test]
fn a_client_that_says_nothing_is_cut() {
    let server = server();
    let from = Instant::now();
    let mut client = RawClient::connect(server.public);
    assert_cut_on_time(from, client.await_end());
    server.assert_unharmed();
}

#[test]
fn half_a_request_is_cut() {
    let server = server();
    for half in ["G", "GET /ws", "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"] {
        let from = Instant::now();
        let mut client = RawClient::connect(server.public);
        client.send(half.as_bytes());
        assert_cut_on_time(from, client.await_end());
    }
    server.assert_unharmed();
}

#[test]
fn headers_that_drip_are_cut() {
    let server = server();
    let from = Instant::now();
    let mut client = RawClient::connect(server.public);
    client.send(b"GET /ws HTTP/1.1\r\nX-Slow: ");
    // Each byte is a sign of life, but the request gets no more time for it.
    while client.frame_within(Duration::from_millis(50)).is_ok_and(|frame| frame.is_none()) {
        assert!(from.elapsed() < TIMEOUT, "it is never cut");
        if client.try_send(b"x").is_err() {
            break;
        }
    }
    assert_cut_on_time(from, Instant::now());
    server.assert_unharmed();
}

#[test]
fn a_client_that_does_not_read_its_answers_is_cut() {
    let server = server();
    let from = Instant::now();
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut client = RawClient::over(dial.connect(server.public));
    let short = Some(Duration::from_millis(50));
    client.stream().set_write_timeout(short).expect("a socket takes a timeout");
    let requests = b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".repeat(100);
    // Until the socket is gone. That it takes nothing for a while is what this is about.
    while !client.try_send(&requests).is_err_and(|error| is_gone(&error)) {
        assert!(from.elapsed() < TIMEOUT, "it is never cut");
    }
    assert_cut_on_time(from, Instant::now());
    server.assert_unharmed();
}

fn is_gone(error: &io::Error) -> bool {
    !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[test]
fn a_silent_crowd_keeps_no_one_out() {
    const LIMIT: usize = 20;
    let server = RunningServer::with(&["limits.max_handshakes=20", "limits.handshake_timeout=60s"]);
    let silent = || Dial { source: Some([127, 0, 0, 2].into()), ..Dial::default() }.connect(server.public);
    let mut crowd: Vec<_> = (0..3 * LIMIT).map(|_| RawClient::over(silent())).collect();
    for _ in 0..LIMIT {
        let (client, _) = RawClient::greeted(server.public, "");
        // It has a session now, and is not counted any more.
        drop(client);
    }
    let excess = crowd.len() - LIMIT;
    crowd.drain(..excess).for_each(|mut client| _ = client.await_end());
    let cut = || server.admin.metrics().refusals("handshakes");
    // Each newcomer took the place of one more.
    until("they are counted", || cut() >= excess as f64);
    let (_last, _) = RawClient::greeted(server.public, "");
    server.assert_unharmed();
}

#[test]
fn a_storm_from_one_address_is_served() {
    let server = RunningServer::with(&["limits.max_handshakes=5"]);
    // All are connected before the first has its turn to ask.
    let mut storm: Vec<_> = (0..50).map(|_| RawClient::connect(server.public)).collect();
    storm.iter_mut().for_each(|client| client.ask_upgrade(""));
    for client in &mut storm {
        assert!(client.http_head().starts_with("HTTP/1.1 101 "));
        client.hello();
    }
    assert_eq!(server.admin.metrics().refusals("handshakes"), 0.0);
}

/// A WebSocket of Bayeux is upgraded before it has a session: it goes on with the place that it has, and costs no other its own.
#[test]
fn a_storm_of_bayeux_sockets_is_served() {
    let server = RunningServer::with(&["limits.max_handshakes=5"]);
    let mut storm: Vec<_> = (0..50).map(|_| RawClient::connect(server.public)).collect();
    storm.iter_mut().for_each(|client| client.ask_upgrade_at("/bayeux", ""));
    for mut client in storm {
        client.await_upgrade();
        bayeux::BayeuxWebSocket { raw: client }.handshake();
    }
    assert_eq!(server.admin.metrics().refusals("handshakes"), 0.0);
}

#[test]
fn an_idle_connection_is_cut_after_its_answer() {
    let server = server();
    let mut client = RawClient::connect(server.public);
    let from = Instant::now();
    client.send(b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(client.http_head().starts_with("HTTP/1.1 404 "));
    assert_cut_on_time(from, client.await_end());
    server.assert_unharmed();
}

#[test]
fn a_second_request_on_the_same_connection_is_answered() {
    let server = server();
    let mut client = RawClient::connect(server.public);
    client.send(b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(client.http_head().starts_with("HTTP/1.1 404 "));
    client.ask_upgrade("");
    // The body of the first answer is still to come.
    let head = client.http_head();
    assert!(head.contains("HTTP/1.1 101 "), "{head}");
    client.hello();
}

#[test]
fn an_upgraded_connection_is_not_cut() {
    let server = server();
    let (mut client, _) = RawClient::greeted(server.public, "");
    let nothing = client.frame_within(HANDSHAKE * 2).expect("it is not cut");
    assert!(nothing.is_none(), "{nothing:?}");
}

#[test]
fn what_is_no_upgrade_is_refused() {
    let server = server();
    let answer = send_request(server.public, "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    assert_eq!(answer.status, 426);
    assert_eq!(answer.error_code(), "upgrade_required");
    assert_eq!(answer.header("sec-websocket-version"), Some("13"));

    let old = "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\
               Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let answer = send_request(server.public, old);
    assert_eq!(answer.status, 426);
    assert_eq!(answer.header("sec-websocket-version"), Some("13"));

    let post = "POST /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let answer = send_request(server.public, post);
    assert_eq!(answer.status, 405);
    assert_eq!(answer.header("allow"), Some("GET"));
    assert_eq!(answer.error_code(), "method_not_allowed");

    let other = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let answer = send_request(server.public, other);
    assert_eq!(answer.status, 404, "the admin's paths are not public");
    assert_eq!(answer.error_code(), "not_found");
    server.assert_unharmed();
}

#[test]
fn what_is_no_http_is_survived() {
    let server = server();
    for bytes in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\r\n\r\n\r\n", b"GET\r\n\r\n", &[0xff; 1000]] {
        let mut client = RawClient::connect(server.public);
        client.send(bytes);
        client.await_end();
    }
    server.assert_unharmed();
}

#[test]
fn headers_without_end_are_refused() {
    let server = server();
    let mut client = RawClient::connect(server.public);
    client.send(b"GET /ws HTTP/1.1\r\n");
    let header = format!("X-Long: {}\r\n", "x".repeat(1000));
    let mut sent = 0;
    // The answer comes while it is still sending; then the connection ends, at the latest with a reset.
    while client.try_send(header.as_bytes()).is_ok() {
        sent += header.len();
        assert!(sent < 64 << 20, "it is never refused");
    }
    server.assert_unharmed();
}

/// One segment brings both, so one read does.
#[test]
fn the_answer_to_an_upgrade_and_the_hello_leave_in_one_write() {
    let server = RunningServer::with(&[]);
    let mut client = RawClient::connect(server.public);
    client.stream().set_read_timeout(Some(TIMEOUT)).expect("a socket takes a timeout");
    client.ask_upgrade("");
    let mut room = [0; 4096];
    let count = client.stream().read(&mut room).expect("an answer");
    let answer = String::from_utf8_lossy(&room[..count]);
    assert!(answer.starts_with("HTTP/1.1 101 ") && answer.contains(r#"{"hello":"#), "{answer}");
}

/// What hyper would have to do for these besides to answer, it does.
#[test]
fn upgrades_with_more_to_them_are_answered_as_well() {
    let server = RunningServer::with(&[]);
    for header in ["Expect: 100-continue\r\n", "Content-Length: 0\r\n"] {
        let mut client = RawClient::connect(server.public);
        client.ask_upgrade_with("", header);
        client.await_upgrade();
        client.hello();
        client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
        assert_eq!(client.object()["reply"]["id"], 1);
    }
}

/// Its first frames may come with the request.
#[test]
fn a_client_that_does_not_wait_for_the_answer_is_heard() {
    let server = RunningServer::with(&[]);
    let mut client = RawClient::connect(server.public);
    client.ask_upgrade("");
    client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    client.await_upgrade();
    client.hello();
    assert_eq!(client.object()["reply"]["id"], 1);
}

/// Lines of one name are one list: a proxy may add its own before the client's.
#[test]
fn an_upgrade_may_have_several_lines_of_its_connection() {
    let server = RunningServer::with(&[]);
    for path in ["/ws", "/bayeux"] {
        for lines in [
            ["keep-alive", "Upgrade"],
            ["Upgrade", "keep-alive"],
            ["keep-alive, TE", "x, upgrade"],
            // The second is no text.
            ["Upgrade", "\u{ff}"],
        ] {
            let mut client = RawClient::connect(server.public);
            client.ask_upgrade_by(&lines, path, "");
            client.await_upgrade();
        }
    }
}
