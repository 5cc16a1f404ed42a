use encke_tests::poll::PollClient;
use encke_tests::{Backend, BackendReply, Client};
use serde_json::{Value, json};

use super::{error, launch_without_keys};

fn subscribe(channel: &str) -> Value {
    json!({"id": 1, "subscribe": {"channel": channel}})
}

fn publish() -> Value {
    json!({"id": 2, "publish": {"channel": "news", "data": 1}})
}

fn call(method: &str) -> Value {
    json!({"id": 3, "call": {"method": method}})
}

/// A proxy that answers 404 while the backend is being deployed must not turn clients away for good.
#[test]
fn one_rule_decides_which_statuses_refuse_and_which_fail() {
    let backend = Backend::start();
    let server = launch_without_keys(&backend, &["connect", "subscribe", "publish", "call"]).start();
    let mut client = server.client();
    // A poll that is to be repeated later gets a `goaway`, with status 200.
    let (refused, failed) = ((4102, 401, "forbidden"), (4009, 200, "unavailable"));
    for (status, (close_code, http_status, code)) in [
        (400, refused),
        (401, refused),
        (402, refused),
        (403, refused),
        (409, refused),
        (410, refused),
        (422, refused),
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
    // The body makes no difference, since a proxy may answer a similar one.
    let refusal = BackendReply { status: 404, ..BackendReply::json(error("gone", "no such room")) };
    backend.reply_with(move |_| refusal.clone());
    client.assert_refused(call("x"), "unavailable");
}
