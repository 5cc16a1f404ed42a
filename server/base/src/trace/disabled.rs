//! Replacements for the tracing types in a build without the feature `otlp`. They have no size and do
//! nothing.

use std::sync::Arc;

use encke_timeouts::Timeouts;
use hyper::{HeaderMap, StatusCode};

use super::settings::TraceSettings;
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::Metrics;

/// Tracer type of a build without the feature `otlp`; it has no values.
#[derive(Debug)]
pub enum Tracer {}

/// A request that is not traced.
#[derive(Clone, Debug, Default)]
pub struct RequestTrace(());

/// A publish that is not traced.
#[derive(Debug, Default)]
pub struct PublishTrace(());

/// A fan-out that is not traced.
#[derive(Debug, Default)]
pub struct FanOutTrace(());

/// Empty set of traced fan-outs.
#[derive(Debug, Default)]
pub struct FanOutTraces(());

const _: () = assert!(size_of::<(RequestTrace, PublishTrace, FanOutTrace, FanOutTraces)>() == 0);

impl Tracer {
    pub const IS_AVAILABLE: bool = false;

    pub fn new(
        _: TraceSettings,
        _engine: &'static str,
        _: &Arc<Timeouts>,
        _: &Entropy,
        _: &Arc<Metrics>,
    ) -> Option<Arc<Self>> {
        None
    }

    pub fn start(&self, _: &dyn Executor) {
        match *self {}
    }

    pub fn begin(&self, _route: &'static str, _: &HeaderMap, _scheme: &'static str) -> RequestTrace {
        match *self {}
    }

    pub fn hurry(&self) {
        match *self {}
    }

    pub async fn flushed(&self) {
        match *self {}
    }

    pub fn queued(&self) -> usize {
        match *self {}
    }
}

impl RequestTrace {
    pub fn publish(&self, _channel: &str, _bytes: usize) -> PublishTrace {
        PublishTrace(())
    }

    pub fn publish_one_of_many(&self, _channel: &str, _bytes: usize) -> PublishTrace {
        PublishTrace(())
    }

    pub fn broadcast(&self, _channels: usize) {}

    pub fn end(&self, _status: StatusCode) {}
}

impl PublishTrace {
    pub const NONE: Self = Self(());

    pub fn refused(self, _code: &'static str) {}

    #[inline]
    pub fn fan_out(&self, _channel: &str) -> FanOutTrace {
        FanOutTrace(())
    }

    pub fn answered(self, _answer: Result<(u64, &str), &'static str>) {}
}

impl FanOutTraces {
    #[inline]
    pub fn add(&mut self, _: &FanOutTrace) {}
}
