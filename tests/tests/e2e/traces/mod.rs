//! Traces of publishes through the admin API, as an OpenTelemetry collector receives them.

// Failures between server and collector.
mod faults;
// Spans and their attributes.
mod spans;

use encke_tests::{CollectedSpan, RunningServer};
use serde_json::{Value, json};

/// Publishes with additional headers (lines that end in CR LF). Returns the status.
pub(crate) fn publish(server: &RunningServer, channel: &str, headers: &str) -> u16 {
    let body = json!({ "channel": channel, "data": "contents must not appear" }).to_string();
    server.admin.send("/api/publish", &format!("Content-Type: application/json\r\n{headers}"), &body).status
}

/// Returns the only span with this name.
#[track_caller]
fn span_named<'a>(spans: &'a [CollectedSpan], name: &str) -> &'a CollectedSpan {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    assert!(found.next().is_none(), "two of {name}: {spans:#?}");
    span
}

#[track_caller]
fn assert_attributes<const N: usize>(span: &CollectedSpan, expected: [(&str, Value); N]) {
    for (name, value) in expected {
        assert_eq!(span.attributes.get(name), Some(&value), "{name}: {span:#?}");
    }
}
