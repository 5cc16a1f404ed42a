use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use encke_tests::bayeux::{BayeuxPolling, BayeuxWebSocket, publish};
use encke_tests::poll::PollClient;
use encke_tests::waiting::{eventually, until};
use encke_tests::{Backend, BackendReply};
use serde_json::{Value, json};

use super::{SECRET, alice, asking, error_code, reply};

fn call(method: &str, data: impl Into<Value>) -> Value {
    json!({"id": 7, "call": {"method": method, "data": data.into()}})
}

#[test]
fn a_call_is_answered_by_the_backend() {
    let backend = Backend::start();
    backend.reply_with(|asked| {
        let sum: i64 =
            asked.json()["data"].as_array().expect("a list").iter().filter_map(Value::as_i64).sum();
        BackendReply::json(json!({"data": {"sum": sum}}))
    });
    let server = asking(&backend, &["call"]).set(&format!("backend.secret={SECRET}")).start();
    let mut client = alice(&server);
    let answer = reply(&mut client, &call("add", json!([1, 2, 3])));
    assert_eq!(answer, json!({"ok": {"data": {"sum": 6}}}));
    let [asked] = &*backend.requests() else { panic!("one question") };
    let question =
        json!({"session": client.hello.session, "user": "alice", "method": "add", "data": [1, 2, 3]});
    assert_eq!((&*asked.path, asked.json()), ("/call", question));
    assert!(asked.header("webhook-signature").is_some_and(|signature| signature.starts_with("v1,")));
    assert_eq!(
        server.admin.metrics().value(r#"encke_backend_requests_total{hook="call",outcome="answered"}"#),
        1.0
    );
}

#[test]
fn what_the_backend_says_is_passed_on() {
    let backend = Backend::start();
    let server = asking(&backend, &["call"]).start();
    let mut client = alice(&server);
    let own_code = BackendReply::json(json!({"error": {"code": "no_such_room", "message": "there is no room 7"}}));
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
    // None of these was a failure: it is asked as ever.
    assert_eq!(backend.requests().len(), 7);
}

#[test]
fn calls_that_are_wrong_ask_nobody() {
    let backend = Backend::start();
    let server = asking(&backend, &["call"]).set("limits.max_message=128KiB").start();
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

    let nobody = asking(&backend, &["publish"]).start();
    assert_eq!(error_code(&reply(&mut alice(&nobody), &call("x", 1))), "unknown_command");
}

#[test]
fn replies_keep_the_order_of_the_commands_and_calls_are_under_way_together() {
    const CALLS: usize = 10;
    let backend = Backend::start();
    // The first is answered once all have been asked.
    let asked = Arc::new(AtomicUsize::new(0));
    backend.reply_with(move |call| {
        asked.fetch_add(1, Ordering::Relaxed);
        let data = call.json()["data"].clone();
        if data == 0 {
            until("all are asked", || asked.load(Ordering::Relaxed) == CALLS);
        }
        BackendReply::json(json!({"data": data}))
    });
    let server =
        asking(&backend, &["call"]).set("backend.timeout=20s").set("limits.handshake_timeout=30s").start();
    let mut client = alice(&server);
    for number in 0..CALLS {
        client.send(&json!({"id": number, "call": {"method": "echo", "data": number}}).to_string());
    }
    for number in 0..CALLS {
        assert_eq!(client.object()["reply"], json!({"id": number, "ok": {"data": number}}));
    }
}

#[test]
fn too_many_questions_of_one_session_are_refused() {
    let backend = Backend::start();
    backend.reply_with(|asked| {
        let holds = asked.json()["data"] == "hold";
        BackendReply::status(200).delayed_by(Duration::from_secs(if holds { 3 } else { 0 }))
    });
    let server = asking(&backend, &["call"]).set("backend.max_in_flight_per_session=3").start();
    let (mut client, mut other) = (alice(&server), alice(&server));
    for _ in 0..5 {
        client.send(&call("x", "hold").to_string());
    }
    until("three are asked", || backend.requests().len() == 3);
    assert_eq!(reply(&mut other, &call("x", 1)), json!({"ok": {"data": null}}), "others are not concerned");
    let codes: Vec<_> = (0..5).map(|_| client.object()["reply"]["error"]["code"].clone()).collect();
    assert_eq!(codes, [json!(null), json!(null), json!(null), json!("overloaded"), json!("overloaded")]);
    until("none is under way", || server.admin.metrics().value("encke_backend_in_flight") == 0.0);
}

#[test]
fn a_backend_that_does_not_answer_is_a_closed_door_and_left_alone() {
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_secs(60)));
    let server = asking(&backend, &["call"]).set("backend.timeout=200ms").start();
    let mut client = alice(&server);
    for _ in 0..5 {
        assert_eq!(error_code(&reply(&mut client, &call("x", 1))), "timeout");
    }
    server.logs.await_line("the backend fails");
    let open = || server.admin.metrics().value(r#"encke_backend_circuit_open{hook="call"}"#);
    assert_eq!(open(), 1.0);
    let asked = backend.requests().len();
    assert_eq!(error_code(&reply(&mut client, &call("x", 1))), "unavailable");
    assert_eq!(backend.requests().len(), asked, "it is not asked");
    backend.reply_with_status(200);
    // After a pause of a second, which is longer if a question came too early.
    eventually("it is asked again", || {
        let answer = reply(&mut client, &call("x", 1));
        (answer == json!({"ok": {"data": null}})).then_some(())
    });
    assert_eq!(open(), 0.0);
    server.logs.await_line("backend recovered");
}

