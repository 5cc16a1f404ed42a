use std::time::Duration;

use encke_tests::poll::PollClient;
use encke_tests::port::Port;
use encke_tests::tokens::token;
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, Client, RunningServer};
use serde_json::{Value, json};

use super::{error, launch_with_hooks, launch_without_keys};

fn subscribe(channel: &str) -> Value {
    json!({"id": 1, "subscribe": {"channel": channel}})
}

fn publish() -> Value {
    json!({"id": 2, "publish": {"channel": "news", "data": 1}})
}

fn call(method: &str) -> Value {
    json!({"id": 3, "call": {"method": method}})
}

/// Waits for this number of warnings about hooks. Returns the hook, the URL's path, the problem and the status of each.
fn warnings(server: &RunningServer, count: usize) -> Vec<(String, String, String, Option<u64>)> {
    let all = || {
        let mut records = server.logs.records();
        records.retain(|record| record["level"] == "WARN" && record["problem"].is_string());
        records
    };
    until("the problems are logged", || all().len() >= count);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let path = |url: &str| url.splitn(4, '/').nth(3).unwrap_or_default().to_owned();
    let warning = |it: &Value| {
        (text(&it["hook"]), path(&text(&it["url"])), text(&it["problem"]), it["status"].as_u64())
    };
    all().iter().map(warning).collect()
}

/// If a proxy answers 404 while the backend is being deployed, clients must be able to reconnect later.
#[test]
fn one_rule_decides_which_statuses_refuse_and_which_fail() {
    let backend = Backend::start();
    let server = launch_without_keys(&backend, &["connect", "subscribe", "publish", "call"]).start();
    let mut client = server.client();
    // A poll that is to be repeated later gets a `goaway`, with status 200.
    let (refused, failed) = ((4102, 401, "forbidden"), (4009, 200, "unavailable"));
    for (status, (close_code, http_status, code)) in [
        (400, refused),
        (402, refused),
        (403, refused),
        (409, refused),
        (410, refused),
        (422, refused),
        (401, failed),
        (404, failed),
        (405, failed),
        (408, failed),
        (425, failed),
        (429, failed),
        (302, failed),
        (500, failed),
        (503, failed),
    ] {
        let page = BackendReply { status, ..BackendReply::json("<html>") };
        backend.reply_with(move |_| page.clone());
        for command in [subscribe("news"), publish(), call("x")] {
            client.assert_refused(command, code);
        }
        assert_eq!(Client::refusal_code(server.public, ""), close_code, "{status}");
        assert_eq!(PollClient::connect(server.public).get("").status, http_status, "{status}");
        // Successes close the circuit breakers.
        backend.reply_with(BackendReply::approval_of);
        for command in [subscribe(&format!("after {status}")), publish(), call("x")] {
            assert!(client.request(&command)["ok"].is_object(), "{status}: {command}");
        }
        server.client();
    }
    // The body makes no difference, because a proxy may send a similar one.
    let refusal = BackendReply { status: 404, ..BackendReply::json(error("gone", "no such room")) };
    backend.reply_with(move |_| refusal.clone());
    client.assert_refused(call("x"), "unavailable");
}

#[test]
fn first_failure_is_logged_with_its_cause() {
    let (backend, closed) = (Backend::start(), Port::reserve());
    backend.reply_with(|request| match request.json()["method"].as_str() {
        None => {
            let headers = "Location: /publish/?key=secret\r\n".to_owned();
            BackendReply { headers, ..BackendReply::status(302) }
        }
        Some("slow") => BackendReply::status(200).delayed_by(Duration::from_secs(60)),
        Some(_) => BackendReply::status(500),
    });
    let server = launch_with_hooks(&backend, &["publish", "call"])
        .set(&format!("backend.subscribe=http://{}/subscribe?key=secret", closed.address))
        .set("backend.timeout=2s")
        .start();
    let mut client = server.client_of("alice");
    for command in [subscribe("news"), publish(), call("x")] {
        for _ in 0..2 {
            client.assert_refused(&command, "unavailable");
        }
    }
    client.assert_refused(call("slow"), "timeout");
    let expected = [
        ("subscribe", "Connection refused (os error 111)", None),
        ("publish", "the backend answered 302 Found: the redirect to /publish/ is not followed", Some(302)),
        ("call", "the backend answered 500 Internal Server Error", Some(500)),
        ("call", "no answer within 2s", None),
    ];
    let expected = expected
        .map(|(hook, problem, status)| (hook.to_owned(), hook.to_owned(), problem.to_owned(), status));
    assert_eq!(warnings(&server, 4), expected, "each cause once a minute");
}

