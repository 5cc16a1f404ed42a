use std::time::{Duration, Instant};

use encke_tests::server::{IN_MEMORY, run_to_end};
use encke_tests::waiting::{MAX_LATENESS, let_pass, until};
use encke_tests::{Admin, Backend, HttpResponse, Launch, RunningServer};
use serde_json::{Value, json};

use crate::restart::RestartableServer;
use crate::webhooks::{SECRET, accepted_events, assert_signed, launch_with_webhook};

/// A delay that is longer than any test takes.
const FAR: &str = "1h";

fn path(key: &str) -> String {
    format!("/api/reminders/{key}")
}

#[track_caller]
fn put(admin: Admin, key: &str, body: &Value) -> Value {
    let answer = admin.put(&path(key), &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn publish_reminder(after: &str, data: &str) -> Value {
    json!({"after": after, "publish": {"channel": "news", "data": data}})
}

fn webhook_reminder(after: &str, data: Value) -> Value {
    json!({"after": after, "webhook": "backend", "data": data})
}

/// Returns the pending reminder with this key, without its time, and the remaining time in milliseconds.
#[track_caller]
fn pending(admin: Admin, key: &str) -> (Value, f64) {
    let mut found = admin.get(&path(key)).json();
    let due_in = found.as_object_mut().and_then(|it| it.remove("due_in_ms")).and_then(|due| due.as_f64());
    (found, due_in.expect("a time"))
}

fn is_removed(admin: Admin, key: &str) -> bool {
    admin.get(&path(key)).status == 404
}

#[track_caller]
fn assert_error(answer: &HttpResponse, status: u16, code: &str) {
    assert_eq!((answer.status, &*answer.error_code()), (status, code), "{answer:?}");
}

fn server_with_webhook(backend: &Backend) -> RunningServer {
    launch_with_webhook(backend, r#""session.closed""#, r#",name="backend""#).start()
}

fn received_reminders(backend: &Backend) -> Vec<Value> {
    accepted_events(backend).into_iter().filter(|event| event["event"] == "reminder.due").collect()
}

#[test]
fn reminder_publishes_once_and_not_before_its_time() {
    const AFTER: Duration = Duration::from_millis(300);
    let server = Launch::default().start();
    let mut client = server.client();
    client.subscribe("news");
    let from = Instant::now();
    let answer = put(server.admin, "a%2Fb", &publish_reminder("300ms", "now"));
    assert_eq!(
        answer,
        json!({"key": "a/b", "due_in_ms": 300.0, "publish": {"channel": "news", "data": "now"}})
    );
    let message = client.object();
    assert_eq!(
        (&message["message"]["channel"], &message["message"]["data"]),
        (&json!("news"), &json!("now"))
    );
    let after = from.elapsed();
    assert!((AFTER..AFTER + MAX_LATENESS).contains(&after), "{after:?}");
    assert!(is_removed(server.admin, "a%2Fb"));
    server.admin.publish("news", "next");
    assert_eq!(client.object()["message"]["data"], "next", "the reminder published once");
    until("the reminder is counted", || {
        let metrics = server.admin.metrics();
        metrics.value(r#"encke_reminders_due_total{outcome="published"}"#) == 1.0
            && metrics.value(r#"encke_timer_expiries_total{deadline="reminder"}"#) == 1.0
            && metrics.value("encke_reminders") == 0.0
    });
}

#[test]
fn webhook_receives_signed_reminders_whatever_its_events() {
    let backend = Backend::start();
    let server = server_with_webhook(&backend);
    put(server.admin, "game-7", &webhook_reminder("50ms", json!({"player": 2})));
    until("the webhook receives the reminder", || !received_reminders(&backend).is_empty());
    let mut event = received_reminders(&backend).remove(0);
    let fields = event.as_object_mut().expect("an object");
    assert!(fields.remove("id").is_some_and(|id| id.is_string()));
    assert!(fields.remove("at_ms").is_some_and(|at| at.is_u64()));
    assert_eq!(event, json!({"event": "reminder.due", "key": "game-7", "data": {"player": 2}}));
    backend.requests().iter().for_each(assert_signed);
}

#[test]
fn later_put_moves_and_replaces_a_reminder() {
    let backend = Backend::start();
    let server = server_with_webhook(&backend);
    put(server.admin, "moved", &webhook_reminder(FAR, json!(1)));
    put(server.admin, "kept", &webhook_reminder(FAR, json!(1)));
    let (found, due_in) = pending(server.admin, "moved");
    assert_eq!(found, json!({"key": "moved", "webhook": "backend", "data": 1}));
    assert!((1.0..=3_600_000.0).contains(&due_in), "{due_in}");
    put(server.admin, "moved", &webhook_reminder("0s", json!(2)));
    until("the webhook receives the reminder", || !received_reminders(&backend).is_empty());
    assert!(is_removed(server.admin, "moved"));
    // The reminder is postponed and its action replaced, so the first action is not performed.
    put(server.admin, "kept", &webhook_reminder("2s", json!(3)));
    put(server.admin, "kept", &publish_reminder(FAR, "4"));
    put(server.admin, "last", &webhook_reminder("2500ms", json!(5)));
    until("the webhook receives the last reminder", || received_reminders(&backend).len() == 2);
    let received: Vec<_> = received_reminders(&backend).iter().map(|event| event["data"].clone()).collect();
    assert_eq!(received, [2, 5]);
    let (found, _) = pending(server.admin, "kept");
    assert_eq!(found, json!({"key": "kept", "publish": {"channel": "news", "data": "4"}}));
}

#[test]
fn deleted_reminder_does_nothing() {
    let server = Launch::default().start();
    let mut client = server.client();
    client.subscribe("news");
    put(server.admin, "a", &publish_reminder("2s", "deleted"));
    assert_eq!(server.admin.request("DELETE", &path("a")).status, 204);
    assert_error(&server.admin.request("DELETE", &path("a")), 404, "not_found");
    assert_error(&server.admin.get(&path("a")), 404, "not_found");
    let_pass(Duration::from_millis(2_100));
    server.admin.publish("news", "published");
    assert_eq!(client.object()["message"]["data"], "published");
}

#[test]
fn number_of_reminders_is_limited() {
    let server = Launch::default().set("limits.max_reminders=2").start();
    put(server.admin, "a", &publish_reminder(FAR, "1"));
    put(server.admin, "b", &publish_reminder(FAR, "1"));
    assert_error(&server.admin.put(&path("c"), &publish_reminder(FAR, "1").to_string()), 503, "limit");
    put(server.admin, "a", &publish_reminder(FAR, "2"));
    assert_eq!(server.admin.request("DELETE", &path("b")).status, 204);
    put(server.admin, "c", &publish_reminder(FAR, "1"));
}

#[test]
fn failed_publish_is_logged_and_counted() {
    let server = RunningServer::with(&["limits.max_channels=1", IN_MEMORY]);
    let mut client = server.client();
    client.subscribe("other");
    put(server.admin, "a", &publish_reminder("0s", "1"));
    until("the reminder is counted", || {
        server.admin.metrics().value(r#"encke_reminders_due_total{outcome="failed"}"#) == 1.0
    });
    until("the failure is logged", || server.logs.text().contains("reminder could not be published"));
    assert!(is_removed(server.admin, "a"));
}

#[test]
fn invalid_fields_are_named() {
    let backend = Backend::start();
    let server = server_with_webhook(&backend);
    let ask = |key: &str, body: &str| server.admin.put(&path(key), body);
    for (body, named) in [
        (r#"{"after":"soon","webhook":"backend","data":1}"#, "after"),
        (r#"{"after":"31days","webhook":"backend","data":1}"#, "after"),
        (r#"{"after":"-1s","webhook":"backend","data":1}"#, "after"),
        (r#"{"webhook":"backend","data":1}"#, "after"),
        (r#"{"after":"1s","webhook":"other","data":1}"#, "webhook"),
        (r#"{"after":"1s","webhook":null,"data":1}"#, "null"),
        (r#"{"after":"1s","webhook":"backend"}"#, "data"),
        (r#"{"after":"1s"}"#, "publish"),
        (r#"{"after":"1s","publish":{"channel":"news","data":1},"data":null}"#, "publish"),
        (r#"{"after":"1s","publish":{"channel":"news","data":1},"webhook":"backend","data":1}"#, "publish"),
        (r#"{"after":"1s","publish":{"channel":"news"}}"#, "data"),
        (r#"{"after":"1s","webhook":"backend","data":1,"url":"http://a/"}"#, "url"),
    ] {
        let answer = ask("a", body);
        assert_error(&answer, 400, "bad_request");
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains(named), "{body}: {message}");
    }
    let bad = r#"{"after":"1s","publish":{"channel":"a,b","data":1}}"#;
    assert_error(&ask("a", bad), 400, "bad_channel");
    assert_error(&ask("a", r#"{"after":"1s","webhook":"backend","data":1e999}"#), 400, "malformed");
    let long = json!("x".repeat(64 * 1024));
    assert_error(&ask("a", &webhook_reminder(FAR, long).to_string()), 413, "too_large");
    let good = webhook_reminder(FAR, json!(null)).to_string();
    for key in ["", "a%0Ab", "%FF", &*"k".repeat(256)] {
        assert_error(&ask(key, &good), 400, "bad_request");
    }
    assert!(is_removed(server.admin, "a"));
    assert_eq!(ask(&"k".repeat(255), &good).status, 200);
}

#[test]
fn reminders_continue_after_a_restart() {
    let backend = Backend::start();
    let events = format!(
        "webhook=[{{name=\"backend\",url=\"{}\",events=[\"reminder.due\"],secret=\"{SECRET}\"}}]",
        backend.url("/encke")
    );
    let mut restarts = RestartableServer::with(&[&events, IN_MEMORY]);
    put(restarts.server.admin, "soon", &webhook_reminder("1s", json!({"a": [1]})));
    put(restarts.server.admin, "far", &publish_reminder(FAR, "2"));
    let (_, due_before) = pending(restarts.server.admin, "far");
    restarts.stop();
    let shown = run_to_end(&["snapshot", "show", &restarts.path().display().to_string()], &[]);
    let text = String::from_utf8(shown.stdout).expect("text");
    assert!(text.contains("reminder \"far\": due in 59m "), "{text}");
    restarts.start();
    let (found, due_after) = pending(restarts.server.admin, "far");
    assert_eq!(found, json!({"key": "far", "publish": {"channel": "news", "data": "2"}}));
    assert!(due_after <= due_before, "{due_after} of {due_before}");
    until("the webhook receives the reminder", || !received_reminders(&backend).is_empty());
    restarts.restart();
    let received = received_reminders(&backend);
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!((&received[0]["key"], &received[0]["data"]), (&json!("soon"), &json!({"a": [1]})));
    // The process after the second restart can change the reminder and performs its action.
    let mut client = restarts.server.client();
    client.subscribe("news");
    put(restarts.server.admin, "far", &publish_reminder("0s", "3"));
    assert_eq!(client.object()["message"]["data"], "3");
}

#[test]
fn reminder_for_a_removed_webhook_is_logged() {
    let backend = Backend::start();
    let webhook = format!(
        "webhook=[{{name=\"backend\",url=\"{}\",events=[\"session.closed\"],secret=\"{SECRET}\"}}]",
        backend.url("/encke")
    );
    let mut restarts = RestartableServer::with(&[&webhook]);
    put(restarts.server.admin, "a", &webhook_reminder(FAR, json!(1)));
    restarts.stop();
    restarts.settings.retain(|setting| *setting != webhook);
    restarts.start();
    assert!(is_removed(restarts.server.admin, "a"));
    until("the failure is logged", || restarts.server.logs.text().contains("is not configured any more"));
}

#[test]
fn scopes_of_reminders_are_publish_and_read() {
    const READ: &str = "reading-key-0123456789";
    const PUBLISH: &str = "publishing-key-0123456789";
    let key = |name: &str, key: &str| format!(r#"{{name="{name}",key="{key}",scopes=["{name}"]}}"#);
    let keys = format!("auth.api_keys=[{},{}]", key("read", READ), key("publish", PUBLISH));
    let server = Launch::default().set(&keys).start();
    let (reads, publishes) = (server.admin.with_key(READ), server.admin.with_key(PUBLISH));
    let body = publish_reminder(FAR, "1");
    assert_error(&reads.put(&path("a"), &body.to_string()), 403, "forbidden");
    put(publishes, "a", &body);
    assert_eq!(reads.get(&path("a")).status, 200);
    assert_error(&publishes.get(&path("a")), 403, "forbidden");
    assert_error(&reads.request("DELETE", &path("a")), 403, "forbidden");
    assert_eq!(publishes.request("DELETE", &path("a")).status, 204);
}
