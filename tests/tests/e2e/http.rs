use encke_tests::http::{post, send_request};
use encke_tests::raw::Dial;
use encke_tests::{PollClient, RawClient, RunningServer};

/// HAProxy checks the health in this way by default.
#[test]
fn health_checks_may_use_http_1_0_without_host() {
    let server = RunningServer::with(&[]);
    let request = |line: &str| send_request(server.admin.address(), &format!("{line}\r\n\r\n"));
    for path in ["/healthz", "/readyz"] {
        let health = request(&format!("GET {path} HTTP/1.0"));
        assert_eq!((health.status, &*health.body), (200, r#"{"status":"ok"}"#));
        let health = request(&format!("HEAD {path} HTTP/1.0"));
        assert_eq!((health.status, &*health.body), (200, ""));
    }
    request("GET /readyz HTTP/1.1\r\nConnection: close").assert_error(400, "bad_request");
    request("GET /metrics HTTP/1.0").assert_error(400, "bad_request");
}

#[test]
fn responses_have_a_date_and_only_files_are_stored() {
    let server = RunningServer::with(&[]);
    let (public, admin) = (server.public, server.admin.address());
    for (address, request, status) in [
        (public, "GET /nowhere", 404),
        (public, "GET /ws", 426),
        (public, "GET /poll", 200),
        (public, "OPTIONS /poll", 204),
        (public, "GET /encke.js", 200),
        (admin, "GET /healthz", 200),
        (admin, "GET /metrics", 200),
        (admin, "GET /api/nowhere", 404),
        (admin, "GET /", 200),
    ] {
        let text = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let response = send_request(address, &text);
        assert_eq!(response.status, status, "{request}");
        assert!(response.header("date").is_some_and(|date| date.ends_with(" GMT")), "{request}");
        let is_file = ["GET /", "GET /encke.js"].contains(&request);
        let expected = if is_file { "public, no-cache" } else { "no-store" };
        assert_eq!(response.header("cache-control"), Some(expected), "{request}");
    }
}

/// Slow requests end after `limits.handshake_timeout`, but the wait between requests may take longer.
#[test]
fn idle_connections_outlive_the_time_limit_of_requests() {
    const REQUEST: &str = "HEAD /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let server = RunningServer::with(&["limits.handshake_timeout=1s"]);
    let mut idle = [server.public, server.admin.address()].map(RawClient::connect);
    for client in &mut idle {
        client.send(REQUEST);
        assert!(client.http_head().contains("\r\nkeep-alive: timeout=75\r\n"));
    }
    let mut polled = PollClient::connect(server.public);
    let answer = polled.get("channels=news");
    assert_eq!(answer.header("keep-alive"), Some("timeout=75"));
    // This client's time ends after that of the others would have ended.
    RawClient::connect(server.public).await_end();
    assert_eq!(polled.get("channels=news").status, 200);
    polled.send("GET /poll");
    polled.await_end();
    for mut client in idle {
        client.send(REQUEST);
        assert!(client.http_head().starts_with("HTTP/1.1 404 "));
        client.send("HEAD");
        client.await_end();
    }
}

/// Polling clients of one address that wait between requests give way to a client of another address.
#[test]
fn idle_connections_are_evicted_if_there_is_no_room() {
    const LIMIT: usize = 5;
    let server = RunningServer::with(&["limits.max_handshakes=5"]);
    let connect = |_| {
        let mut client = PollClient::over(Dial::from("127.0.0.2").connect(server.public));
        assert_eq!(client.get("channels=news").status, 200);
        client
    };
    let mut idle: Vec<_> = (0..2 * LIMIT).map(connect).collect();
    let _clients: Vec<_> = (0..LIMIT).map(|_| RawClient::greeted(server.public, "")).collect();
    idle[..LIMIT].iter_mut().for_each(|client| _ = client.await_end());
    assert_eq!(server.admin.metrics().refusals("handshakes"), 0.0, "these clients had a session");
}

#[test]
fn requests_that_cannot_be_read_get_a_json_error() {
    let server = RunningServer::with(&[]);
    let long = format!("GET /events?channels={} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a,".repeat(9000));
    let invalid = "GET /events HTTP/1.1\r\nHost localhost\r\n\r\n";
    for address in [server.public, server.admin.address()] {
        for (request, status, code) in [(&*long, 431, "head_too_large"), (invalid, 400, "bad_request")] {
            let response = send_request(address, request);
            response.assert_error(status, code);
            let headers = ["connection", "cache-control"].map(|name| response.header(name));
            assert_eq!(headers, [Some("close"), Some("no-store")]);
            assert!(response.header("date").is_some());
        }
    }
}

/// Invalid UTF-8 would be replaced, so that different names would mean the same channel.
#[test]
fn parameters_must_be_utf8() {
    let server = RunningServer::with(&[]);
    let get = |address, target: &str| {
        let head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        send_request(address, &format!("GET {target} {head}"))
    };
    for path in ["/events?channels=%ff", "/poll?channels=a&resume=%c3", "/ws?token=%ff", "/encke.js?%ff"] {
        get(server.public, path).assert_error(400, "bad_request");
    }
    get(server.admin.address(), "/api/sessions?cursor=%ff").assert_error(400, "bad_request");
    let form = "Connection: close\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    send_request(server.public, &post("/bayeux", form, "message=%ff")).assert_error(400, "bad_request");
}

/// The host of an absolute target counts, as `Host` does otherwise: a page may have reached the server by a name
/// that it has rebound.
#[test]
fn host_of_an_absolute_target_is_checked() {
    let server = RunningServer::with(&[]);
    for address in [server.public, server.admin.address()] {
        let status = |target: &str, host: &str| {
            let head = format!("Host: {host}\r\nConnection: close\r\n\r\n");
            send_request(address, &format!("GET {target} HTTP/1.1\r\n{head}")).status
        };
        assert_eq!(status("http://evil.example/nowhere", "localhost"), 403);
        assert_eq!(status("http://localhost/nowhere", "evil.example"), 404);
        assert_eq!(status("/nowhere", "evil.example"), 403);
    }
}

#[test]
fn compressed_bodies_are_refused() {
    let server = RunningServer::with(&[]);
    let mut client = PollClient::connect(server.public);
    let resume = client.get("channels=news").json()[0]["hello"]["resume"].as_str().expect("text").to_owned();
    let headers = "Connection: close\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n";
    for (address, path) in [
        (server.public, &*format!("/poll?resume={resume}")),
        (server.public, "/bayeux"),
        (server.admin.address(), "/api/publish"),
    ] {
        let response = send_request(address, &post(path, headers, "{}"));
        response.assert_error(415, "unsupported_media_type");
        assert!(response.body.contains("Content-Encoding"), "{path}: {}", response.body);
    }
}

#[test]
fn an_upgrade_selects_from_lists() {
    let server = RunningServer::with(&[]);
    let mut client = RawClient::connect(server.public);
    client.send(
        "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: x, encke.v1\r\n\r\n",
    );
    let head = client.http_head();
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("sec-websocket-protocol: encke.v1"), "{head}");
    client.hello();
}

#[test]
fn metrics_have_the_format_that_the_client_prefers() {
    let server = RunningServer::with(&[]);
    let headers = "Host: localhost\r\nAccept: application/openmetrics-text\r\n";
    let open_metrics = server.admin.request_with("GET", "/metrics", headers);
    assert!(open_metrics.header("content-type").is_some_and(|it| it.starts_with("application/openmetrics")));
    assert!(open_metrics.body.contains("# TYPE encke_refusals counter\n"), "{}", open_metrics.body);
    assert!(open_metrics.body.ends_with("# EOF\n"));
    let text = server.admin.get("/metrics");
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(text.body.contains("# TYPE encke_refusals_total counter\n"), "{}", text.body);
    assert!(!text.body.contains("# EOF"));
}
