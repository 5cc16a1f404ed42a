use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use encke_tests::waiting::{TIMEOUT, eventually, until};
use encke_tests::{Client, HttpResponse, RawClient, RunningServer};
use serde_json::Value;

/// Starts a server with the default timeouts: ping interval 25 s, pong timeout 10 s, reconnect window 120 s,
/// lifetime 24 h.
fn server() -> RunningServer {
    RunningServer::with(&[])
}

fn ids(page: &Value) -> Vec<String> {
    let sessions = page["sessions"].as_array().expect("an array");
    sessions.iter().map(|session| session["id"].as_str().expect("an id").to_owned()).collect()
}

fn remaining(session: &Value, deadline: &str) -> Option<f64> {
    let deadlines = session["deadlines"].as_array().expect("an array");
    deadlines.iter().find(|entry| entry["deadline"] == deadline)?["remaining_ms"].as_f64()
}

#[track_caller]
fn assert_error(answer: &HttpResponse, status: u16, code: &str) {
    assert_eq!((answer.status, &*answer.error_code()), (status, code), "{answer:?}");
}

#[test]
fn health_and_readiness() {
    let server = server();
    for path in ["/healthz", "/readyz"] {
        let answer = server.admin.get(path);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["status"], "ok");
    }
}

#[test]
fn metrics_are_exported() {
    let server = server();
    let client = server.client();
    let _resumed = server.resume(&client.hello.resume);
    let answer = server.admin.get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").is_some_and(|kind| kind.contains("text")), "{answer:?}");
    // A sleeping timer thread adds a new timer to the wheel only when it next wakes, unless the timer is due
    // earlier.
    until("the session's timer is in the wheel", || {
        server.admin.metrics().value("encke_timer_entries") >= 1.0
    });
    let metrics = server.admin.metrics();
    let text = metrics.text();
    for (name, kind) in [
        ("encke_connections", "gauge"),
        ("encke_sessions", "gauge"),
        ("encke_session_events", "counter"),
        ("encke_resumes", "counter"),
        ("encke_timer_entries", "gauge"),
        ("encke_timer_expiries", "counter"),
        ("encke_timer_lateness_seconds", "histogram"),
        ("encke_wheel_stalls", "counter"),
        ("encke_dispatch_depth", "gauge"),
        ("encke_dispatch_age_seconds", "gauge"),
        ("encke_dispatch_delay_seconds", "histogram"),
        ("encke_worker_panics", "counter"),
        ("encke_ping_rtt_seconds", "histogram"),
        ("encke_delivery_seconds", "histogram"),
    ] {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name} {kind}: {text}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}: {text}");
    }
    for series in [
        "encke_connections{transport=\"websocket\",dialect=\"json\"} ",
        "encke_sessions{phase=\"attached\"} 1\n",
        "encke_sessions{phase=\"suspended\"} 0\n",
        "encke_session_events_total{event=\"opened\",reason=\"connect\"} 1\n",
        "encke_resumes_total{outcome=\"recovered\"} 1\n",
        "encke_timer_expiries_total{deadline=\"ping\"} 0\n",
        "encke_timer_lateness_seconds_bucket{le=\"+Inf\"} ",
        "encke_wheel_stalls_total ",
        "encke_dispatch_depth ",
        "encke_dispatch_age_seconds ",
        "encke_ping_rtt_seconds_sum ",
    ] {
        assert!(text.contains(series), "{series}: {text}");
    }
}

#[test]
fn gauges_follow_connections_and_sessions() {
    let server = server();
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    let metrics = server.admin.metrics();
    assert_eq!((metrics.sessions("attached"), metrics.connections()), (3.0, 3.0));
    let left = clients.pop().map(Client::drop_connection).expect("three");
    server.await_phase(&left.session, "suspended");
    let metrics = server.admin.metrics();
    assert_eq!((metrics.sessions("attached"), metrics.sessions("suspended")), (2.0, 1.0));
    until("two connections", || server.admin.metrics().connections() == 2.0);
}

