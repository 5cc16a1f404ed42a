use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use encke_tests::tokens::token;
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, Client, RunningServer};
use serde_json::{Value, json};

use super::launch_with_hooks;

const HOOKS: [&str; 4] = ["connect", "subscribe", "publish", "call"];
const BACKEND_FAILED: u16 = 4009;

fn publish_and_call(data: &str) -> [Value; 2] {
    [
        json!({"id": 1, "publish": {"channel": data, "data": data}}),
        json!({"id": 2, "call": {"method": "x", "data": data}}),
    ]
}

/// Connects a client of this user that uses each hook, and asserts that nothing is refused.
#[track_caller]
fn assert_served(server: &RunningServer, user: &str) {
    let mut client = server.client_of(user);
    let subscribe = json!({"id": 0, "subscribe": {"channel": "news"}});
    for command in [subscribe].into_iter().chain(publish_and_call("fine")) {
        let reply = client.request(&command);
        assert!(reply["ok"].is_object(), "{reply}");
    }
}

#[test]
fn failures_of_one_client_refuse_no_other() {
    let backend = Backend::start();
    backend.reply_with(|request| {
        let body = request.json();
        let fails = body["user"] == "eve" || body["channel"] == "bad" || body["data"] == "bad";
        if fails { BackendReply::status(500) } else { BackendReply::approval_of(request) }
    });
    let server = launch_with_hooks(&backend, &HOOKS).start();
    let mut client = server.client_of("mallory");
    for round in 0..3 {
        for _ in 0..6 {
            let connect = format!("token={}", token("eve", json!({})));
            assert_eq!(Client::refusal_code(server.public, &connect), BACKEND_FAILED);
            let subscribe = json!({"id": 0, "subscribe": {"channel": "bad"}});
            for command in [subscribe].into_iter().chain(publish_and_call("bad")) {
                client.assert_refused(command, "unavailable");
            }
        }
        for user in ["alice", "bob"] {
            assert_served(&server, &format!("{user}{round}"));
        }
    }
}

#[test]
fn slow_calls_of_some_clients_refuse_no_other() {
    const SESSIONS: usize = 18;
    const CALLS: usize = 10;
    let backend = Backend::start();
    let released = Arc::new(AtomicBool::new(false));
    let is_released = Arc::clone(&released);
    backend.reply_with(move |request| {
        if request.json()["data"] == "slow" {
            until("the calls are released", || is_released.load(Ordering::Acquire));
        }
        BackendReply::approval_of(request)
    });
    let server = launch_with_hooks(&backend, &HOOKS)
        .set("backend.max_in_flight=64")
        .set("backend.timeout=20s")
        .set("limits.handshake_timeout=30s")
        .start();
    let users = (0..SESSIONS).map(|number| format!("user{}", number % 3));
    let mut clients: Vec<_> = users.map(|user| server.client_of(&user)).collect();
    for client in &mut clients {
        (0..CALLS).for_each(|_| client.send(&publish_and_call("slow")[1]));
    }
    let refused = r#"encke_backend_requests_total{hook="call",outcome="overloaded"}"#;
    until("each call is in flight or refused", || {
        let metrics = server.admin.metrics();
        metrics.value(refused) + metrics.value("encke_backend_in_flight") == (SESSIONS * CALLS) as f64
    });
    for user in ["alice", "alice", "bob"] {
        assert_served(&server, user);
    }
    released.store(true, Ordering::Release);
}
