use std::io::Write;
use std::net::TcpStream;

use encke_tests::waiting::until;
use encke_tests::{Client, HttpResponse, Launch, RunningServer, tokens};
use serde_json::json;

const OLD: &str = "old-key-0123456789";
const NEW: &str = "new-key-0123456789";

/// Starts a server in the middle of a key rotation: it accepts both keys.
fn server() -> RunningServer {
    Launch::default().set(&format!("auth.api_keys=[\"{OLD}\", \"{NEW}\"]")).start()
}

fn ask(server: &RunningServer, method: &str, path: &str, authorization: &str) -> HttpResponse {
    let host = server.admin.address();
    server.admin.request_with(method, path, &format!("Host: {host}\r\n{authorization}"))
}

fn bearer(key: &str) -> String {
    format!("Authorization: Bearer {key}\r\n")
}

#[test]
fn requests_without_a_valid_key_are_unauthorized() {
    let server = server();
    let client = server.client();
    let session = format!("/api/sessions/{}", client.hello.session);
    for (method, path) in [
        ("GET", "/api/sessions"),
        ("GET", "/api/timers"),
        ("GET", "/metrics"),
        ("DELETE", &*session),
        ("GET", "/api"),
    ] {
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
            assert_eq!(
                (answer.status, &*answer.error_code()),
                (401, "unauthorized"),
                "{path} {authorization}"
            );
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(
        ask(&server, "GET", &session, &bearer(NEW)).json()["phase"],
        "attached",
        "the session is unchanged"
    );
}

#[test]
fn both_keys_of_a_rotation_are_accepted() {
    let server = server();
    for key in [OLD, NEW] {
        for path in ["/api/sessions", "/api/timers", "/metrics"] {
            assert_eq!(ask(&server, "GET", path, &bearer(key)).status, 200, "{path}");
        }
    }
    let client = server.client();
    let session = format!("/api/sessions/{}", client.hello.session);
    assert_eq!(ask(&server, "DELETE", &session, &bearer(NEW)).status, 204);
}

#[test]
fn health_checks_need_no_key() {
    let server = server();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.admin.get(path).status, 200);
        assert_eq!(ask(&server, "GET", path, &bearer("wrong")).status, 200);
    }
    server.assert_healthy();
}

/// A key does not permit requests from other origins: the visitor's browser may know the key.
#[test]
fn cross_origin_requests_with_a_key_are_rejected() {
    let server = server();
    let authorization = format!("{}Origin: http://evil.example\r\n", bearer(NEW));
    assert_eq!(ask(&server, "GET", "/api/sessions", &authorization).status, 403);
    // Browsers never add the key by themselves, so a request with a key may use any `Host`.
    let by_name = |headers: &str| {
        server.admin.request_with("GET", "/api/sessions", &format!("Host: encke:8001\r\n{headers}"))
    };
    assert_eq!((by_name("").status, by_name(&bearer(NEW)).status), (401, 200));
}

#[test]
fn path_variants_do_not_bypass_authorization() {
    let server = server();
    for path in ["//api/sessions", "///metrics", "/./api/sessions", "/%61pi/sessions", "/API/sessions"] {
        assert_eq!(ask(&server, "GET", path, "").status, 404, "{path}");
    }
    let absolute = format!("http://{}/api/sessions", server.admin.address());
    assert_eq!(ask(&server, "GET", &absolute, "").status, 401);
}

#[test]
fn keys_are_not_logged() {
    let server = Launch::default().set(&format!("auth.api_keys=[\"{OLD}\"]")).set("log.level=debug").start();
    assert_eq!(ask(&server, "GET", "/api/sessions", &bearer(OLD)).status, 200);
    assert_eq!(ask(&server, "GET", "/api/sessions", &bearer(NEW)).status, 401);
    server.logs.await_line("serving");
    assert!(!server.logs.text().contains("key-0123456789"), "{}", server.logs.text());
}

