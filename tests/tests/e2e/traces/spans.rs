use std::time::SystemTime;

use encke_tests::Collector;
use encke_tests::server::IN_MEMORY;
use serde_json::{Value, json};

use super::{attribute, publish, span_named};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is past 1970");
    u64::try_from(since.as_nanos()).expect("the clock is before 2554")
}

#[test]
fn a_publish_has_three_spans() {
    let collector = Collector::default();
    let server = collector.server(&[IN_MEMORY]).start();
    let mut subscribers: Vec<_> = (0..100).map(|_| server.client()).collect();
    subscribers.iter_mut().for_each(|client| drop(client.subscribe("news")));

    let before = now();
    assert_eq!(publish(&server, "news", "contents must not appear", ""), 200);
    subscribers.iter_mut().for_each(|client| drop(client.object()));
    let spans = collector.await_trace("POST /api/publish", 3);
    let after = now();

    let request = span_named(&spans, "POST /api/publish");
    assert_eq!((&*request.parent, &request.error), ("", &None));
    assert_eq!(attribute(request, "http.request.method"), Some(&json!("POST")));
    assert_eq!(attribute(request, "http.route"), Some(&json!("/api/publish")));
    assert_eq!(attribute(request, "url.path"), Some(&json!("/api/publish")));
    assert_eq!(attribute(request, "url.scheme"), Some(&json!("http")));
    assert_eq!(attribute(request, "http.response.status_code"), Some(&json!(200)));
    assert_eq!(attribute(request, "server.address"), Some(&json!("127.0.0.1")));
    assert_eq!(attribute(request, "messaging.destination.name"), Some(&json!("news")));
    assert_eq!(attribute(request, "messaging.message.body.size"), Some(&json!(26)));
    let [append, fan_out] = ["append", "fan out"].map(|name| span_named(&spans, name));
    for child in [append, fan_out] {
        assert_eq!((&child.parent, &child.error), (&request.id, &None), "{child:#?}");
        assert!(child.start >= request.start && child.end >= child.start, "{spans:#?}");
    }
    assert_eq!(attribute(append, "encke.engine"), Some(&json!("memory")));
    let id = attribute(append, "messaging.message.id").and_then(Value::as_str).expect("an id");
    assert!(id.ends_with(":1"), "{id}");
    assert!(request.end >= append.end, "{spans:#?}");
    assert_eq!(attribute(fan_out, "messaging.destination.name"), Some(&json!("news")));
    assert!(before <= request.start && fan_out.start <= append.end && fan_out.end <= after, "{spans:#?}");
    let exports = collector.backend.requests();
    let is_exported = |text: &str| {
        exports.iter().any(|export| export.body.windows(text.len()).any(|part| part == text.as_bytes()))
    };
    assert!(is_exported("news") && !is_exported("must not appear"), "{spans:#?}");
}

#[test]
fn a_publish_joins_the_trace_of_its_caller() {
    let collector = Collector::default();
    let server = collector.server(&["trace.sample=0.0"]).start();
    let traceparent = |flags: &str| format!("traceparent: 00-{TRACE}-{CALLER}-{flags}\r\n");
    assert_eq!(publish(&server, "a", 1, ""), 200, "the sampling ratio excludes it");
    assert_eq!(publish(&server, "b", 1, &traceparent("00")), 200, "the caller has not sampled it");
    let with_state = traceparent("01") + "tracestate: vendor=1\r\n";
    assert_eq!(publish(&server, "c", 1, &with_state), 200);
    let spans = collector.await_trace("POST /api/publish", 3);
    assert_eq!(collector.spans().len(), 3, "the other publishes are not traced");
    assert!(spans.iter().all(|span| span.trace == TRACE && span.state == "vendor=1"), "{spans:#?}");
    let request = span_named(&spans, "POST /api/publish");
    assert_eq!(request.parent, CALLER);
    assert_eq!(attribute(request, "messaging.destination.name"), Some(&json!("c")));
}

#[test]
fn a_broadcast_has_a_span_for_each_channel() {
    let collector = Collector::default();
    let server = collector.server(&[IN_MEMORY]).start();
    let body = json!({ "channels": ["a", "$b"], "data": 1 }).to_string();
    assert_eq!(server.admin.post("/api/broadcast", &body).status, 200);
    let spans = collector.await_trace("POST /api/broadcast", 5);
    let request = span_named(&spans, "POST /api/broadcast");
    assert_eq!(attribute(request, "messaging.batch.message_count"), Some(&json!(2)));
    let [good, bad] = ["publish a", "publish $b"].map(|name| span_named(&spans, name));
    for (span, channel) in [(good, "a"), (bad, "$b")] {
        assert_eq!(span.parent, request.id);
        assert_eq!(attribute(span, "messaging.destination.name"), Some(&json!(channel)));
    }
    assert_eq!((&good.error, bad.error.as_deref()), (&None, Some("bad_channel")));
    for name in ["append", "fan out"] {
        assert_eq!(span_named(&spans, name).parent, good.id);
    }
}

#[test]
fn a_failed_append_has_an_error() {
    let collector = Collector::default();
    let server = collector.server(&[IN_MEMORY, "limits.max_channels=1"]).start();
    let mut subscriber = server.client();
    subscriber.subscribe("a");
    assert_eq!(publish(&server, "b", 1, ""), 503);
    let spans = collector.await_trace("POST /api/publish", 2);
    let request = span_named(&spans, "POST /api/publish");
    assert_eq!(attribute(request, "error.type"), Some(&json!("503")));
    assert!(request.error.is_some());
    let append = span_named(&spans, "append");
    assert_eq!(
        (append.error.as_deref(), attribute(append, "error.type")),
        (Some("limit"), Some(&json!("limit")))
    );
}

#[test]
fn long_channel_names_are_truncated() {
    let collector = Collector::default();
    let server = collector.server(&[IN_MEMORY]).start();
    assert_eq!(publish(&server, &"a".repeat(60_000), 1, ""), 400);
    let spans = collector.await_trace("POST /api/publish", 1);
    let name = attribute(&spans[0], "messaging.destination.name").and_then(Value::as_str).expect("a channel");
    assert_eq!(name, "a".repeat(256));
}

#[test]
fn configured_headers_are_sent() {
    let collector = Collector::default();
    let server = collector
        .server(&[])
        .environment("ENCKE_TRACE__HEADERS", r#"["authorization: Bearer hunter2", "x-tenant: a:b"]"#)
        .start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    assert_eq!(collector.await_trace("POST /api/publish", 3).len(), 3);
    let export = &collector.backend.requests()[0];
    assert_eq!(export.header("authorization"), Some("Bearer hunter2"));
    assert_eq!(export.header("x-tenant"), Some("a:b"));
    assert!(export.header("user-agent").is_some_and(|agent| agent.starts_with("encke/")), "{export:?}");
}
