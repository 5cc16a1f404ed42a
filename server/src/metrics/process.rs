use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

/// What the process takes, by the names that programs of all kinds have for it.
#[derive(Debug, Default)]
pub(super) struct ProcessMetrics {
    pub(super) resident_bytes: Gauge,
    pub(super) processor_seconds: Counter<f64, AtomicU64>,
}

impl ProcessMetrics {
    /// What it takes now, and has taken of processors so far.
    pub(super) fn set(&self, resident_bytes: u64, processor_time: Duration) {
        self.resident_bytes.set(i64::try_from(resident_bytes).unwrap_or(i64::MAX));
        // Positive numbers are in the order of their bits.
        let seconds = processor_time.as_secs_f64().to_bits();
        self.processor_seconds.inner().fetch_max(seconds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let process = ProcessMetrics::default();
        for (seconds, shown) in [(2, 2.0), (5, 5.0), (4, 5.0)] {
            process.set(4096, Duration::from_secs(seconds));
            assert_eq!(process.processor_seconds.get().to_bits(), f64::to_bits(shown));
        }
        assert_eq!(process.resident_bytes.get(), 4096);
    }
}
