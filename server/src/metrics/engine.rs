use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use serde::Serialize;

/// An engine that is elsewhere. With the memory engine all stay at zero.
#[derive(Debug)]
pub(crate) struct EngineMetrics {
    /// 1 if there is one.
    pub(super) elsewhere: Gauge,
    /// 1 while it can be reached.
    pub(super) up: Gauge,
    pub(super) connects: Counter,
    pub(super) life: Gauge,
    pub(super) publish_seconds: Histogram,
    pub(super) feed_lag_seconds: Histogram,
    pub(super) openings: Counter,
    /// Servers that share channels by it, this one included.
    pub(super) servers: Gauge,
}

/// Whether an engine that is elsewhere can be reached, and how many servers share channels by it.
#[derive(Serialize)]
pub(crate) struct EngineView {
    pub(crate) up: bool,
    pub(crate) servers: i64,
}

impl EngineMetrics {
    pub(super) fn new() -> Self {
        // From 50 microseconds to 1.6 seconds.
        let seconds = || Histogram::new(exponential_buckets(0.000_05, 2.0, 16));
        Self {
            elsewhere: Gauge::default(),
            up: Gauge::default(),
            connects: Counter::default(),
            life: Gauge::default(),
            publish_seconds: seconds(),
            feed_lag_seconds: seconds(),
            openings: Counter::default(),
            servers: Gauge::default(),
        }
    }

    /// What the dashboard shows of it.
    pub(crate) fn view(&self) -> EngineView {
        EngineView { up: self.up.get() == 1, servers: self.servers.get() }
    }

    /// There is one: what stays at zero means something.
    pub(crate) fn begin(&self) {
        self.elsewhere.set(1);
    }

    pub(crate) fn connected(&self) {
        self.connects.inc();
    }

    pub(crate) fn is_up(&self, is_up: bool) {
        self.up.set(i64::from(is_up));
    }

    /// So many servers share channels by it.
    pub(crate) fn servers(&self, servers: usize) {
        self.servers.set(i64::try_from(servers).unwrap_or(i64::MAX));
    }

    /// Which life of the engine it is.
    pub(crate) fn lives(&self, life: u64) {
        self.life.set(i64::try_from(life).unwrap_or(i64::MAX));
    }

    /// A publish was answered.
    pub(crate) fn published(&self, after: Duration) {
        self.publish_seconds.observe(after.as_secs_f64());
    }

    /// A probe has come back on the connection by which messages come.
    pub(crate) fn probed(&self, after: Duration) {
        self.feed_lag_seconds.observe(after.as_secs_f64());
    }

    /// Channels were opened: followed for the first time or again, or read because something was missing.
    pub(crate) fn opened(&self, channels: usize) {
        self.openings.inc_by(channels as u64);
    }
}