#[test]
fn failures_of_all_kinds_are_unavailable() {
    let backend = Backend::start();
    let server = asking(&backend, &["call"]).start();
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
fn a_service_of_bayeux_is_a_method() {
    let backend = Backend::start();
    backend.reply_with(|asked| match asked.json()["method"].as_str() {
        Some("/service/add") => BackendReply::json(json!({"data": 3})),
        _ => BackendReply::json(json!({"error": {"code": "no_method", "message": "there is no such method"}})),
    });
    let server = encke_tests::Launch::with(&[&format!("backend.call={}", backend.url("/call"))]).start();
    let (mut polls, mut socket) = (BayeuxPolling::connect(server.public), BayeuxWebSocket::connect(server.public));
    let (by_poll, by_socket) = (polls.open(&[]), socket.open(&[]));
    for (came, of) in [
        (polls.request(&publish(&by_poll, "/service/add", json!([1, 2]))), "a poll"),
        (socket.request(&publish(&by_socket, "/service/add", json!([1, 2]))), "a WebSocket"),
    ] {
        let answer = json!({"channel": "/service/add", "id": "p", "data": 3});
        let reply = json!({"channel": "/service/add", "id": "p", "successful": true});
        assert_eq!(came, [answer, reply], "{of}");
    }
    let reply = polls.reply(&publish(&by_poll, "/service/nothing", 1));
    assert_eq!(reply["error"], "400:/service/nothing:there is no such method");
}

/// A session that is polled calls by a request.
#[test]
fn a_request_calls_too() {
    let backend = Backend::start();
    backend.reply_with(|asked| BackendReply::json(json!({"data": asked.json()["data"]})));
    let server = asking(&backend, &["call"]).start();
    let client = alice(&server);
    let mut requests = PollClient::connect(server.public);
    let path = format!("resume={}", client.hello.resume);
    let answer = requests.post(&path, &json!([call("echo", 1), call("echo", 2)]).to_string());
    let expected = [1, 2].map(|data| json!({"reply": {"id": 7, "ok": {"data": data}}}));
    assert_eq!(answer.json(), json!(expected));
}

/// The commands of one request are carried out one after the other, however long the backend takes for each.
#[test]
fn a_request_is_not_cut_while_the_backend_is_asked() {
    const CALLS: usize = 4;
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_millis(500)));
    let launch = asking(&backend, &["call"]).set("backend.timeout=900ms");
    let server = launch.set("limits.handshake_timeout=1s").start();
    let client = alice(&server);
    let mut requests = PollClient::connect(server.public);
    let calls: Vec<_> = (0..CALLS).map(|number| call("x", number)).collect();
    let answer = requests.post(&format!("resume={}", client.hello.resume), &json!(calls).to_string());
    assert_eq!(answer.json().as_array().map(Vec::len), Some(CALLS), "{answer:?}");
}

/// A body that ends with its connection may be part of something, and an empty one of anything.
#[test]
fn an_answer_that_does_not_say_how_long_it_is_is_no_yes() {
    let backend = Backend::start();
    let server = asking(&backend, &["call"]).start();
    let mut client = alice(&server);
    backend.reply_with(|_| BackendReply { status: BackendReply::TRUNCATED, ..BackendReply::status(200) });
    assert_eq!(error_code(&reply(&mut client, &call("x", 1))), "unavailable");
    backend.reply_with_status(204);
    assert_eq!(reply(&mut client, &call("x", 1)), json!({"ok": {"data": null}}));
}
