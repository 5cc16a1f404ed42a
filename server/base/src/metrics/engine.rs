use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use serde::Serialize;

/// Metrics of a remote engine. With the memory engine, all of them stay at zero.
#[derive(Debug)]
pub struct EngineMetrics {
    /// 1 if the engine is remote.
    pub(super) remote: Gauge,
    /// 1 while the engine can be reached.
    pub(super) up: Gauge,
    pub(super) connects: Counter,
    pub(super) generation: Gauge,
    pub(super) publish_seconds: Histogram,
    pub(super) feed_lag_seconds: Histogram,
    pub(super) channel_opens: Counter,
    /// Number of servers that share channels through the engine, including this one.
    pub(super) servers: Gauge,
}

/// Engine metrics as shown by the dashboard: whether the engine can be reached, and how many servers share
/// channels through it.
#[derive(Debug, Serialize)]
pub struct EngineView {
    pub up: bool,
    pub servers: i64,
}

impl EngineMetrics {
    pub(super) fn new() -> Self {
        // Use buckets from 50 µs to 1.6 s.
        let seconds = || Histogram::new(exponential_buckets(0.000_05, 2.0, 16));
        Self {
            remote: Gauge::default(),
            up: Gauge::default(),
            connects: Counter::default(),
            generation: Gauge::default(),
            publish_seconds: seconds(),
            feed_lag_seconds: seconds(),
            channel_opens: Counter::default(),
            servers: Gauge::default(),
        }
    }

    pub fn view(&self) -> EngineView {
        EngineView { up: self.up.get() == 1, servers: self.servers.get() }
    }

    /// Records that the engine is remote. Otherwise the other metrics have no meaning.
    pub fn enable(&self) {
        self.remote.set(1);
    }

    pub fn connected(&self) {
        self.connects.inc();
    }

    pub fn set_up(&self, is_up: bool) {
        self.up.set(i64::from(is_up));
    }

    pub fn set_servers(&self, servers: usize) {
        self.servers.set(i64::try_from(servers).unwrap_or(i64::MAX));
    }

    /// Records the generation of the engine's data set.
    pub fn set_generation(&self, life: u64) {
        self.generation.set(i64::try_from(life).unwrap_or(i64::MAX));
    }

    /// Records how long a publish took until the engine replied.
    pub fn published(&self, after: Duration) {
        self.publish_seconds.observe(after.as_secs_f64());
    }

    /// Records the delay of a probe message that was received on the connection for messages.
    pub fn observe_feed_lag(&self, after: Duration) {
        self.feed_lag_seconds.observe(after.as_secs_f64());
    }

    /// Counts channels that were opened: subscribed, subscribed again, or read because messages were missing.
    pub fn channels_opened(&self, channels: usize) {
        self.channel_opens.inc_by(channels as u64);
    }
}