#[test]
fn sessions_are_listed_by_phase() {
    let server = server();
    let attached = server.client();
    let suspended = server.suspended_session();
    let list = |query: &str| ids(&server.admin.get(&format!("/api/sessions{query}")).json());
    let (attached_id, suspended_id) = (&attached.hello.session, &suspended.session);
    assert_eq!(list("?phase=attached"), [&**attached_id]);
    assert_eq!(list("?phase=suspended"), [&**suspended_id]);
    let both = BTreeSet::from([attached_id.clone(), suspended_id.clone()]);
    assert_eq!(BTreeSet::from_iter(list("")), both);

    let page = server.admin.get("/api/sessions?phase=attached").json();
    let session = &page["sessions"][0];
    assert_eq!(session["phase"], "attached");
    assert_eq!(session["transport"], "websocket");
    assert_eq!(session["dialect"], "json");
    assert!(session["age_ms"].is_number() && session["last_heard_ms"].is_number(), "{session}");
    assert!(page["next_cursor"].is_null(), "{page}");
    assert!(!page.to_string().contains(attached.hello.resume.split_once('.').expect("a secret").1));
}

/// The filter is applied before the page size: otherwise a selective filter would yield one match per page.
#[test]
fn filtered_pages_are_filled() {
    let server = server();
    let _attached: Vec<_> = (0..20).map(|_| server.client()).collect();
    let suspended: BTreeSet<_> = (0..3).map(|_| server.suspended_session().session).collect();
    let page = server.admin.get("/api/sessions?phase=suspended&limit=2").json();
    let mut found = ids(&page);
    assert_eq!(found.len(), 2);
    let rest = format!("/api/sessions?phase=suspended&limit=2&cursor={}", page["next_cursor"]);
    found.extend(ids(&server.admin.get(&rest).json()));
    assert_eq!(BTreeSet::from_iter(found), suspended);
}

#[test]
fn pages_are_walked_by_cursor() {
    let server = server();
    let clients: Vec<_> = (0..25).map(|_| server.client()).collect();
    let expected: BTreeSet<_> = clients.iter().map(|client| client.hello.session.clone()).collect();
    let mut seen = Vec::new();
    let mut cursor = String::new();
    for page_number in 1.. {
        let page = server.admin.get(&format!("/api/sessions?limit=10{cursor}")).json();
        seen.extend(ids(&page));
        let Some(next) = page["next_cursor"].as_u64() else {
            assert_eq!(page_number, 3);
            break;
        };
        cursor = format!("&cursor={next}");
        assert!(page_number < 4, "pagination does not end");
    }
    assert_eq!(seen.len(), 25, "each session once");
    assert_eq!(BTreeSet::from_iter(seen), expected);
}

#[test]
fn invalid_query_parameters_are_named() {
    let server = server();
    for query in [
        "phase=closed",
        "phase=",
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=many",
        "cursor=x",
        "cursor=s_AAAA",
        "cursor=-1",
        "cursor=4294967296",
        "sort=age",
    ] {
        let answer = server.admin.get(&format!("/api/sessions?{query}"));
        assert_error(&answer, 400, "bad_request");
        let name = query.split_once('=').expect("a parameter").0;
        assert!(answer.body.contains(name) || name == "cursor", "{query}: {}", answer.body);
    }
    assert_eq!(server.admin.get("/api/sessions?limit=1000").status, 200);
}

#[test]
fn malformed_and_unknown_ids_are_rejected() {
    let server = server();
    let unknown = "s_AAAAAAAAAAAAAAAAAAAAAA";
    for (method, rest) in [("GET", ""), ("DELETE", ""), ("POST", "/disconnect")] {
        let answer = server.admin.request(method, &format!("/api/sessions/{unknown}{rest}"));
        assert_error(&answer, 404, "not_found");
        for id in ["x", "s_", "s_AAAAAAAAAAAAAAAAAAAAAAA", "s_AAAAAAAAAAAAAAAAAAAA%2e", ".."] {
            let answer = server.admin.request(method, &format!("/api/sessions/{id}{rest}"));
            assert_error(&answer, 400, "bad_request");
        }
    }
    assert_error(&server.admin.get("/nowhere"), 404, "not_found");
    assert_error(&server.admin.get("/api/sessions/a/b/c"), 404, "not_found");
}

