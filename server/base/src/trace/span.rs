//! Spans that are built when the operation they describe has ended.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use encke_core::Timestamp;
use encke_timeouts::clock::Clock;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::tracer::Tracer;

/// Wall-clock time at one instant. A trace derives all its times from it, so that setting the wall clock
/// during the trace does not distort them.
#[derive(Clone, Copy, Debug)]
pub(super) struct WallClock {
    at: Timestamp,
    since_1970: Duration,
}

/// A started span that is the parent of others.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    pub(super) tracer: Arc<Tracer>,
    pub(super) context: SpanContext,
    pub(super) wall: WallClock,
}

/// A finished span.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) name: Cow<'static, str>,
    pub(super) kind: SpanKind,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Vec<KeyValue>,
    pub(super) status: Status,
}

impl WallClock {
    pub(super) fn of(clock: &Clock) -> Self {
        Self { at: clock.now(), since_1970: clock.since_1970() }
    }

    /// The instant at which the wall clock was read.
    pub(super) fn began(self) -> Timestamp {
        self.at
    }

    fn time(self, timestamp: Timestamp) -> SystemTime {
        UNIX_EPOCH + self.since_1970 + timestamp.since(self.at)
    }
}

impl Parent {
    /// Creates the context of a child span.
    pub(super) fn child(&self) -> SpanContext {
        self.tracer.sampler.child_of(&self.context)
    }

    /// Exports a finished child span.
    pub(super) fn ended(&self, span: Span) {
        self.send(self.child(), self.context.span_id(), false, span);
    }

    /// Exports this span, which has the given parent.
    pub(super) fn end(&self, parent: SpanId, is_remote: bool, span: Span) {
        self.send(self.context.clone(), parent, is_remote, span);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.tracer.now()
    }

    fn send(&self, span_context: SpanContext, parent_span_id: SpanId, is_remote: bool, span: Span) {
        let Span { name, kind, start, end, attributes, status } = span;
        self.tracer.exporter.push(SpanData {
            span_context,
            parent_span_id,
            parent_span_is_remote: is_remote,
            span_kind: kind,
            name,
            start_time: self.wall.time(start),
            end_time: self.wall.time(end.max(start)),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status,
            instrumentation_scope: scope(),
        });
    }
}

/// Instrumentation scope of all spans of the server.
fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("encke").with_version(env!("CARGO_PKG_VERSION")).build()
}

/// Converts a count to an attribute value.
pub(super) fn count_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
