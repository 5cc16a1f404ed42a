//! What becomes of a publish by the admin API, as a collector of OpenTelemetry is told.

// Whom a message is followed to, and for how long.
mod delivered;
// What may go wrong between server and collector.
mod faults;
// Which spans there are, and what they say.
mod told;

use encke_tests::{RunningServer, CollectedSpan};
use serde_json::{Value, json};

/// Publishes, with these headers besides others: lines that end in CR LF. Returns the status.
fn publish(server: &RunningServer, channel: &str, data: impl Into<Value>, headers: &str) -> u16 {
    let body = json!({ "channel": channel, "data": data.into() }).to_string();
    server.admin.send("/api/publish", &format!("Content-Type: application/json\r\n{headers}"), &body).status
}

/// The one of this name.
#[track_caller]
fn named<'a>(spans: &'a [CollectedSpan], name: &str) -> &'a CollectedSpan {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    assert!(found.next().is_none(), "two of {name}: {spans:#?}");
    span
}

/// What an attribute says; nothing, if there is none.
fn said<'a>(span: &'a CollectedSpan, attribute: &str) -> Option<&'a Value> {
    span.attributes.get(attribute)
}
