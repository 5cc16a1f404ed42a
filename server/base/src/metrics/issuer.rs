use encke_timeouts::clock::UnixTime;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::gauge::as_gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReadLabels {
    outcome: &'static str,
}

const READ: &str = "read";
const FAILED: &str = "failed";

/// Metrics of the token issuer's key set. Without a key set, all of them stay at zero.
#[derive(Debug, Default)]
pub struct IssuerMetrics {
    pub(super) reads: Family<ReadLabels, Counter>,
    pub(super) keys: Gauge,
    pub(super) read_at: Gauge,
}

impl IssuerMetrics {
    /// Creates the counters of both outcomes, so that they are exported even while they are 0.
    pub fn create_series(&self) {
        for outcome in [READ, FAILED] {
            drop(self.reads.get_or_create(&ReadLabels { outcome }));
        }
    }

    /// Counts a successful read of the key set, and records the number of usable keys in it.
    pub fn read(&self, keys: usize, now: UnixTime) {
        self.reads.get_or_create(&ReadLabels { outcome: READ }).inc();
        self.keys.set(as_gauge(keys));
        self.read_at.set(now.as_secs().try_into().unwrap_or(i64::MAX));
    }

    /// Counts a failed read.
    pub fn failed(&self) {
        self.reads.get_or_create(&ReadLabels { outcome: FAILED }).inc();
    }
}
