use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use encke_tests::bayeux::{BayeuxPolling, BayeuxWebSocket, publish};
use encke_tests::poll::PollClient;
use encke_tests::tokens::token;
use encke_tests::waiting::{eventually, until};
use encke_tests::{Backend, BackendReply, BackendRequest};
use serde_json::{Value, json};

use super::{error, launch_with_hooks, launch_without_keys, reply};
use crate::webhooks::SECRET;

fn call(method: &str, data: impl Into<Value>) -> Value {
    json!({"id": 7, "call": {"method": method, "data": data.into()}})
}

/// Returns a reply with the data of the request.
fn echo(request: &BackendRequest) -> BackendReply {
    BackendReply::json(json!({"data": request.json()["data"]}))
}

#[test]
fn a_call_is_answered_by_the_backend() {
    let backend = Backend::start();
    backend.reply_with(echo);
    let server = launch_with_hooks(&backend, &["call"])
        .set(&format!("backend.secret={SECRET}"))
        .set("limits.max_message=128KiB")
        .start();
    let mut client = server.client_of("alice");
    let answer = reply(&mut client, &call("add", json!([1, 2, 3])));
    assert_eq!(answer, json!({"ok": {"data": [1, 2, 3]}}));
    let [request] = &*backend.requests() else { panic!("one request") };
    let expected =
        json!({"session": client.hello.session, "user": "alice", "method": "add", "data": [1, 2, 3]});
    assert_eq!((&*request.path, request.json()), ("/call", expected));
    assert!(request.header("webhook-signature").is_some_and(|signature| signature.starts_with("v1,")));
    let answered = r#"encke_backend_requests_total{hook="call",outcome="answered"}"#;
    assert_eq!(server.admin.metrics().value(answered), 1.0);
    // Invalid calls do not reach the backend.
    for (command, code) in [
        (json!({"id": 7, "call": {"data": 1}}), "malformed"),
        (call("", 1), "malformed"),
        (call(&"m".repeat(256), 1), "malformed"),
        (json!({"id": 7, "call": {"method": "x", "data": 1, "more": 2}}), "malformed"),
        (call("x", "x".repeat(70_000)), "too_large"),
    ] {
        client.assert_refused(command, code);
    }
    let without_calls = launch_with_hooks(&backend, &["publish"]).start();
    without_calls.client_of("alice").assert_refused(call("x", 1), "unknown_command");
    assert_eq!(backend.requests().len(), 1);
}

