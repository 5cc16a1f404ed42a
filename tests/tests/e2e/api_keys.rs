use std::io::Write;
use std::net::TcpStream;

use encke_tests::http::bearer;
use encke_tests::waiting::until;
use encke_tests::{HttpResponse, RunningServer};
use serde_json::{Value, json};

const OLD: &str = "old-key-0123456789";
const NEW: &str = "new-key-0123456789";

/// Starts a server in the middle of a key rotation: it accepts both keys.
fn server() -> RunningServer {
    RunningServer::with(&[&format!("auth.api_keys=[\"{OLD}\", \"{NEW}\"]")])
}

fn ask(server: &RunningServer, method: &str, path: &str, authorization: &str) -> HttpResponse {
    let host = server.admin.address();
    server.admin.request_with(method, path, &format!("Host: {host}\r\n{authorization}"))
}

#[test]
fn only_valid_keys_authorize_requests() {
    let server = server();
    let client = server.client();
    let session = format!("/api/sessions/{}", client.hello.session);
    for (method, path) in
        [("GET", "/api/sessions"), ("GET", "/metrics"), ("DELETE", &*session), ("GET", "/api")]
    {
        for authorization in [
            String::new(),
            bearer("some-key-0123456789"),
            bearer(&OLD[1..]),
            bearer(&format!("{OLD}{NEW}")),
            bearer(""),
            format!("Authorization: Basic {OLD}\r\n"),
            format!("Authorization: {OLD}\r\n"),
        ] {
            let answer = ask(&server, method, path, &authorization);
            answer.assert_error(401, "unauthorized");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{path} {authorization}");
        }
    }
    // Each request with a wrong key counts, but none without a key.
    let host = server.admin.address();
    let metrics = server.admin.request_with("GET", "/metrics", &format!("Host: {host}\r\n{}", bearer(NEW)));
    let refused = "encke_refusals_total{reason=\"api_key\"} 24";
    assert!(metrics.body.lines().any(|line| line == refused), "{}", metrics.body);
    // Variants of a path do not bypass the authorization.
    for path in ["//api/sessions", "///metrics", "/./api/sessions", "/%61pi/sessions", "/API/sessions"] {
        assert_eq!(ask(&server, "GET", path, "").status, 404, "{path}");
    }
    let absolute = format!("http://{}/api/sessions", server.admin.address());
    assert_eq!(ask(&server, "GET", &absolute, "").status, 401);
    // Both keys are accepted, and health checks need none.
    for key in [OLD, NEW] {
        for path in ["/api/timers", "/metrics"] {
            assert_eq!(ask(&server, "GET", path, &bearer(key)).status, 200, "{path}");
        }
    }
    for path in ["/healthz", "/readyz"] {
        for authorization in [String::new(), bearer("wrong")] {
            let answer = ask(&server, "GET", path, &authorization);
            assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("ok")));
        }
    }
    // A key does not permit requests from other origins: the visitor's browser may know the key. Browsers
    // never add the key by themselves, so a request with a key may use any `Host`.
    let foreign = format!("{}Origin: http://evil.example\r\n", bearer(NEW));
    assert_eq!(ask(&server, "GET", "/api/sessions", &foreign).status, 403);
    for (key, status) in [(String::new(), 401), (bearer(NEW), 200)] {
        let headers = format!("Host: encke:8001\r\n{key}");
        assert_eq!(server.admin.request_with("GET", "/api/sessions", &headers).status, status);
    }
    assert_eq!(ask(&server, "GET", &session, &bearer(NEW)).json()["phase"], "attached");
    assert_eq!(ask(&server, "DELETE", &session, &bearer(NEW)).status, 204);
}

/// Returns the audit records of a path.
fn actions(server: &RunningServer, path: &str) -> Vec<Value> {
    let mut records = server.logs.records();
    records.retain(|it| it["message"] == "admin action" && it["path"] == path);
    records
}

