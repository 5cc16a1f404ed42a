use std::sync::Arc;

use encke_core::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, SpanKind, Status};

use super::delivery::Delivery;
use super::span::{Parent, Span, beginning, number};

/// A publish, if it is traced.
#[derive(Debug, Default)]
pub(crate) struct Publish(Option<Box<Publishing>>);

#[derive(Debug)]
struct Publishing {
    /// What its spans are under.
    parent: Parent,
    /// The span of this publish, where the request has several.
    own: Option<Own>,
    begins: Timestamp,
    delivery: Arc<Delivery>,
}

#[derive(Debug)]
struct Own {
    request: SpanId,
    channel: Box<str>,
    bytes: usize,
}

impl Publish {
    pub(crate) const NONE: Self = Self(None);

    pub(super) fn under(parent: Parent, channel: &str) -> Self {
        Self::new(parent, None, channel)
    }

    pub(super) fn with_a_span(request: &Parent, channel: &str, bytes: usize) -> Self {
        let parent = Parent { context: request.child(), ..request.clone() };
        let own = Own { request: request.context.span_id(), channel: beginning(channel).into(), bytes };
        Self::new(parent, Some(own), channel)
    }

    fn new(parent: Parent, own: Option<Own>, channel: &str) -> Self {
        let delivery = Arc::new(Delivery::new(parent.clone(), channel));
        Self(Some(Box::new(Publishing { begins: parent.now(), parent, own, delivery })))
    }

    /// What becomes of its message once it is in a log.
    pub(super) fn delivery(&self) -> Option<&Arc<Delivery>> {
        self.0.as_ref().map(|publishing| &publishing.delivery)
    }

    /// No engine was asked.
    pub(crate) fn refused(self, code: &'static str) {
        if let Some(publishing) = self.0 {
            publishing.end(Err(code), Vec::new());
        }
    }

    /// The engine has answered: the message's number and its log's epoch, or why it is in no log.
    pub(crate) fn answered(self, answer: Result<(u64, &str), &'static str>) {
        let Some(publishing) = self.0 else { return };
        let Publishing { parent, begins, .. } = &*publishing;
        let id = answer
            .ok()
            .map(|(offset, epoch)| KeyValue::new("messaging.message.id", format!("{epoch}:{offset}")));
        let mut attributes = vec![KeyValue::new("encke.engine", parent.tracer.engine)];
        attributes.extend(id.clone());
        let status = failed(answer.err(), &mut attributes);
        let (start, end) = (*begins, parent.now());
        let name = "append".into();
        parent.ended(Span { name, kind: SpanKind::Internal, start, end, attributes, status });
        publishing.end(answer.map(|_| ()), id.into_iter().collect());
    }
}

impl Publishing {
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

/// The status that says so.
fn failed(code: Option<&'static str>, attributes: &mut Vec<KeyValue>) -> Status {
    let Some(code) = code else { return Status::Unset };
    attributes.push(KeyValue::new("error.type", code));
    Status::error(code)
}

/// What is published, and where to: of its data, the length alone.
pub(super) fn destination(channel: &str, bytes: usize) -> [KeyValue; 5] {
    [
        KeyValue::new("messaging.system", "encke"),
        KeyValue::new("messaging.operation.type", "send"),
        KeyValue::new("messaging.operation.name", "publish"),
        KeyValue::new("messaging.destination.name", beginning(channel).to_owned()),
        KeyValue::new("messaging.message.body.size", number(bytes)),
    ]
}
