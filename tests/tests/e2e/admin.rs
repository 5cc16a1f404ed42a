use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::RangeInclusive;

use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Client, RunningServer};
use serde_json::Value;

fn id(session: &Value) -> String {
    session["id"].as_str().expect("an id").to_owned()
}

#[test]
fn sessions_are_listed_and_counted_by_phase() {
    let server = RunningServer::with(&[]);
    let attached: Vec<_> = (0..22).map(|_| server.client()).collect();
    let suspended: BTreeSet<_> = (0..3).map(|_| server.suspended_session().session).collect();
    until("all are counted", || {
        let metrics = server.admin.metrics();
        let sessions = [metrics.sessions("attached"), metrics.sessions("suspended")];
        (sessions, metrics.connections()) == ([22.0, 3.0], 22.0)
    });

    let of_attached: BTreeSet<_> = attached.iter().map(|client| client.hello.session.clone()).collect();
    // The filter is applied before the page size: otherwise a selective filter would yield one match per page.
    for (query, expected, page_sizes) in [
        ("limit=10", &of_attached | &suspended, &[10, 10, 5][..]),
        ("limit=30&phase=attached", of_attached, &[22]),
        ("limit=2&phase=suspended", suspended, &[2, 1]),
    ] {
        let (mut seen, mut sizes, mut cursor) = (BTreeSet::new(), Vec::new(), String::new());
        loop {
            let page = server.admin.get(&format!("/api/sessions?{query}{cursor}")).json();
            let ids: Vec<_> = page["sessions"].as_array().expect("an array").iter().map(id).collect();
            sizes.push(ids.len());
            seen.extend(ids);
            let Some(next) = page["next_cursor"].as_u64() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!((seen, &*sizes), (expected, page_sizes), "{query}");
    }

    let page = server.admin.get("/api/sessions?phase=attached").json();
    let session = &page["sessions"][0];
    let kind = ["phase", "transport", "dialect", "address"].map(|field| session[field].clone());
    assert_eq!(kind, ["attached", "websocket", "json", "127.0.0.1"]);
    let suspended = server.admin.get("/api/sessions?phase=suspended").json();
    assert!(suspended["sessions"][0]["address"].is_null(), "{suspended}");
    assert!(session["age_ms"].is_number() && session["last_heard_ms"].is_number(), "{session}");
    let secret = |client: &Client| client.hello.resume.split_once('.').expect("a secret").1.to_owned();
    assert!(!attached.iter().any(|client| page.to_string().contains(&secret(client))));
}

/// The document of the API describes more invalid requests, which schemathesis sends.
#[test]
fn invalid_requests_are_rejected() {
    let server = RunningServer::with(&[]);
    for query in [
        "phase=closed",
        "phase=",
        "limit=0",
        "limit=1001",
        "limit=many",
        "cursor=s_AAAA",
        "cursor=4294967296",
        "sort=age",
    ] {
        let answer = server.admin.get(&format!("/api/sessions?{query}"));
        answer.assert_error(400, "bad_request");
        let name = query.split_once('=').expect("a parameter").0;
        assert!(answer.body.contains(name) || name == "cursor", "{query}: {}", answer.body);
    }
    assert_eq!(server.admin.get("/api/sessions?limit=1000").status, 200);

    for (method, rest) in [("GET", ""), ("DELETE", ""), ("POST", "/disconnect")] {
        let request = |id: &str| server.admin.request(method, &format!("/api/sessions/{id}{rest}"));
        request("s_AAAAAAAAAAAAAAAAAAAAAA").assert_error(404, "not_found");
        for id in ["x", "s_", "s_AAAAAAAAAAAAAAAAAAAAAAA", "s_AAAAAAAAAAAAAAAAAAAA%2e", ".."] {
            request(id).assert_error(400, "bad_request");
        }
    }
    for path in ["/nowhere", "/api/sessions/a/b/c"] {
        server.admin.get(path).assert_error(404, "not_found");
    }

    let session = server.client();
    let path = format!("/api/sessions/{}", session.hello.session);
    for (method, path, allow) in [
        ("POST", "/healthz", "GET, HEAD"),
        ("DELETE", "/metrics", "GET, HEAD"),
        ("DELETE", "/api/sessions", "GET, HEAD"),
        ("POST", &*path, "GET, HEAD, DELETE"),
        ("GET", &*format!("{path}/disconnect"), "POST"),
        ("HEAD", "/api/publish", "POST"),
    ] {
        let answer = server.admin.request(method, path);
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {path}");
        assert!(method == "HEAD" || answer.error_code() == "method_not_allowed");
    }
    // A HEAD request is answered like GET, without a body.
    for path in ["/healthz", "/metrics", &path, "/api/nothing"] {
        let (get, head) = (server.admin.get(path), server.admin.request("HEAD", path));
        assert_eq!((head.status, &*head.body), (get.status, ""), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        assert!(head.header("content-length").is_some_and(|length| length != "0"), "{path}: {head:?}");
    }
    server.await_phase(&session.hello.session, "attached");
}

/// Ping interval 25 s, reconnect window 120 s and lifetime 24 h are the defaults.
#[test]
fn deadlines_are_shown_with_their_remaining_time() {
    let server = RunningServer::with(&["session.idle=1h"]);
    let client = server.client();
    let assert_deadlines = |session: &Value, expected: &[(&str, RangeInclusive<f64>)]| {
        let shown = session["deadlines"].as_array().expect("an array");
        assert_eq!(shown.len(), expected.len(), "{session}");
        for (deadline, range) in expected {
            let entry = shown.iter().find(|entry| entry["deadline"] == *deadline);
            let left = entry.and_then(|entry| entry["remaining_ms"].as_f64());
            assert!(left.is_some_and(|left| range.contains(&left)), "{deadline}: {left:?}");
        }
    };
    let idle = ("idle", 3_500_000.0..=3_600_000.0);
    let lifetime = ("lifetime", 86_300_000.0..=86_400_000.0);
    let session = server.admin.session(&client.hello.session);
    assert_deadlines(&session, &[("ping", 0.0..=25_000.0), idle.clone(), lifetime.clone()]);
    let session = server.admin.session(&server.suspend(client).session);
    assert_deadlines(&session, &[("reconnect", 60_000.0..=120_000.0), idle, lifetime]);
}

#[test]
fn delete_ends_the_session() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    let suspended = server.suspended_session();
    assert_eq!(server.admin.kick(&client.hello.session).status, 204);
    assert_eq!(client.close_code(), Some(4101));
    assert_eq!(server.admin.kick(&suspended.session).status, 204);
    for hello in [&client.hello, &suspended] {
        server.admin.get(&format!("/api/sessions/{}", hello.session)).assert_error(404, "not_found");
        server.admin.kick(&hello.session).assert_error(404, "not_found");
        // The server does not know whether the client received the close code, so it refuses the first resume
        // attempt with that code.
        assert_eq!(Client::refusal_code(server.public, &format!("resume={}", hello.resume)), 4101);
        assert!(!server.resume(&hello.resume).hello.recovered);
    }
    assert_eq!(server.admin.metrics().events("closed", "kicked"), 2.0);
    server.await_lifecycle(&client.hello.session, "opened connect, closed kicked");
}

#[test]
fn cross_origin_requests_are_rejected() {
    let server = RunningServer::with(&[]);
    let client = server.client();
    let path = format!("/api/sessions/{}", client.hello.session);
    let own = server.admin.address();
    let with = |method, headers: &str| server.admin.request_with(method, &path, headers);
    for headers in [
        "Host: evil.example\r\n".to_owned(),
        format!("Host: {own}\r\nOrigin: http://evil.example\r\n"),
        format!("Host: {own}\r\nOrigin: null\r\n"),
        format!("Host: {own}\r\nOrigin: https://{own}\r\n"),
        format!("Host: {own}\r\nSec-Fetch-Site: cross-site\r\n"),
    ] {
        with("DELETE", &headers).assert_error(403, "forbidden");
        with("GET", &headers).assert_error(403, "forbidden");
    }
    for headers in [String::new(), format!("Host: {own}\r\nHost: {own}\r\n")] {
        with("DELETE", &headers).assert_error(400, "bad_request");
    }
    for headers in [
        format!("Host: {own}\r\nOrigin: http://{own}\r\n"),
        format!("Host: localhost:{}\r\n", own.port()),
        format!("Host: [::1]:{}\r\n", own.port()),
    ] {
        assert_eq!(with("GET", &headers).status, 200, "{headers}");
    }
    server.await_phase(&client.hello.session, "attached");
}

#[test]
fn client_that_does_not_read_is_disconnected() {
    let server = RunningServer::with(&["session.write_timeout=300ms"]);
    let mut socket = TcpStream::connect(server.admin.address()).expect("a connection");
    socket.set_write_timeout(Some(TIMEOUT)).expect("the socket accepts a timeout");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", server.admin.address());
    let error = loop {
        if let Err(error) = socket.write_all(request.as_bytes()) {
            break error;
        }
    };
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
    server.assert_healthy();
}

#[test]
fn admin_connections_are_limited() {
    let server = RunningServer::with(&["limits.max_admin_connections=2"]);
    let connect = || TcpStream::connect(server.admin.address()).expect("the listener accepts");
    let is_closed = |mut socket: TcpStream| {
        socket.set_read_timeout(Some(TIMEOUT)).expect("the socket accepts a timeout");
        matches!(socket.read(&mut [0]), Ok(0) | Err(_))
    };
    let (oldest, _second, _third) = (connect(), connect(), connect());
    assert!(is_closed(oldest), "the oldest connection is closed to make room");
    assert_eq!(server.admin.get("/healthz").status, 200, "silent connections do not block a health check");
    assert!(server.admin.metrics().refusals("admin") >= 1.0);
}

#[test]
fn oversized_request_head_is_rejected() {
    let server = RunningServer::with(&[]);
    for (length, status, path) in [(17, "431", ["/ws", "/healthz"]), (12, "40", ["/events", "/nowhere"])] {
        let long = "x".repeat(length * 1024);
        for (address, path) in [(server.public, path[0]), (server.admin.address(), path[1])] {
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Long: {long}\r\n\r\n"
            );
            let answer = answer_until_close(address, &head);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{length} KiB to {path}: {answer}");
        }
    }
}

/// Sends a request and returns all bytes up to the end of the connection. The end may be a reset, because the
/// server did not read the whole request.
fn answer_until_close(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the listener accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("the socket accepts a timeout");
    // Ignore errors: the server may have closed the connection already, which these tests allow.
    let _ = stream.write_all(request.as_bytes());
    let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..length]);
    }
    String::from_utf8(answer).expect("answers are text")
}
