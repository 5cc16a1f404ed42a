//! Spans, made by hand: what they are about is over when they are made.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use encke_core::Timestamp;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::tracer::Tracer;
use crate::clock::Clock;

/// What others have written is told up to so many bytes: what waits is bounded in bytes, too. No channel has a name as long as that by default.
const LONGEST_TEXT: usize = 256;

/// The wall clock at one instant, by which a trace tells its times: so the wall clock may be set while it goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wall {
    at: Timestamp,
    since_1970: Duration,
}

/// A span that has begun, under which others are.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    pub(super) tracer: Arc<Tracer>,
    pub(super) context: SpanContext,
    pub(super) wall: Wall,
}

/// A span that is over.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) name: Cow<'static, str>,
    pub(super) kind: SpanKind,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Vec<KeyValue>,
    pub(super) status: Status,
}

impl Wall {
    pub(super) fn of(clock: &Clock) -> Self {
        Self { at: clock.now(), since_1970: clock.since_1970() }
    }

    /// When this is said.
    pub(super) fn began(self) -> Timestamp {
        self.at
    }

    fn time(self, timestamp: Timestamp) -> SystemTime {
        UNIX_EPOCH + self.since_1970 + timestamp.since(self.at)
    }
}

impl Parent {
    /// The context of a span under this one.
    pub(super) fn child(&self) -> SpanContext {
        self.tracer.admission.child_of(&self.context)
    }

    /// A span under this one is over.
    pub(super) fn ended(&self, span: Span) {
        self.send(self.child(), self.context.span_id(), false, span);
    }

    /// This span is over, whose own parent is `parent`.
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

/// What the server is to those who look at traces.
fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("encke").with_version(env!("CARGO_PKG_VERSION")).build()
}

/// As much of a text as is told.
pub(super) fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_TEXT)]
}

/// A number, as attributes have them.
pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