#[test]
fn wrong_methods_are_answered_with_an_allow_header() {
    let server = server();
    let session = server.client();
    let path = format!("/api/sessions/{}", session.hello.session);
    for (method, path, allow) in [
        ("POST", "/healthz", "GET, HEAD"),
        ("PUT", "/readyz", "GET, HEAD"),
        ("DELETE", "/metrics", "GET, HEAD"),
        ("POST", "/api/timers", "GET, HEAD"),
        ("DELETE", "/api/sessions", "GET, HEAD"),
        ("POST", &*path, "GET, HEAD, DELETE"),
        ("GET", &*format!("{path}/disconnect"), "POST"),
        ("DELETE", &*format!("{path}/disconnect"), "POST"),
    ] {
        let answer = server.admin.request(method, path);
        assert_error(&answer, 405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
    server.await_phase(&session.hello.session, "attached");
}

#[test]
fn head_is_answered_like_get_without_a_body() {
    let server = server();
    let session = server.client();
    for path in ["/healthz", "/metrics", &format!("/api/sessions/{}", session.hello.session), "/api/nothing"]
    {
        let (get, head) = (server.admin.get(path), server.admin.request("HEAD", path));
        assert_eq!((head.status, &*head.body), (get.status, ""), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        assert!(head.header("content-length").is_some_and(|length| length != "0"), "{path}: {head:?}");
    }
    let head = server.admin.request("HEAD", "/api/publish");
    assert_eq!((head.status, head.header("allow")), (405, Some("POST")));
}

#[test]
fn deadlines_are_shown_with_their_remaining_time() {
    let server = RunningServer::with(&["session.idle=1h"]);
    let client = server.client();
    let session = server.admin.session(&client.hello.session);
    assert_eq!(session["id"], client.hello.session);
    assert_eq!(session["phase"], "attached");
    assert_eq!(session["seq"], 0);
    assert!(session["close_reason"].is_null());
    let ping = remaining(&session, "ping").expect("ping is armed");
    assert!((0.0..=25_000.0).contains(&ping), "{ping}");
    let idle = remaining(&session, "idle").expect("idle is armed");
    assert!((3_500_000.0..=3_600_000.0).contains(&idle), "{idle}");
    let lifetime = remaining(&session, "lifetime").expect("lifetime is armed");
    assert!((86_300_000.0..=86_400_000.0).contains(&lifetime), "{lifetime}");
    assert_eq!(session["deadlines"].as_array().map(Vec::len), Some(3), "{session}");

    let left = client.drop_connection();
    server.await_phase(&left.session, "suspended");
    let session = server.admin.session(&left.session);
    let reconnect = remaining(&session, "reconnect").expect("reconnect is armed");
    assert!((60_000.0..=120_000.0).contains(&reconnect), "{reconnect}");
    assert!(remaining(&session, "ping").is_none(), "{session}");
    assert!(remaining(&session, "lifetime").is_some(), "{session}");
}

#[test]
fn disconnect_closes_only_the_connection() {
    let server = server();
    let mut client = server.client();
    assert_eq!(server.admin.disconnect(&client.hello.session).status, 204);
    assert_eq!(client.close_code(), Some(4007));
    server.await_phase(&client.hello.session, "suspended");
    assert_eq!(
        server.admin.disconnect(&client.hello.session).status,
        204,
        "a second disconnect has no effect"
    );
    let again = server.resume(&client.hello.resume);
    assert!(again.hello.recovered);
    let events = [("opened", "connect"), ("suspended", "disconnected"), ("resumed", "reconnect")];
    server.logs.await_lifecycle(&client.hello.session, &events);
}

#[test]
fn delete_ends_the_session() {
    let server = server();
    let mut client = server.client();
    let suspended = server.suspended_session();
    assert_eq!(server.admin.kick(&client.hello.session).status, 204);
    assert_eq!(client.close_code(), Some(4101));
    assert_eq!(server.admin.kick(&suspended.session).status, 204);
    for hello in [&client.hello, &suspended] {
        assert_error(&server.admin.get(&format!("/api/sessions/{}", hello.session)), 404, "not_found");
        assert_error(&server.admin.kick(&hello.session), 404, "not_found");
    }
    for hello in [&client.hello, &suspended] {
        // The server does not know whether the client received the close code, so it refuses the first resume
        // attempt with that code.
        assert_eq!(Client::refusal_code(server.public, &format!("resume={}", hello.resume)), 4101);
        assert!(!server.resume(&hello.resume).hello.recovered);
    }
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("closed", "kicked"), 2.0);
    server.logs.await_lifecycle(&client.hello.session, &[("opened", "connect"), ("closed", "kicked")]);
}

#[test]
fn timers_are_shown() {
    let server = RunningServer::with(&["timers.tick=20ms", "timers.workers=3", "session.lifetime=1s"]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    let show = || server.admin.get("/api/timers").json();
    let timers = eventually("a timer in the wheel", || {
        Some(show()).filter(|timers| timers["entries"].as_u64() >= Some(1))
    });
    assert_eq!(timers["scheme"], "hierarchical");
    assert_eq!(timers["tick_ms"], 20.0);
    assert!(timers["levels"].as_array().is_some_and(|levels| levels.len() > 1), "{timers}");
    assert_eq!(timers["dispatch"]["workers"], 3);
    assert!(timers["dispatch"]["capacity"].as_u64() >= Some(1), "{timers}");
    assert!(timers["dispatch"]["depth"].is_u64() && timers["dispatch"]["age_ms"].is_number(), "{timers}");
    assert!(timers["stalls"]["count"].is_u64() && timers["stalls"]["stolen_ms"].is_number(), "{timers}");
    assert!(timers["since_last_turn_ms"].is_number(), "{timers}");

    assert_eq!(client.close_code(), 4006);
    let lateness = eventually("the timer's lateness is counted", || {
        Some(show()["lateness"].clone()).filter(|lateness| lateness["count"].as_u64() >= Some(1))
    });
    for field in ["p50_ms", "p99_ms", "p999_ms", "max_ms"] {
        assert!(lateness[field].as_f64().is_some_and(|late| late >= 0.0), "{lateness}");
    }
}

#[test]
fn cross_origin_requests_are_rejected() {
    let server = server();
    let client = server.client();
    let path = format!("/api/sessions/{}", client.hello.session);
    let own = server.admin.address();
    let with = |method, headers: &str| server.admin.request_with(method, &path, headers);
    for headers in [
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{}\r\n", own.port()),
        format!("Host: {own}\r\nOrigin: http://evil.example\r\n"),
        format!("Host: {own}\r\nOrigin: null\r\n"),
        format!("Host: {own}\r\nOrigin: https://{own}\r\n"),
        format!("Host: {own}\r\nSec-Fetch-Site: cross-site\r\n"),
    ] {
        assert_error(&with("DELETE", &headers), 403, "forbidden");
        assert_error(&with("GET", &headers), 403, "forbidden");
    }
    for headers in [String::new(), format!("Host: {own}\r\nHost: {own}\r\n")] {
        assert_error(&with("DELETE", &headers), 400, "bad_request");
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
    let request =
        format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.admin.address());
    let is_answered = || answer_until_close(server.admin.address(), &request).starts_with("HTTP/1.1 200");
    assert!(is_answered(), "silent connections do not block a health check");
    assert!(server.admin.metrics().refusals("admin") >= 1.0);
}

#[test]
fn oversized_request_head_is_rejected() {
    let server = server();
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
