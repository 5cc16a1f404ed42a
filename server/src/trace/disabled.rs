//! Replacements for the tracing types in a build without the feature `otlp`. They have no size and do
//! nothing.

use std::sync::Arc;

use encke_timeouts::Timeouts;
use hyper::{HeaderMap, StatusCode};

use super::TraceSettings;
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::Metrics;

/// Tracer type of a build without the feature `otlp`; it has no values.
#[derive(Debug)]
pub(crate) enum Tracer {}

/// A request that is not traced.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestTrace(());

/// A publish that is not traced.
#[derive(Debug, Default)]
pub(crate) struct PublishTrace(());

/// A fan-out that is not traced.
#[derive(Debug, Default)]
pub(crate) struct FanOutTrace(());

/// Empty set of traced fan-outs.
#[derive(Debug, Default)]
pub(crate) struct FanOutTraces(());

const _: () = assert!(size_of::<(RequestTrace, PublishTrace, FanOutTrace, FanOutTraces)>() == 0);

impl Tracer {
    pub(crate) const IS_AVAILABLE: bool = false;

    pub(crate) fn new(
        _: TraceSettings,
        _engine: &'static str,
        _: &Arc<Timeouts>,
        _: &Entropy,
        _: &Arc<Metrics>,
    ) -> Option<Arc<Self>> {
        None
    }

    pub(crate) fn start(&self, _: &dyn Executor) {
        match *self {}
    }

    pub(crate) fn begin(&self, _route: &'static str, _: &HeaderMap, _scheme: &'static str) -> RequestTrace {
        match *self {}
    }

    pub(crate) fn hurry(&self) {
        match *self {}
    }

    pub(crate) async fn flushed(&self) {
        match *self {}
    }

    pub(crate) fn queued(&self) -> usize {
        match *self {}
    }
}

impl RequestTrace {
    pub(crate) fn publish(&self, _channel: &str, _bytes: usize) -> PublishTrace {
        PublishTrace(())
    }

    pub(crate) fn publish_one_of_many(&self, _channel: &str, _bytes: usize) -> PublishTrace {
        PublishTrace(())
    }

    pub(crate) fn broadcast(&self, _channels: usize) {}

    pub(crate) fn end(&self, _status: StatusCode) {}
}

impl PublishTrace {
    pub(crate) const NONE: Self = Self(());

    pub(crate) fn refused(self, _code: &'static str) {}

    #[inline]
    pub(crate) fn fan_out(&self, _channel: &str) -> FanOutTrace {
        FanOutTrace(())
    }

    pub(crate) fn answered(self, _answer: Result<(u64, &str), &'static str>) {}
}

impl FanOutTraces {
    #[inline]
    pub(crate) fn add(&mut self, _: &FanOutTrace) {}
}
