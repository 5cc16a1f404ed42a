use encke_tests::Collector;
use encke_tests::server::IN_MEMORY;
use encke_tests::tokens::unix_time;
use serde_json::json;

use super::{assert_attributes, publish, span_named};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn now() -> u64 {
    u64::try_from(unix_time().as_nanos()).expect("the clock is before 2554")
}

#[test]
fn a_publish_has_three_spans() {
    let collector = Collector::default();
    let server = collector.server(&[IN_MEMORY]).start();
    let mut subscribers: Vec<_> = (0..100).map(|_| server.client()).collect();
    subscribers.iter_mut().for_each(|client| drop(client.subscribe("news")));

    let before = now();
    assert_eq!(publish(&server, "news", ""), 200);
    subscribers.iter_mut().for_each(|client| drop(client.object()));
    let spans = collector.await_trace("POST /api/publish", 3);
    let after = now();

    let request = span_named(&spans, "POST /api/publish");
    assert_eq!((&*request.parent, &request.error), ("", &None));
    assert_attributes(
        request,
        [
            ("http.request.method", json!("POST")),
            ("http.route", json!("/api/publish")),
            ("url.path", json!("/api/publish")),
            ("url.scheme", json!("http")),
            ("http.response.status_code", json!(200)),
            ("server.address", json!("127.0.0.1")),
            ("messaging.destination.name", json!("news")),
            ("messaging.message.body.size", json!(26)),
        ],
    );
    let [append, fan_out] = ["append", "fan out"].map(|name| span_named(&spans, name));
    for child in [append, fan_out] {
        assert_eq!((&child.parent, &child.error), (&request.id, &None), "{child:#?}");
        assert!(child.start >= request.start && child.end >= child.start, "{spans:#?}");
    }
    assert_attributes(append, [("encke.engine", json!("memory"))]);
    let id = append.attributes["messaging.message.id"].as_str();
    assert!(id.is_some_and(|id| id.ends_with(":1")), "{append:#?}");
    assert!(request.end >= append.end, "{spans:#?}");
    assert_attributes(fan_out, [("messaging.destination.name", json!("news"))]);
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
    let headers = r#"["authorization: Bearer hunter2", "x-tenant: a:b"]"#;
    let server = collector.server(&["trace.sample=0.0"]).environment("ENCKE_TRACE__HEADERS", headers).start();
    let traceparent = |flags: &str| format!("traceparent: 00-{TRACE}-{CALLER}-{flags}\r\n");
    assert_eq!(publish(&server, "a", ""), 200, "the sampling ratio excludes it");
    assert_eq!(publish(&server, "b", &traceparent("00")), 200, "the caller has not sampled it");
    let with_state = traceparent("01") + "tracestate: vendor=1\r\n";
    assert_eq!(publish(&server, "c", &with_state), 200);
    let spans = collector.await_trace("POST /api/publish", 3);
    assert_eq!(collector.spans().len(), 3, "the other publishes are not traced");
    assert!(spans.iter().all(|span| span.trace == TRACE && span.state == "vendor=1"), "{spans:#?}");
    let request = span_named(&spans, "POST /api/publish");
    assert_eq!(request.parent, CALLER);
    assert_attributes(request, [("messaging.destination.name", json!("c"))]);
    let export = &collector.backend.requests()[0];
    assert_eq!(export.header("authorization"), Some("Bearer hunter2"));
    assert_eq!(export.header("x-tenant"), Some("a:b"));
    assert!(export.header("user-agent").is_some_and(|agent| agent.starts_with("encke/")), "{export:?}");
}

#[test]
fn failed_publishes_and_broadcasts_have_errors() {
    let collector = Collector::default();
    let server = collector.server(&[IN_MEMORY, "limits.max_channels=1"]).start();
    let mut subscriber = server.client();
    subscriber.subscribe("a");
    server.admin.post("/api/broadcast", json!({ "channels": ["a", "$b"], "data": 1 })).ok();
    let spans = collector.await_trace("POST /api/broadcast", 5);
    let request = span_named(&spans, "POST /api/broadcast");
    assert_attributes(request, [("messaging.batch.message_count", json!(2))]);
    let [good, bad] = ["publish a", "publish $b"].map(|name| span_named(&spans, name));
    for (span, channel) in [(good, "a"), (bad, "$b")] {
        assert_eq!(span.parent, request.id);
        assert_attributes(span, [("messaging.destination.name", json!(channel))]);
    }
    assert_eq!((&good.error, bad.error.as_deref()), (&None, Some("bad_channel")));
    for name in ["append", "fan out"] {
        assert_eq!(span_named(&spans, name).parent, good.id);
    }

    assert_eq!(publish(&server, "b", ""), 503);
    let spans = collector.await_trace("POST /api/publish", 2);
    let request = span_named(&spans, "POST /api/publish");
    assert!(request.error.is_some());
    assert_attributes(request, [("error.type", json!("503"))]);
    let append = span_named(&spans, "append");
    assert_eq!(append.error.as_deref(), Some("limit"));
    assert_attributes(append, [("error.type", json!("limit"))]);
}

#[test]
fn long_channel_names_are_truncated() {
    let collector = Collector::default();
    let server = collector.server(&[IN_MEMORY]).start();
    assert_eq!(publish(&server, &"a".repeat(60_000), ""), 400);
    let spans = collector.await_trace("POST /api/publish", 1);
    assert_attributes(&spans[0], [("messaging.destination.name", json!("a".repeat(256)))]);
}
