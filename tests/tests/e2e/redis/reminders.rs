use std::time::{Duration, Instant};

use encke_tests::redis::Redis;
use serde_json::json;

use super::node;

/// Number of reminders: several times as many as a server requests from Redis in one batch.
const REMINDERS: u64 = 3_000;

/// Time after which all reminders are due. Creating them takes about half of it. On a slow machine, the last
/// ones are due immediately.
const ALL_DUE_AFTER: Duration = Duration::from_secs(8);

#[test]
fn many_simultaneous_reminders_are_published_once_each() {
    let redis = Redis::start();
    let server = node(&redis);
    let mut client = server.client();
    client.subscribe("news");
    let due = Instant::now() + ALL_DUE_AFTER;
    for number in 0..REMINDERS {
        let after = due.saturating_duration_since(Instant::now()).as_millis();
        let reminder = json!({"after": format!("{after}ms"), "publish": {"channel": "news", "data": number}});
        let answer = server.admin.put(&format!("/api/reminders/{number}"), &reminder.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let next = |_| client.object()["message"]["data"].as_u64().expect("a number");
    let mut published: Vec<u64> = (0..REMINDERS).map(next).collect();
    published.sort_unstable();
    assert_eq!(published, (0..REMINDERS).collect::<Vec<_>>());
    server.admin.publish("news", "last");
    assert_eq!(client.object()["message"]["data"], "last");
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value(r#"encke_reminders_due_total{outcome="published"}"#), REMINDERS as f64);
}
