use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use encke_tests::bayeux::{BayeuxPolling, BayeuxWebSocket, publish};
use encke_tests::poll::PollClient;
use encke_tests::waiting::{eventually, until};
use encke_tests::{Backend, BackendReply};
use serde_json::{Value, json};

use super::{SECRET, alice, error_code, launch_with_hooks, reply};

fn call(method: &str, data: impl Into<Value>) -> Value {
    json!({"id": 7, "call": {"method": method, "data": data.into()}})
}

#[test]
fn a_call_is_answered_by_the_backend() {
    let backend = Backend::start();
    backend.reply_with(|request| {
        let sum: i64 =
            request.json()["data"].as_array().expect("a list").iter().filter_map(Value::as_i64).sum();
        BackendReply::json(json!({"data": {"sum": sum}}))
    });
    let server = launch_with_hooks(&backend, &["call"]).set(&format!("backend.secret={SECRET}")).start();
    let mut client = alice(&server);
    let answer = reply(&mut client, &call("add", json!([1, 2, 3])));
    assert_eq!(answer, json!({"ok": {"data": {"sum": 6}}}));
    let [request] = &*backend.requests() else { panic!("one request") };
    let expected =
        json!({"session": client.hello.session, "user": "alice", "method": "add", "data": [1, 2, 3]});
    assert_eq!((&*request.path, request.json()), ("/call", expected));
    assert!(request.header("webhook-signature").is_some_and(|signature| signature.starts_with("v1,")));
    assert_eq!(
        server.admin.metrics().value(r#"encke_backend_requests_total{hook="call",outcome="answered"}"#),
        1.0
    );
}

#[test]
fn answer_of_the_backend_is_passed_on() {
    let backend = Backend::start();
    let server = launch_with_hooks(&backend, &["call"]).start();
    let mut client = alice(&server);
    let own_code =
        BackendReply::json(json!({"error": {"code": "no_such_room", "message": "there is no room 7"}}));
    let deep = format!(r#"{{"data":{}1{}}}"#, "[".repeat(80), "]".repeat(80));
    let table = [
        (BackendReply::status(200), json!({"ok": {"data": null}})),
        (BackendReply::json(r#"{"data": [1,  2]}"#), json!({"ok": {"data": [1, 2]}})),
        (own_code, json!({"error": {"code": "no_such_room", "message": "there is no room 7"}})),
        (
            BackendReply::json(r#"{"error":{}}"#),
            json!({"error": {"code": "forbidden", "message": "denied by the backend"}}),
        ),
        (
            BackendReply::status(403),
            json!({"error": {"code": "forbidden", "message": "the backend answered 403 Forbidden"}}),
        ),
        (
            BackendReply { status: 422, ..BackendReply::json(r#"{"error":{"code":"bad"}}"#) },
            json!({"error": {"code": "bad", "message": "denied by the backend"}}),
        ),
        (
            BackendReply::json(deep),
            json!({"error": {"code": "unavailable", "message": "invalid answer from the backend: data is nested deeper than 64 levels"}}),
        ),
    ];
    for (answer, expected) in table {
        backend.reply_with(move |_| answer.clone());
        assert_eq!(reply(&mut client, &call("x", Value::Null)), expected);
    }
    // None of these responses counts as a failure, so the backend is called every time.
    assert_eq!(backend.requests().len(), 7);
}

#[test]
fn invalid_calls_do_not_reach_the_backend() {
    let backend = Backend::start();
    let server = launch_with_hooks(&backend, &["call"]).set("limits.max_message=128KiB").start();
    let mut client = alice(&server);
    let too_long = "x".repeat(70_000);
    for (command, code) in [
        (json!({"id": 7, "call": {"data": 1}}), "malformed"),
        (call("", 1), "malformed"),
        (call(&"m".repeat(256), 1), "malformed"),
        (json!({"id": 7, "call": {"method": "x", "data": 1, "more": 2}}), "malformed"),
        (call("x", too_long), "too_large"),
    ] {
        assert_eq!(error_code(&reply(&mut client, &command)), code);
    }
    assert_eq!(backend.requests().len(), 0);

    let without_calls = launch_with_hooks(&backend, &["publish"]).start();
    assert_eq!(error_code(&reply(&mut alice(&without_calls), &call("x", 1))), "unknown_command");
}

#[test]
fn calls_run_concurrently_and_replies_keep_their_order() {
    const CALLS: usize = 10;
    let backend = Backend::start();
    // The backend replies to the first call only after it has received all of them.
    let received = Arc::new(AtomicUsize::new(0));
    backend.reply_with(move |call| {
        received.fetch_add(1, Ordering::Relaxed);
        let data = call.json()["data"].clone();
        if data == 0 {
            until("the backend has all calls", || received.load(Ordering::Relaxed) == CALLS);
        }
        BackendReply::json(json!({"data": data}))
    });
    let server = launch_with_hooks(&backend, &["call"])
        .set("backend.timeout=20s")
        .set("limits.handshake_timeout=30s")
        .start();
    let mut client = alice(&server);
    for number in 0..CALLS {
        client.send(&json!({"id": number, "call": {"method": "echo", "data": number}}).to_string());
    }
    for number in 0..CALLS {
        assert_eq!(client.object()["reply"], json!({"id": number, "ok": {"data": number}}));
    }
}

#[test]
fn concurrent_calls_of_a_session_are_limited() {
    let backend = Backend::start();
    backend.reply_with(|request| {
        let holds = request.json()["data"] == "hold";
        BackendReply::status(200).delayed_by(Duration::from_secs(if holds { 3 } else { 0 }))
    });
    let server = launch_with_hooks(&backend, &["call"]).set("backend.max_in_flight_per_session=3").start();
    let (mut client, mut other) = (alice(&server), alice(&server));
    for _ in 0..5 {
        client.send(&call("x", "hold").to_string());
    }
    until("the backend has three calls", || backend.requests().len() == 3);
    assert_eq!(
        reply(&mut other, &call("x", 1)),
        json!({"ok": {"data": null}}),
        "other sessions are not affected"
    );
    let codes: Vec<_> = (0..5).map(|_| client.object()["reply"]["error"]["code"].clone()).collect();
    assert_eq!(codes, [json!(null), json!(null), json!(null), json!("overloaded"), json!("overloaded")]);
    until("no request is in flight", || server.admin.metrics().value("encke_backend_in_flight") == 0.0);
}

#[test]
fn calls_fail_without_a_request_while_the_backend_does_not_answer() {
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_secs(60)));
    let server = launch_with_hooks(&backend, &["call"]).set("backend.timeout=200ms").start();
    let mut client = alice(&server);
    for _ in 0..5 {
        assert_eq!(error_code(&reply(&mut client, &call("x", 1))), "timeout");
    }
    server.logs.await_line("backend is failing");
    let open = || server.admin.metrics().value(r#"encke_backend_circuit_open{hook="call"}"#);
    assert_eq!(open(), 1.0);
    let before = backend.requests().len();
    assert_eq!(error_code(&reply(&mut client, &call("x", 1))), "unavailable");
    assert_eq!(backend.requests().len(), before, "the backend is not called");
    backend.reply_with_status(200);
    // The server calls the backend again after a pause of a second, which doubles if a trial request fails.
    eventually("the backend is called again", || {
        let answer = reply(&mut client, &call("x", 1));
        (answer == json!({"ok": {"data": null}})).then_some(())
    });
    assert_eq!(open(), 0.0);
    server.logs.await_line("backend recovered");
}

#[test]
fn failures_of_all_kinds_are_unavailable() {
    let backend = Backend::start();
    let server = launch_with_hooks(&backend, &["call"]).start();
    let mut client = alice(&server);
    for answer in [
        BackendReply::status(500),
        BackendReply::status(0),
        BackendReply::json("no JSON"),
        BackendReply::json(format!(r#"{{"data":"{}"}}"#, "x".repeat(70_000))),
    ] {
        backend.reply_with(move |_| answer.clone());
        assert_eq!(error_code(&reply(&mut client, &call("x", 1))), "unavailable");
    }
}

#[test]
fn bayeux_service_channel_is_a_method() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["method"].as_str() {
        Some("/service/add") => BackendReply::json(json!({"data": 3})),
        _ => {
            BackendReply::json(json!({"error": {"code": "no_method", "message": "there is no such method"}}))
        }
    });
    let server = encke_tests::Launch::with(&[&format!("backend.call={}", backend.url("/call"))]).start();
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

/// A session that uses polls sends its calls in HTTP requests.
#[test]
fn call_in_a_request_is_answered() {
    let backend = Backend::start();
    backend.reply_with(|request| BackendReply::json(json!({"data": request.json()["data"]})));
    let server = launch_with_hooks(&backend, &["call"]).start();
    let client = alice(&server);
    let mut requests = PollClient::connect(server.public);
    let path = format!("resume={}", client.hello.resume);
    let answer = requests.post(&path, &json!([call("echo", 1), call("echo", 2)]).to_string());
    let expected = [1, 2].map(|data| json!({"reply": {"id": 7, "ok": {"data": data}}}));
    assert_eq!(answer.json(), json!(expected));
}

/// The commands of one request are executed one after the other, regardless of how long the backend takes for
/// each.
#[test]
fn request_is_not_closed_while_it_waits_for_the_backend() {
    const CALLS: usize = 4;
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_millis(500)));
    let launch = launch_with_hooks(&backend, &["call"]).set("backend.timeout=900ms");
    let server = launch.set("limits.handshake_timeout=1s").start();
    let client = alice(&server);
    let mut requests = PollClient::connect(server.public);
    let calls: Vec<_> = (0..CALLS).map(|number| call("x", number)).collect();
    let answer = requests.post(&format!("resume={}", client.hello.resume), &json!(calls).to_string());
    assert_eq!(answer.json().as_array().map(Vec::len), Some(CALLS), "{answer:?}");
}

/// A response body that is delimited by the end of its connection may be incomplete, even if it is empty.
#[test]
fn answer_without_a_length_is_not_an_approval() {
    let backend = Backend::start();
    let server = launch_with_hooks(&backend, &["call"]).start();
    let mut client = alice(&server);
    backend.reply_with(|_| BackendReply { status: BackendReply::TRUNCATED, ..BackendReply::status(200) });
    assert_eq!(error_code(&reply(&mut client, &call("x", 1))), "unavailable");
    backend.reply_with_status(204);
    assert_eq!(reply(&mut client, &call("x", 1)), json!({"ok": {"data": null}}));
}
