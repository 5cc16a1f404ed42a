//! A collector of OpenTelemetry traces (OTLP over HTTP) that stores all spans.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{Span as SentSpan, status::StatusCode};
use prost::Message;
use serde_json::Value;

use crate::waiting::eventually;
use crate::{Backend, BackendRequest, Launch, binaries};

#[derive(Clone, Debug, PartialEq)]
pub struct CollectedSpan {
    /// Trace id. All ids are in hexadecimal.
    pub trace: String,
    pub id: String,
    /// Id of the parent span; empty for a root span.
    pub parent: String,
    pub state: String,
    pub name: String,
    /// In nanoseconds since 1970.
    pub start: u64,
    /// In nanoseconds since 1970.
    pub end: u64,
    pub attributes: BTreeMap<String, Value>,
    /// Error message, if the status is an error.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Collector {
    pub backend: Backend,
}

impl Collector {
    /// Configures a server that exports its traces to this collector.
    pub fn server(&self, settings: &[&str]) -> Launch {
        let otlp = format!("trace.otlp={}", self.backend.url(""));
        Launch::with(settings).set(&otlp).with_binary(binaries::encke_with_otlp())
    }

    /// Returns all exported spans in no particular order. A span appears once for each export that was
    /// accepted.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        let accepted = self.backend.requests().into_iter().filter(|request| request.status == Some(200));
        accepted.flat_map(|request| spans_of(&request)).collect()
    }

    /// Waits for a span with this name, and then until its trace has exactly `spans` spans.
    #[track_caller]
    pub fn await_trace(&self, name: &str, spans: usize) -> Vec<CollectedSpan> {
        eventually(format!("a trace of {spans} spans that includes {name}"), || {
            let all = self.spans();
            let trace = all.iter().find(|span| span.name == name)?.trace.clone();
            let in_trace: Vec<_> = all.into_iter().filter(|span| span.trace == trace).collect();
            assert!(in_trace.len() <= spans, "{in_trace:#?}");
            (in_trace.len() == spans).then_some(in_trace)
        })
    }
}

fn spans_of(request: &BackendRequest) -> Vec<CollectedSpan> {
    assert_eq!(request.path, "/v1/traces");
    assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
    let request = ExportTraceServiceRequest::decode(&*request.body).expect("the body is OTLP");
    let mut spans = Vec::new();
    for resource in request.resource_spans {
        let resource_attributes = attributes(resource.resource.expect("spans have a resource").attributes);
        assert_eq!(resource_attributes["service.name"], "encke");
        let has = |name| resource_attributes.contains_key(name);
        assert!(has("service.version") && has("service.instance.id"), "{resource_attributes:?}");
        let sent = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.extend(sent.map(CollectedSpan::from));
    }
    spans
}

impl From<SentSpan> for CollectedSpan {
    fn from(sent: SentSpan) -> Self {
        let status = sent.status.unwrap_or_default();
        Self {
            trace: hex(&sent.trace_id),
            id: hex(&sent.span_id),
            parent: hex(&sent.parent_span_id),
            state: sent.trace_state,
            name: sent.name,
            start: sent.start_time_unix_nano,
            end: sent.end_time_unix_nano,
            attributes: attributes(sent.attributes),
            error: (status.code == StatusCode::Error as i32).then_some(status.message),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

fn attributes(sent: Vec<KeyValue>) -> BTreeMap<String, Value> {
    sent.into_iter().map(|attribute| (attribute.key, value(attribute.value))).collect()
}

fn value(sent: Option<AnyValue>) -> Value {
    match sent.and_then(|sent| sent.value) {
        Some(any_value::Value::StringValue(text)) => text.into(),
        Some(any_value::Value::BoolValue(is)) => is.into(),
        Some(any_value::Value::IntValue(number)) => number.into(),
        Some(any_value::Value::DoubleValue(number)) => number.into(),
        other => panic!("unexpected type of attribute: {other:?}"),
    }
}
