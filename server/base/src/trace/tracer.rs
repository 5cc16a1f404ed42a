use std::sync::Arc;

use encke_core::Timestamp;
use encke_timeouts::Timeouts;

use super::context::TraceSampler;
use super::export::Exporter;
use super::settings::TraceSettings;
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::Metrics;

/// Creates traces and exports them.
#[derive(Debug)]
pub struct Tracer {
    pub(super) sampler: TraceSampler,
    /// Kind of the engine that appends messages.
    pub(super) engine: &'static str,
    pub(super) exporter: Arc<Exporter>,
    pub(super) timeouts: Arc<Timeouts>,
}

impl Tracer {
    /// Whether this build can trace.
    pub const IS_AVAILABLE: bool = true;

    /// Creates a tracer. Nothing is sent before [`Self::start`]. Returns `None` if this build cannot trace.
    pub fn new(
        settings: TraceSettings,
        engine: &'static str,
        timeouts: &Arc<Timeouts>,
        entropy: &Entropy,
        metrics: &Arc<Metrics>,
    ) -> Option<Arc<Self>> {
        let sampler = TraceSampler::new(settings.sample, entropy.clone());
        let exporter = Exporter::new(settings, Arc::clone(timeouts), entropy.clone(), Arc::clone(metrics));
        let (exporter, timeouts) = (Arc::new(exporter), Arc::clone(timeouts));
        Some(Arc::new(Self { sampler, engine, exporter, timeouts }))
    }

    /// Starts sending.
    pub fn start(&self, executor: &dyn Executor) {
        executor.spawn(Box::pin(Arc::clone(&self.exporter).run()));
    }

    pub(super) fn now(&self) -> Timestamp {
        self.timeouts.clock().now()
    }

    /// Sends queued spans without delay from now on.
    pub fn hurry(&self) {
        self.exporter.pending().hurry();
    }

    /// Waits until every queued span has been sent or dropped.
    pub async fn flushed(&self) {
        self.exporter.pending().flushed().await;
    }

    /// Number of spans that are queued or in flight.
    pub fn queued(&self) -> usize {
        self.exporter.pending().len()
    }
}
