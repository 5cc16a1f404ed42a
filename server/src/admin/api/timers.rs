use std::sync::atomic::Ordering;
use std::time::Duration;

use encke_base::metrics::Lateness;
use encke_timeouts::{DISPATCH_BATCHES, TimerScheme};
use serde::Serialize;

use super::millis;
use crate::admin::context::Context;
use crate::http::Reply;
use crate::http::reply::json;

/// State of the wheel and of the dispatch of expiries, as shown by `/api/timers` and the dashboard.
#[derive(Serialize)]
pub(crate) struct TimersReport {
    scheme: TimerScheme,
    tick_ms: f64,
    entries: usize,
    /// Number of entries on each level of the scheme, finest level first.
    levels: Vec<usize>,
    lateness: Lateness,
    dispatch: DispatchStats,
    stalls: StallStats,
    since_last_turn_ms: f64,
}

#[derive(Serialize)]
struct DispatchStats {
    /// Number of queued batches, each of up to 64 expiries.
    depth: usize,
    capacity: usize,
    workers: usize,
    /// Age of the oldest expiry that no worker has processed yet.
    age_ms: f64,
}

#[derive(Serialize)]
struct StallStats {
    count: u64,
    stolen_ms: f64,
}

impl TimersReport {
    pub(crate) fn now(context: &Context) -> Self {
        let timeouts = &context.client.timeouts;
        let stats = &timeouts.stats;
        Self {
            scheme: context.timers.scheme,
            tick_ms: millis(context.timers.tick),
            entries: timeouts.entries(),
            levels: stats.occupancy().iter().map(|level| level.load(Ordering::Relaxed)).collect(),
            lateness: context.client.metrics.timers.lateness(),
            dispatch: DispatchStats {
                depth: context.batches.len(),
                capacity: DISPATCH_BATCHES,
                workers: context.timers.workers,
                age_ms: millis(timeouts.dispatch_age()),
            },
            stalls: StallStats {
                count: stats.stalls.load(Ordering::Relaxed),
                stolen_ms: millis(Duration::from_nanos(stats.stolen_nanos.load(Ordering::Relaxed))),
            },
            since_last_turn_ms: millis(timeouts.since_last_turn()),
        }
    }
}

/// `GET /api/timers`
pub(super) fn show(context: &Context) -> Reply {
    json(&TimersReport::now(context))
}
