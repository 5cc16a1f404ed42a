use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;

use super::millis;
use crate::admin::Context;
use crate::http::Reply;
use crate::http::reply::json;
use crate::metrics::Lateness;
use crate::timeouts::{DISPATCH_BATCHES, Scheme};

/// The wheel and the way of what expires, as `/api/timers` and the dashboard show it.
#[derive(Serialize)]
pub(crate) struct Timers {
    scheme: Scheme,
    tick_ms: f64,
    entries: usize,
    /// Entries per level of the scheme, the finest first.
    levels: Vec<usize>,
    lateness: Lateness,
    dispatch: Dispatch,
    stalls: Stalls,
    since_last_turn_ms: f64,
}

#[derive(Serialize)]
struct Dispatch {
    /// Messages of up to 64 expiries on their way to the workers.
    depth: usize,
    capacity: usize,
    workers: usize,
    /// How long the message that was taken up last had been on its way.
    age_ms: f64,
}

#[derive(Serialize)]
struct Stalls {
    count: u64,
    stolen_ms: f64,
}

impl Timers {
    pub(crate) fn now(context: &Context) -> Self {
        let timeouts = &context.client.timeouts;
        let stats = &timeouts.stats;
        Self {
            scheme: context.timers.scheme,
            tick_ms: millis(context.timers.tick),
            entries: timeouts.entries(),
            levels: stats.occupancy().iter().map(|level| level.load(Ordering::Relaxed)).collect(),
            lateness: context.client.metrics.timers.lateness(),
            dispatch: Dispatch {
                depth: context.batches.len(),
                capacity: DISPATCH_BATCHES,
                workers: context.timers.workers,
                age_ms: millis(timeouts.dispatch_age()),
            },
            stalls: Stalls {
                count: stats.stalls.load(Ordering::Relaxed),
                stolen_ms: millis(Duration::from_nanos(stats.stolen_nanos.load(Ordering::Relaxed))),
            },
            since_last_turn_ms: millis(timeouts.since_last_turn()),
        }
    }
}

/// `GET /api/timers`
pub(super) fn show(context: &Context) -> Reply {
    json(&Timers::now(context))
}
