//! Messages that the dashboard shows for actions that were not confirmed.

use encke_tests::{Dashboard, RunningServer};
use serde_json::{Value, json};

const NO_ANSWER: u16 = 0;

fn error(code: &str) -> Value {
    json!({"code": code, "message": format!("because of {code}")})
}

#[test]
fn only_refused_actions_are_reported_as_not_done() {
    let server = RunningServer::with(&[]);
    let client = server.client();
    let id = client.hello.session.clone();
    let _client = client.into_background();
    let mut page = Dashboard::open(server.admin.address(), "#/channels/news");
    page.await_visible("#data");
    for (status, error, report) in [
        (400, error("bad_channel"), "Not published: because of bad_channel"),
        (503, error("draining"), "Not published: because of draining"),
        (503, error("outcome_unknown"), "Unknown whether it was published: because of outcome_unknown"),
        // A response from a proxy between the dashboard and the server.
        (502, Value::Null, "Unknown whether it was published: the server answered 502"),
        (NO_ANSWER, Value::Null, "Unknown whether it was published: the server does not answer"),
    ] {
        page.perform("answer", &json!(["POST", "/api/publish", status, error]));
        page.click("form .main");
        page.await_text("form [role='status']", report);
    }
    page.go(&format!("#/sessions/{id}"));
    page.await_text(".badge", "● attached");
    for (status, error, report) in [
        (403, error("forbidden"), "Not done: because of forbidden"),
        (NO_ANSWER, Value::Null, "Unknown whether it was done: the server does not answer"),
    ] {
        page.perform("answer", &json!(["DELETE", format!("/api/sessions/{id}"), status, error]));
        page.click("text=End session…");
        page.click("dialog .danger");
        page.await_text(".notice", report);
    }
}