#[test]
fn status_401_suggests_a_wrong_secret() {
    let backend = Backend::start();
    backend.reply_with_status(401);
    let server = launch_with_hooks(&backend, &["subscribe", "publish", "call"]).start();
    let mut client = server.client_of("alice");
    for command in [subscribe("news"), publish(), call("x")] {
        for _ in 0..2 {
            client.assert_refused(&command, "unavailable");
        }
    }
    // Clients must not give up while the secrets differ. Users who are not logged in must not open the circuit breaker.
    let server_that_authenticates = launch_without_keys(&backend, &["connect"]).start();
    for _ in 0..6 {
        assert_eq!(Client::refusal_code(server_that_authenticates.public, ""), 4009);
    }
    let problem = "the backend answered 401: it may have another secret than backend.secret; \
                   to refuse the client, it must answer 403";
    let warning = |hook: &str| (hook.to_owned(), hook.to_owned(), problem.to_owned(), Some(401));
    assert_eq!(warnings(&server, 3), ["subscribe", "publish", "call"].map(warning));
    assert_eq!(warnings(&server_that_authenticates, 1), [warning("connect")]);
    let explained = BackendReply { status: 401, ..BackendReply::json(error("banned", "you are banned")) };
    backend.reply_with(move |_| explained.clone());
    assert_eq!(Client::refusal_code(server_that_authenticates.public, ""), 4102);
    server.client_of("alice").assert_refused(call("x"), "banned");
}

/// A developer who corrects one mistake must see the next one.
#[test]
fn each_mistake_in_answers_is_logged() {
    let mistakes = [
        (r#"{"sub":"alice","expp":1,"channels":{}}"#, "unknown field `expp`; did you mean `exp`?"),
        (r#"{"sub":"alice","chanels":{}}"#, "unknown field `chanels`; did you mean `channels`?"),
        ("{}", "`sub` is missing, and so are `anonymous` and `token`"),
        (r#"{"sub":null}"#, "`sub` is not a string"),
        (r#"{"sub":"alice","exp":null}"#, "`exp` is not a number of seconds since 1970"),
        (r#"{"sub":"alice","sub":"bob"}"#, "duplicate field `sub` at line 1 column 27"),
        (r#"{"anonymous":true}"#, "`channels` is missing, which an anonymous client needs"),
    ];
    let backend = Backend::start();
    let server = launch_without_keys(&backend, &["connect"]).start();
    for (body, _) in mistakes {
        backend.reply_with(move |_| BackendReply::json(body));
        for _ in 0..2 {
            assert_eq!(Client::refusal_code(server.public, ""), 4009, "{body}");
        }
        // A success closes the circuit breaker.
        backend.reply_with(BackendReply::approval_of);
        server.client();
    }
    let logged: Vec<_> =
        warnings(&server, mistakes.len()).into_iter().map(|(.., problem, _)| problem).collect();
    assert_eq!(logged, mistakes.map(|(_, problem)| problem));
}

/// If a field is misspelled, the client's own channel and data must not be accepted.
#[test]
fn answers_with_unknown_fields_allow_nothing() {
    let backend = Backend::start();
    let server = launch_with_hooks(&backend, &["subscribe", "publish"]).start();
    let mut client = server.client_of("alice");
    for (command, misspelled, problem) in [
        (
            publish(),
            json!({"allow": true, "chanel": "desk"}),
            "unknown field `chanel`; did you mean `channel`?",
        ),
        (publish(), json!({"allow": true, "dta": "***"}), "unknown field `dta`; did you mean `data`?"),
        (
            subscribe("news"),
            json!({"allow": true, "Channel": "desk"}),
            "unknown field `Channel`; did you mean `channel`?",
        ),
    ] {
        backend.reply_with(move |_| BackendReply::json(&misspelled));
        client.assert_refused(command, "backend_error");
        server.logs.await_line(problem);
    }
    assert_eq!(server.admin.get("/api/channels/news").status, 404, "nothing is published or subscribed");
    // `"token":true` stands for all claims of the token, so others would have no effect.
    backend.reply_with(|_| BackendReply::json(json!({"token": true, "channels": {}})));
    let server = launch_with_hooks(&backend, &["connect"]).start();
    let query = format!("token={}", token("alice", json!({})));
    assert_eq!(Client::refusal_code(server.public, &query), 4009);
    server.logs.await_line("`token` is set, so no other claim has an effect");
}
