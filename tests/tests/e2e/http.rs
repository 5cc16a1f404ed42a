use encke_tests::RunningServer;
use encke_tests::http::send_request;

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
