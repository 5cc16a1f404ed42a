use encke_core::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, SpanKind, Status};

use super::fan_out::FanOutTrace;
use super::span::{Parent, Span, count_value};
use super::text::truncated;

/// A publish, possibly traced.
#[derive(Debug, Default)]
pub struct PublishTrace(Option<Box<TracedPublish>>);

#[derive(Debug)]
struct TracedPublish {
    /// Parent of this publish's spans.
    parent: Parent,
    /// The span of this publish, if the request has several publishes.
    own: Option<PublishSpan>,
    begins: Timestamp,
}

#[derive(Debug)]
struct PublishSpan {
    request: SpanId,
    channel: Box<str>,
    bytes: usize,
}

impl PublishTrace {
    pub const NONE: Self = Self(None);

    pub(super) fn without_own_span(parent: Parent) -> Self {
        Self::new(parent, None)
    }

    pub(super) fn with_own_span(request: &Parent, channel: &str, bytes: usize) -> Self {
        let parent = Parent { context: request.child(), ..request.clone() };
        let own =
            PublishSpan { request: request.context.span_id(), channel: truncated(channel).into(), bytes };
        Self::new(parent, Some(own))
    }

    fn new(parent: Parent, own: Option<PublishSpan>) -> Self {
        Self(Some(Box::new(TracedPublish { begins: parent.now(), parent, own })))
    }

    /// Begins the fan-out of the message, which is being appended to its logs.
    pub fn fan_out(&self, channel: &str) -> FanOutTrace {
        self.0
            .as_ref()
            .map_or_else(FanOutTrace::default, |traced| FanOutTrace::begin(&traced.parent, channel))
    }

    /// Records that the publish was rejected before the engine was called.
    pub fn refused(self, code: &'static str) {
        if let Some(traced) = self.0 {
            traced.end(Err(code), Vec::new());
        }
    }

    /// Records the response from the engine: the message's offset and its log's epoch, or an error code.
    pub fn answered(self, answer: Result<(u64, &str), &'static str>) {
        let Some(traced) = self.0 else { return };
        let TracedPublish { parent, begins, .. } = &*traced;
        let id = answer
            .ok()
            .map(|(offset, epoch)| KeyValue::new("messaging.message.id", format!("{epoch}:{offset}")));
        let mut attributes = vec![KeyValue::new("encke.engine", parent.tracer.engine)];
        attributes.extend(id.clone());
        let status = failed(answer.err(), &mut attributes);
        let (start, end) = (*begins, parent.now());
        let name = "append".into();
        parent.ended(Span { name, kind: SpanKind::Internal, start, end, attributes, status });
        traced.end(answer.map(|_| ()), id.into_iter().collect());
    }
}

impl TracedPublish {
    fn end(self, answer: Result<(), &'static str>, mut attributes: Vec<KeyValue>) {
        let Self { parent, own: Some(own), begins, .. } = self else { return };
        attributes.extend(destination(&own.channel, own.bytes));
        let status = failed(answer.err(), &mut attributes);
        let name = format!("publish {}", own.channel).into();
        let (start, end) = (begins, parent.now());
        parent.end(
            own.request,
            false,
            Span { name, kind: SpanKind::Producer, start, end, attributes, status },
        );
    }
}

/// Returns the status for an error code, which is also added to the attributes.
fn failed(code: Option<&'static str>, attributes: &mut Vec<KeyValue>) -> Status {
    let Some(code) = code else { return Status::Unset };
    attributes.push(KeyValue::new("error.type", code));
    Status::error(code)
}

/// Attributes of a publish: its channel, and the size of its data.
pub(super) fn destination(channel: &str, bytes: usize) -> [KeyValue; 5] {
    [
        KeyValue::new("messaging.system", "encke"),
        KeyValue::new("messaging.operation.type", "send"),
        KeyValue::new("messaging.operation.name", "publish"),
        KeyValue::new("messaging.destination.name", truncated(channel).to_owned()),
        KeyValue::new("messaging.message.body.size", count_value(bytes)),
    ]
}
