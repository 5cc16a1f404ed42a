use std::time::{Duration, Instant};

use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::{MAX_LATENESS, until};
use encke_tests::{Admin, Backend, Launch, RunningServer};
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
    admin.put(&path(key), body).ok()
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
    let expected = json!({"key": "a/b", "due_in_ms": 300.0, "publish": {"channel": "news", "data": "now"}});
    assert_eq!(put(server.admin, "a%2Fb", &publish_reminder("300ms", "now")), expected);
    assert_eq!(server.admin.get("/api/timers").json()["lateness"]["count"], 0);
    let message = client.message();
    assert_eq!([&message["channel"], &message["data"]], ["news", "now"]);
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
            && server.admin.get("/api/timers").json()["lateness"]["count"] == 1
    });
}

#[test]
fn webhook_receives_signed_reminders_whatever_its_events() {
    let backend = Backend::start();
    let server = server_with_webhook(&backend);
    put(server.admin, "game-7", &webhook_reminder(FAR, json!(1)));
    let (found, due_in) = pending(server.admin, "game-7");
    assert_eq!(found, json!({"key": "game-7", "webhook": "backend", "data": 1}));
    assert!((1.0..=3_600_000.0).contains(&due_in), "{due_in}");
    // Moves the reminder and replaces its data.
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
        (r#"{"after":"-1s","webhook":"backend","data":1}"#, "after"),
        (r#"{"after":10,"webhook":"backend","data":1}"#, "after must be a duration"),
        (r#"{"webhook":"backend","data":1}"#, "after"),
        (r#"{"after":"1s","webhook":"other","data":1}"#, "webhook"),
        (r#"{"after":"1s","webhook":"backend"}"#, "data"),
        (r#"{"after":"1s","publish":{"channel":"news","data":1},"webhook":"backend","data":1}"#, "publish"),
        (r#"{"after":"1s","publish":{"channel":"news"}}"#, "data"),
        (r#"{"after":"1s","webhook":"backend","data":1,"url":"http://a/"}"#, "url"),
    ] {
        let answer = ask("a", body);
        answer.assert_error(400, "bad_request");
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains(named), "{body}: {message}");
    }
    let bad = r#"{"after":"1s","publish":{"channel":"a,b","data":1}}"#;
    ask("a", bad).assert_error(400, "bad_channel");
    ask("a", r#"{"after":"1s","webhook":"backend","data":1e999}"#).assert_error(400, "malformed");
    let long = json!("x".repeat(64 * 1024));
    ask("a", &webhook_reminder(FAR, long).to_string()).assert_error(413, "too_large");
    let good = webhook_reminder(FAR, json!(null)).to_string();
    for key in ["", "a%0Ab", "%FF", &*"k".repeat(256)] {
        ask(key, &good).assert_error(400, "bad_request");
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
    let text = restarts.show_snapshot().stdout;
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
    // A reminder whose webhook is not configured any more is skipped, and does not keep the server from starting.
    put(restarts.server.admin, "far", &webhook_reminder(FAR, json!(4)));
    restarts.stop();
    restarts.settings.retain(|setting| *setting != events);
    restarts.start();
    assert!(is_removed(restarts.server.admin, "far"));
    until("the skipped reminder is logged", || {
        restarts.server.logs.text().contains("is not configured any more")
    });
}

#[test]
fn scopes_of_reminders_are_publish_and_read_and_their_number_is_limited() {
    const READ: &str = "reading-key-0123456789";
    const PUBLISH: &str = "publishing-key-0123456789";
    let key = |name: &str, key: &str| format!(r#"{{name="{name}",key="{key}",scopes=["{name}"]}}"#);
    let keys = format!("auth.api_keys=[{},{}]", key("read", READ), key("publish", PUBLISH));
    let server = RunningServer::with(&[&keys, "limits.max_reminders=1"]);
    let (reads, publishes) = (server.admin.with_key(READ), server.admin.with_key(PUBLISH));
    let body = publish_reminder(FAR, "1");
    reads.put(&path("a"), &body).assert_error(403, "forbidden");
    put(publishes, "a", &body);
    put(publishes, "a", &body);
    publishes.put(&path("b"), &body).assert_error(503, "limit");
    assert_eq!(reads.get(&path("a")).status, 200);
    publishes.get(&path("a")).assert_error(403, "forbidden");
    reads.request("DELETE", &path("a")).assert_error(403, "forbidden");
    assert_eq!(publishes.request("DELETE", &path("a")).status, 204);
    publishes.request("DELETE", &path("a")).assert_error(404, "not_found");
    reads.get(&path("a")).assert_error(404, "not_found");
}

#[test]
fn pending_reminders_are_listed_in_pages() {
    let server = RunningServer::with(&[]);
    let list = |query: &str| server.admin.get(&format!("/api/reminders{query}")).json();
    assert_eq!(list(""), json!({"reminders": [], "next_cursor": null}));
    for key in ["c", "a%2Fb", "b"] {
        put(server.admin, key, &publish_reminder(FAR, key));
    }
    let keys = |page: &Value| {
        let reminders = page["reminders"].as_array().expect("an array").iter();
        reminders.map(|reminder| reminder["key"].clone()).collect::<Vec<_>>()
    };
    let first = list("?limit=2");
    assert_eq!((keys(&first), &first["next_cursor"]), (vec![json!("a/b"), json!("b")], &json!("b")));
    let last = list("?limit=2&cursor=b");
    assert_eq!((keys(&last), &last["next_cursor"]), (vec![json!("c")], &Value::Null));
    assert_eq!(last["reminders"][0]["publish"], json!({"channel": "news", "data": "c"}));
    // The data of these does not fit into one page.
    let large = "x".repeat(60_000);
    for number in 10..50 {
        put(server.admin, &format!("d{number}"), &publish_reminder(FAR, &large));
    }
    let (mut pages, mut seen, mut cursor) = (0, Vec::new(), String::new());
    loop {
        let page = list(&format!("?limit=1000{cursor}"));
        seen.extend(keys(&page));
        pages += 1;
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={}", next.replace('/', "%2F"));
    }
    assert_eq!((pages, seen.len()), (3, 43));
    assert!(seen.is_sorted_by_key(|key| key.as_str()), "{seen:?}");
}
