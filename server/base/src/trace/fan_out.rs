use std::sync::Arc;

use encke_core::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, Status};

use super::span::{Parent, Span};
use super::text::truncated;

/// Fan-out of one message, possibly traced. A clone is kept by each log that contains the message, until its
/// waiting subscribers have been notified. The span ends when the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub struct FanOutTrace(Option<Arc<FanOutSpan>>);

/// Traced fan-outs of a log whose sweep is in progress. Usually empty.
#[derive(Debug, Default)]
pub struct FanOutTraces(Vec<FanOutTrace>);

#[derive(Debug)]
struct FanOutSpan {
    parent: Parent,
    channel: Box<str>,
    start: Timestamp,
}

impl FanOutTrace {
    pub(super) fn begin(parent: &Parent, channel: &str) -> Self {
        let (parent, channel) = (parent.clone(), truncated(channel).into());
        Self(Some(Arc::new(FanOutSpan { start: parent.now(), parent, channel })))
    }
}

impl FanOutTraces {
    pub fn add(&mut self, fan_out: &FanOutTrace) {
        if fan_out.0.is_some() {
            self.0.push(fan_out.clone());
        }
    }
}

impl Drop for FanOutSpan {
    fn drop(&mut self) {
        let Self { parent, channel, start } = self;
        parent.ended(Span {
            name: "fan out".into(),
            kind: SpanKind::Internal,
            start: *start,
            end: parent.now(),
            attributes: vec![KeyValue::new("messaging.destination.name", channel.to_string())],
            status: Status::Unset,
        });
    }
}
