use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

use encke_tests::admin::send_request;
use encke_tests::raw::Dial;
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, until};
use encke_tests::{RawClient, RunningServer, bayeux};

const HANDSHAKE: Duration = Duration::from_secs(3);

fn server() -> RunningServer {
    RunningServer::with(&["limits.handshake_timeout=3s", "limits.keep_alive_timeout=3s"])
}

#[track_caller]
fn assert_closed_on_time(from: Instant, at: Instant) {
    let after = at - from;
    assert!(after >= HANDSHAKE, "closed after {after:?}");
    assert!(after <= HANDSHAKE + MAX_LATENESS, "closed after {after:?}");
}

/// An upgraded connection stays open.
#[test]
fn incomplete_requests_are_disconnected() {
    let server = server();
    let (mut upgraded, _) = RawClient::greeted(server.public, "");
    let halves = ["", "G", "GET /ws", "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"];
    let clients = halves.map(|half| {
        let from = Instant::now();
        let mut client = RawClient::connect(server.public);
        client.send(half.as_bytes());
        (from, client)
    });
    for (from, mut client) in clients {
        assert_closed_on_time(from, client.await_end());
    }
    upgraded.text(r#"{"id":1,"ack":{"seq":0}}"#);
    assert_eq!(upgraded.object()["reply"]["id"], 1);
}

#[test]
fn slow_headers_are_disconnected() {
    let server = server();
    let from = Instant::now();
    let mut client = RawClient::connect(server.public);
    client.send(b"GET /ws HTTP/1.1\r\nX-Slow: ");
    // Each byte shows that the client is alive, but does not extend the deadline for the request.
    while client.frame_within(Duration::from_millis(50)).is_ok_and(|frame| frame.is_none()) {
        assert!(from.elapsed() < TIMEOUT, "the connection is closed in time");
        if client.try_send(b"x").is_err() {
            break;
        }
    }
    assert_closed_on_time(from, Instant::now());
    server.assert_healthy();
}

#[test]
fn client_that_does_not_read_is_disconnected() {
    let server = server();
    let from = Instant::now();
    let mut client = RawClient::over(Dial::with_receive_buffer(4096).connect(server.public));
    let short = Some(Duration::from_millis(50));
    client.stream().set_write_timeout(short).expect("the socket accepts a timeout");
    let requests = b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".repeat(100);
    // Write until the socket is closed. Writes are expected to time out before that.
    while !client.try_send(&requests).is_err_and(|error| is_closed(&error)) {
        assert!(from.elapsed() < TIMEOUT, "the connection is closed in time");
    }
    assert_closed_on_time(from, Instant::now());
    server.assert_healthy();
}

fn is_closed(error: &io::Error) -> bool {
    !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[test]
fn silent_crowd_does_not_block_clients() {
    const LIMIT: usize = 20;
    for addresses in [1, 3 * LIMIT] {
        let server = RunningServer::with(&["limits.max_handshakes=20", "limits.handshake_timeout=1h"]);
        let silent = |number| {
            let address = format!("127.0.0.{}", 2 + number % addresses);
            RawClient::over(Dial::from(&address).connect(server.public))
        };
        let mut crowd: Vec<_> = (0..3 * LIMIT).map(silent).collect();
        for _ in 0..LIMIT {
            let (client, _) = RawClient::greeted(server.public, "");
            // The client has a session by now, so its handshake no longer counts.
            drop(client);
        }
        let excess = crowd.len() - LIMIT;
        crowd.drain(..excess).for_each(|mut client| _ = client.await_end());
        let refusals = || server.admin.metrics().refusals("handshakes");
        // Each new client displaced one more connection of the crowd.
        until("the refusals are counted", || refusals() >= excess as f64);
        let (_last, _) = RawClient::greeted(server.public, "");
        server.assert_healthy();
    }
}

/// A Bayeux WebSocket is upgraded before it has a session. It keeps its handshake slot and does not evict
/// another handshake.
#[test]
fn a_storm_from_one_address_is_served() {
    for path in ["/ws", "/bayeux"] {
        let server = RunningServer::with(&["limits.max_handshakes=5"]);
        // The server accepts the first client when all have sent their requests, so that none is silent.
        let storm: Vec<_> = server.while_stopped(|| {
            let clients = (0..50).map(|_| RawClient::connect(server.public));
            clients
                .map(|mut client| {
                    client.request_upgrade_at(path, "");
                    client
                })
                .collect()
        });
        for mut client in storm {
            client.await_upgrade();
            if path == "/ws" {
                client.hello();
            } else {
                bayeux::BayeuxWebSocket { raw: client }.handshake();
            }
        }
        assert_eq!(server.admin.metrics().refusals("handshakes"), 0.0);
    }
}

#[test]
fn a_connection_may_have_several_requests_and_is_closed_when_idle() {
    let server = server();
    let mut clients = [(); 2].map(|()| RawClient::connect(server.public));
    let from = Instant::now();
    for client in &mut clients {
        client.send(b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        assert!(client.http_head().starts_with("HTTP/1.1 404 "));
    }
    let [mut idle, mut second] = clients;
    second.request_upgrade("");
    // The body of the first response precedes the head.
    let head = second.http_head();
    assert!(head.contains("HTTP/1.1 101 "), "{head}");
    second.hello();
    assert_closed_on_time(from, idle.await_end());
}

#[test]
fn request_without_a_valid_upgrade_is_refused() {
    let server = server();
    let answer =
        send_request(server.public, "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
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
    assert_eq!(answer.status, 404, "admin paths are not public");
    assert_eq!(answer.error_code(), "not_found");
    server.assert_healthy();
}

#[test]
fn server_survives_invalid_http() {
    let server = server();
    for bytes in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\r\n\r\n\r\n", b"GET\r\n\r\n", &[0xff; 1000]] {
        let mut client = RawClient::connect(server.public);
        client.send(bytes);
        client.await_end();
    }
    server.assert_healthy();
}

#[test]
fn endless_headers_are_refused() {
    let server = server();
    let mut client = RawClient::connect(server.public);
    client.send(b"GET /ws HTTP/1.1\r\n");
    let header = format!("X-Long: {}\r\n", "x".repeat(1000));
    let mut sent = 0;
    // The response arrives while the client is still sending. After that, the connection ends, at the latest
    // with a reset.
    while client.try_send(header.as_bytes()).is_ok() {
        sent += header.len();
        assert!(sent < 64 << 20, "the request is refused in time");
    }
    server.assert_healthy();
}

/// The response and the hello arrive in one segment, so one read returns both.
#[test]
fn upgrade_response_and_hello_are_sent_in_one_write() {
    let server = RunningServer::with(&[]);
    let mut client = RawClient::connect(server.public);
    client.stream().set_read_timeout(Some(TIMEOUT)).expect("the socket accepts a timeout");
    client.request_upgrade("");
    let mut room = [0; 4096];
    let count = client.stream().read(&mut room).expect("an answer");
    let answer = String::from_utf8_lossy(&room[..count]);
    assert!(answer.starts_with("HTTP/1.1 101 ") && answer.contains(r#"{"hello":"#), "{answer}");
}

/// hyper handles the other things that these headers ask for in addition to the upgrade. A client may send its
/// first frames along with the request.
#[test]
fn upgrades_with_additional_headers_are_accepted() {
    let server = RunningServer::with(&[]);
    for header in ["", "Expect: 100-continue\r\n", "Content-Length: 0\r\n"] {
        let mut client = RawClient::connect(server.public);
        client.request_upgrade_with("", header);
        client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
        client.await_upgrade();
        client.hello();
        assert_eq!(client.object()["reply"]["id"], 1, "{header}");
    }
    // Several header lines with one name form one list: a proxy may add a line before the client's.
    for path in ["/ws", "/bayeux"] {
        for lines in [
            ["keep-alive", "Upgrade"],
            ["Upgrade", "keep-alive"],
            ["keep-alive, TE", "x, upgrade"],
            // The second line is not ASCII text.
            ["Upgrade", "\u{ff}"],
        ] {
            let mut client = RawClient::connect(server.public);
            client.request_upgrade_with_connection(&lines, path, "");
            client.await_upgrade();
        }
    }
}