/// Clients send a request and disconnect without waiting for the response. The server may not see the request
/// at all, but every action that it takes is logged.
#[test]
fn actions_are_logged_although_clients_do_not_wait() {
    const USERS: usize = 40;
    let server = Launch::default()
        .set(&format!("auth.api_keys=[\"{OLD}\"]"))
        .set(&format!("auth.secret={}", tokens::SECRET))
        .start();
    let token = |user: &str| tokens::sign(&json!({"sub": user, "iat": 1}), tokens::SECRET);
    let connect = |user: &str| Client::connect(server.public, &format!("token={}", token(user)));
    let users: Vec<_> = (0..USERS).map(|number| format!("user-{number}")).collect();
    let clients: Vec<_> = users.iter().map(|user| connect(user)).collect();
    for user in &users {
        let host = server.admin.address();
        let head = format!("DELETE /api/users/{user} HTTP/1.1\r\nHost: {host}\r\n{}\r\n", bearer(OLD));
        let mut socket = TcpStream::connect(host).expect("the listener accepts");
        socket.write_all(head.as_bytes()).expect("the listener reads");
    }
    let admin = server.admin.with_key(OLD);
    until("the log has exactly the actions taken", || {
        let records = server.logs.records();
        let logged: Vec<bool> = users
            .iter()
            .map(|user| {
                let path = format!("/api/users/{user}");
                records.iter().any(|action| action["message"] == "admin action" && action["path"] == *path)
            })
            .collect();
        let done =
            |client: &Client| admin.get(&format!("/api/sessions/{}", client.hello.session)).status == 404;
        let done: Vec<bool> = clients.iter().map(done).collect();
        logged == done && done.contains(&true)
    });
}

/// Publishes are logged only at level debug: there may be thousands per second.
#[test]
fn log_filter_selects_the_logged_actions() {
    for (filter, publishes, ends) in
        [("info", 0, 1), ("warn,audit=debug", 1, 1), ("warn,audit=info", 0, 1), ("warn", 0, 0)]
    {
        let server = Launch::default().set(&format!("log.level={filter}")).start();
        let client = server.client();
        server.admin.publish("news", 1);
        let session = format!("/api/sessions/{}", client.hello.session);
        assert_eq!(server.admin.request("DELETE", &session).status, 204);
        until(format!("{filter}: {publishes} and {ends}"), || {
            let records = server.logs.records();
            let actions = |path: &str| {
                records
                    .iter()
                    .filter(|action| action["message"] == "admin action" && action["path"] == path)
                    .count()
            };
            // Log lines are in the order of the actions, so a line for the publish would precede the line for
            // the session.
            (actions("/api/publish"), actions(&session)) == (publishes, ends)
        });
    }
}

/// Keys can be configured with a name and a list of scopes.
#[test]
fn key_is_limited_to_its_scopes_and_named_in_the_log() {
    const READER: &str = "reader-0123456789";
    const CI: &str = "ci-key-0123456789";
    const SUPPORT: &str = "support-0123456789";
    let key =
        |name: &str, key: &str, scopes: &str| format!("{{name=\"{name}\",key=\"{key}\",scopes=[{scopes}]}}");
    let keys = [
        key("reader", READER, "\"read\""),
        key("ci", CI, "\"publish\",\"read\""),
        key("support", SUPPORT, "\"sessions\""),
        format!("\"{OLD}\""),
    ];
    let server = Launch::default().set(&format!("auth.api_keys=[{}]", keys.join(","))).start();
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
    let disconnect = format!("{session}/disconnect");
    let refused = ask(&server, "POST", &disconnect, &bearer(CI));
    assert_eq!((refused.status, &*refused.error_code()), (403, "forbidden"));
    assert!(refused.body.contains("lacks the scope sessions"), "{}", refused.body);
    assert_eq!(
        ask(&server, "GET", &session, &bearer(OLD)).json()["phase"],
        "attached",
        "the session is unchanged"
    );
    assert_eq!(ask(&server, "DELETE", &session, &bearer(SUPPORT)).status, 204);
    until("both actions are in the log", || {
        let records = server.logs.records();
        let actions = records.iter().filter(|record| record["message"] == "admin action");
        let actions: Vec<_> = actions
            .map(|action| (action["key"].clone(), action["method"].clone(), action["status"].clone()))
            .collect();
        actions == [("ci".into(), "POST".into(), 403.into()), ("support".into(), "DELETE".into(), 204.into())]
    });
    for key in [READER, CI, SUPPORT, OLD] {
        assert!(!server.logs.text().contains(key), "keys are not logged");
    }
}
