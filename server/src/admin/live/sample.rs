use encke_base::metrics::{
    ConnectionsView, EngineView, LimitUsage, MessageCounts, ProcessView, Readings, SessionsView, TimerMetrics,
};
use serde::{Serialize, Serializer};

use super::limits::limits;
use crate::admin::api::TimersReport;
use crate::admin::context::Context;

/// A sample: the values of `/metrics` and `/api/timers`, read from the same counters.
#[derive(Serialize)]
pub(super) struct Sample<'a> {
    at_ms: u64,
    uptime_ms: u64,
    timers: TimersReport,
    #[serde(serialize_with = "expiries")]
    expiries: &'a TimerMetrics,
    #[serde(flatten)]
    sessions: SessionsView,
    #[serde(flatten)]
    connections: ConnectionsView,
    messages: MessageCounts,
    channels: usize,
    log_bytes: usize,
    reminders: usize,
    limits: Vec<LimitUsage<'a>>,
    engine: Option<EngineView>,
    process: ProcessView,
}

impl<'a> Sample<'a> {
    pub(super) fn now(context: &'a Context) -> Self {
        let client = &context.client;
        let (clock, metrics) = (client.timeouts.clock(), &client.metrics);
        let Readings { channels, log_bytes, reminders, process, .. } = context.readings();
        Self {
            at_ms: clock.unix_now().as_millis(),
            uptime_ms: u64::try_from(clock.uptime().as_millis()).unwrap_or(u64::MAX),
            timers: TimersReport::now(context),
            expiries: &metrics.timers,
            sessions: metrics.sessions.view(),
            connections: metrics.connections.view(),
            messages: metrics.channels.messages(),
            channels,
            log_bytes,
            reminders,
            limits: limits(context),
            engine: client.engine_health.is_some().then(|| metrics.engine.view()),
            process,
        }
    }
}

/// Serializes the number of expiries of each deadline.
fn expiries<S: Serializer>(timers: &TimerMetrics, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(timers.expiries())
}