/// Clients send a request and disconnect without waiting for the response. The server may not see the request
/// at all, but every action that it takes is logged.
#[test]
fn actions_are_logged_although_clients_do_not_wait() {
    const USERS: usize = 40;
    let keys = format!("auth.api_keys=[\"{OLD}\"]");
    let server = RunningServer::with_tokens(&[&keys]);
    let users: Vec<_> = (0..USERS).map(|number| format!("user-{number}")).collect();
    let clients: Vec<_> = users.iter().map(|user| server.client_of(user)).collect();
    for user in &users {
        let host = server.admin.address();
        let head = format!("DELETE /api/users/{user} HTTP/1.1\r\nHost: {host}\r\n{}\r\n", bearer(OLD));
        let mut socket = TcpStream::connect(host).expect("the listener accepts");
        socket.write_all(head.as_bytes()).expect("the listener reads");
    }
    let admin = server.admin.with_key(OLD);
    until("the log has exactly the actions taken", || {
        let is_logged = |user: &String| !actions(&server, &format!("/api/users/{user}")).is_empty();
        let logged: Vec<bool> = users.iter().map(is_logged).collect();
        let done: Vec<bool> =
            clients.iter().map(|client| admin.phase(&client.hello.session).is_none()).collect();
        logged == done && done.contains(&true)
    });
}

/// Publishes are logged only at level debug: there may be thousands per second.
#[test]
fn log_filter_selects_the_logged_actions() {
    for (filter, publishes, ends) in
        [("info", 0, 1), ("warn,audit=debug", 1, 1), ("warn,audit=info", 0, 1), ("warn", 0, 0)]
    {
        let server = RunningServer::with(&[&format!("log.level={filter}")]);
        let client = server.client();
        server.admin.publish("news", 1);
        let session = format!("/api/sessions/{}", client.hello.session);
        assert_eq!(server.admin.request("DELETE", &session).status, 204);
        // Log lines are in the order of the actions, so a line for the publish would precede the line for the
        // session.
        until(format!("{filter}: {publishes} and {ends}"), || {
            ["/api/publish", &session].map(|path| actions(&server, path).len()) == [publishes, ends]
        });
    }
}

/// Keys can be configured with a name and a list of scopes.
#[test]
fn key_is_limited_to_its_scopes_and_named_in_the_log() {
    const READER: &str = "reader-0123456789";
    const CI: &str = "ci-key-0123456789";
    const SUPPORT: &str = "support-0123456789";
    const WRONG: &str = "wrong-0123456789";
    let key =
        |name: &str, key: &str, scopes: &str| format!("{{name=\"{name}\",key=\"{key}\",scopes=[{scopes}]}}");
    let keys = [
        key("reader", READER, "\"read\""),
        key("ci", CI, "\"publish\",\"read\""),
        key("support", SUPPORT, "\"sessions\""),
        format!("\"{OLD}\""),
    ];
    let server = RunningServer::with(&[&format!("auth.api_keys=[{}]", keys.join(",")), "log.level=debug"]);
    let client = server.client();
    let session = format!("/api/sessions/{}", client.hello.session);
    let publish = |key: &'static str| {
        server.admin.with_key(key).post("/api/publish", r#"{"channel":"news","data":1}"#).status
    };
    for (key, may_read, may_publish) in
        [(READER, true, false), (CI, true, true), (SUPPORT, false, false), (OLD, true, true)]
    {
        for path in ["/api/timers", "/metrics", &*session] {
            let answer = ask(&server, "GET", path, &bearer(key));
            assert_eq!(answer.status, if may_read { 200 } else { 403 }, "{key} {path}");
        }
        assert_eq!(publish(key), if may_publish { 200 } else { 403 }, "{key}");
    }
    assert_eq!(publish(WRONG), 401);
    let disconnect = format!("{session}/disconnect");
    let refused = ask(&server, "POST", &disconnect, &bearer(CI));
    refused.assert_error(403, "forbidden");
    assert!(refused.body.contains("lacks the scope sessions"), "{}", refused.body);
    let phase = ask(&server, "GET", &session, &bearer(OLD)).json()["phase"].take();
    assert_eq!(phase, "attached", "the session is unchanged");
    assert_eq!(ask(&server, "DELETE", &session, &bearer(SUPPORT)).status, 204);
    until("both actions are in the log", || {
        let fields = |action: &Value| [&action["key"], &action["status"]].map(Clone::clone);
        let logged =
            [&disconnect, &session].map(|path| actions(&server, path).iter().map(fields).collect::<Vec<_>>());
        logged == [[[json!("ci"), json!(403)]], [[json!("support"), json!(204)]]]
    });
    for key in [READER, CI, SUPPORT, OLD, WRONG] {
        assert!(!server.logs.text().contains(key), "keys are not logged");
    }
}
