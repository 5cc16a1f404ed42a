use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::clock::UnixTime;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReadLabels {
    outcome: &'static str,
}

const READ: &str = "read";
const FAILED: &str = "failed";

/// The issuer's keys. Without a set of keys all stay at zero.
#[derive(Debug, Default)]
pub(crate) struct IssuerMetrics {
    pub(super) reads: Family<ReadLabels, Counter>,
    pub(super) keys: Gauge,
    pub(super) read_at: Gauge,
}

impl IssuerMetrics {
    /// There is a set. Both outcomes are shown from here on.
    pub(crate) fn begin(&self) {
        for outcome in [READ, FAILED] {
            drop(self.reads.get_or_create(&ReadLabels { outcome }));
        }
    }

    /// The set was read, and has so many keys.
    pub(crate) fn read(&self, keys: usize, now: UnixTime) {
        self.reads.get_or_create(&ReadLabels { outcome: READ }).inc();
        self.keys.set(super::as_gauge(keys));
        self.read_at.set(now.as_secs().try_into().unwrap_or(i64::MAX));
    }

    /// It could not be read.
    pub(crate) fn failed(&self) {
        self.reads.get_or_create(&ReadLabels { outcome: FAILED }).inc();
    }
}
