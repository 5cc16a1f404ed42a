use encke_tests::http::send_request;
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
    let connect = |_| PollClient::over(Dial::from("127.0.0.2").connect(server.public));
    let mut idle: Vec<_> = (0..2 * LIMIT).map(connect).collect();
    for client in &mut idle {
        assert_eq!(client.get("channels=news").status, 200);
    }
    let _clients: Vec<_> = (0..LIMIT).map(|_| RawClient::greeted(server.public, "")).collect();
    idle[..LIMIT].iter_mut().for_each(|client| _ = client.await_end());
    assert_eq!(server.admin.metrics().refusals("handshakes"), 0.0, "these clients had a session");
}