/// An answer without an error resets the count of consecutive failures, so all requests of this test are sent.
#[test]
fn answer_of_the_backend_is_passed_on() {
    let backend = Backend::start();
    let server = launch_with_hooks(&backend, &["call"]).start();
    let mut client = server.client_of("alice");
    let deep = format!(r#"{{"data":{}1{}}}"#, "[".repeat(80), "]".repeat(80));
    let long = format!(r#"{{"data":"{}"}}"#, "x".repeat(70_000));
    let no_room = error("no_such_room", "there is no room 7");
    let ok = |data: Value| json!({"ok": {"data": data}});
    let (failed, invalid) = (json!("unavailable"), json!("backend_error"));
    let table = [
        (BackendReply::status(500), failed.clone()),
        (BackendReply::status(0), failed.clone()),
        (BackendReply::json("no JSON"), invalid.clone()),
        (BackendReply::json(r#"{"data":null}"#), ok(Value::Null)),
        (BackendReply::status(200), invalid.clone()),
        (BackendReply::status(204), invalid.clone()),
        (BackendReply::json("{}"), invalid.clone()),
        (BackendReply::json(r#"{"data": [1,  2]}"#), ok(json!([1, 2]))),
        (BackendReply::json(&no_room), no_room),
        (BackendReply::json(r#"{"error":{}}"#), error("forbidden", "denied by the backend")),
        (BackendReply::status(403), error("forbidden", "the backend answered 403 Forbidden")),
        (
            BackendReply { status: 422, ..BackendReply::json(r#"{"error":{"code":"bad"}}"#) },
            error("bad", "denied by the backend"),
        ),
        (
            BackendReply { status: 403, ..BackendReply::json(error(&"x".repeat(300), "no")) },
            error(
                "forbidden",
                "the backend answered 403 Forbidden, but the error's `code` has more than 64 bytes",
            ),
        ),
        (BackendReply::json(deep), invalid.clone()),
        (BackendReply::json(long), failed.clone()),
        (BackendReply::status(BackendReply::TRUNCATED), invalid),
    ];
    let requests = table.len();
    for (answer, expected) in table {
        let sent = format!("{answer:.200?}");
        backend.reply_with(move |_| answer.clone());
        let received = reply(&mut client, &call("x", Value::Null));
        let is_expected = received == expected || received["error"]["code"] == expected;
        assert!(is_expected, "{sent}: {received}");
    }
    assert_eq!(backend.requests().len(), requests);
    server.logs.await_line("`data`: data is nested deeper than 64 levels");
}

/// The backend answers all calls of a session at once, regardless of their order.
#[test]
fn concurrent_calls_are_limited_and_replies_keep_their_order() {
    const LIMIT: usize = 10;
    let backend = Backend::start();
    let released = Arc::new(AtomicBool::new(false));
    let is_released = Arc::clone(&released);
    backend.reply_with(move |request| {
        if request.json()["data"] != "other" {
            until("the calls are released", || is_released.load(Ordering::Acquire));
        }
        echo(request)
    });
    let server = launch_with_hooks(&backend, &["call"])
        .set(&format!("backend.max_in_flight_per_session={LIMIT}"))
        .set("backend.timeout=20s")
        .set("limits.handshake_timeout=30s")
        .start();
    let (mut client, mut other) = (server.client_of("alice"), server.client_of("alice"));
    for number in 0..LIMIT + 2 {
        client.send(json!({"id": number, "call": {"method": "echo", "data": number}}));
    }
    let refused = r#"encke_backend_requests_total{hook="call",outcome="overloaded"}"#;
    until("two calls are refused", || server.admin.metrics().value(refused) == 2.0);
    until("the backend has the others", || backend.requests().len() == LIMIT);
    let unaffected = reply(&mut other, &call("x", "other"));
    assert_eq!(unaffected, json!({"ok": {"data": "other"}}), "another session");
    released.store(true, Ordering::Release);
    for number in 0..LIMIT {
        assert_eq!(client.object()["reply"], json!({"id": number, "ok": {"data": number}}));
    }
    for number in LIMIT..LIMIT + 2 {
        let reply = client.object()["reply"].take();
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(number), &json!("overloaded")));
    }
    until("no request is in flight", || server.admin.metrics().value("encke_backend_in_flight") == 0.0);
}

#[test]
fn calls_fail_without_a_request_while_the_backend_does_not_answer() {
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_secs(60)));
    let server = launch_with_hooks(&backend, &["call"]).set("backend.timeout=200ms").start();
    let mut client = server.client_of("alice");
    for _ in 0..5 {
        client.assert_refused(call("x", 1), "timeout");
    }
    server.logs.await_line("the circuit breaker is open for the clients whose requests fail");
    let open = || server.admin.metrics().value(r#"encke_backend_circuit_open{hook="call"}"#);
    assert_eq!(open(), 0.0, "the breaker is open for this client only");
    for other in ["bob", "carol"] {
        server.client_of(other).assert_refused(call("x", 1), "timeout");
    }
    assert_eq!(open(), 1.0);
    server.logs.await_line("the circuit breaker is open for all clients");
    let before = backend.requests().len();
    client.assert_refused(call("x", 1), "unavailable");
    assert_eq!(backend.requests().len(), before, "the backend is not called");
    backend.reply_with(BackendReply::approval_of);
    // The server calls the backend again after a pause of a second, which doubles if a trial request fails.
    eventually("the backend is called again", || {
        let answer = reply(&mut client, &call("x", 1));
        (answer == json!({"ok": {"data": null}})).then_some(())
    });
    assert_eq!(open(), 0.0);
    server.logs.await_line("backend recovered");
}

#[test]
fn bayeux_service_channel_is_a_method() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["method"].as_str() {
        Some("/service/add") => BackendReply::json(json!({"data": 3})),
        _ => BackendReply::json(error("no_method", "there is no such method")),
    });
    let server = launch_without_keys(&backend, &["call"]).start();
    let (mut polls, mut socket) =
        (BayeuxPolling::connect(server.public), BayeuxWebSocket::connect(server.public));
    let (poll_id, socket_id) = (polls.open(&[]), socket.open(&[]));
    for (received, of) in [
        (polls.request(&publish(&poll_id, "/service/add", json!([1, 2]))), "a poll"),
        (socket.request(&publish(&socket_id, "/service/add", json!([1, 2]))), "a WebSocket"),
    ] {
        let answer = json!({"channel": "/service/add", "id": "p", "data": 3});
        let reply = json!({"channel": "/service/add", "id": "p", "successful": true});
        assert_eq!(received, [answer, reply], "{of}");
    }
    let reply = polls.reply(&publish(&poll_id, "/service/nothing", 1));
    assert_eq!(reply["error"], "400:/service/nothing:there is no such method");
}

/// A session that uses polls sends its calls in HTTP requests. The commands of one request are executed one
/// after the other, and the request is not closed, regardless of how long the backend takes for each.
#[test]
fn calls_in_a_request_are_answered() {
    let backend = Backend::start();
    backend.reply_with(|request| echo(request).delayed_by(Duration::from_millis(1_500)));
    let launch = launch_with_hooks(&backend, &["call"]).set("backend.timeout=3900ms");
    let server = launch.set("limits.handshake_timeout=4s").start();
    let client = server.client_of("alice");
    let mut requests = PollClient::connect(server.public);
    let calls = [1, 2, 3].map(|data| call("echo", data));
    let query = format!("resume={}&token={}", client.hello.resume, token("alice", json!({})));
    let answer = requests.post(&query, json!(calls));
    let expected = [1, 2, 3].map(|data| json!({"reply": {"id": 7, "ok": {"data": data}}}));
    assert_eq!(answer.json(), json!(expected));
}
