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
    pub(super) fn set(&self, processor_time: Duration) {
        if let Some(bytes) = resident_bytes() {
            self.resident_bytes.set(bytes);
        }
        // Positive numbers are in the order of their bits.
        let seconds = processor_time.as_secs_f64().to_bits();
        self.processor_seconds.inner().fetch_max(seconds, Ordering::Relaxed);
    }
}

/// From the line `VmRSS:  1234 kB`.
fn resident_bytes() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_takes_something_and_time_never_goes_back() {
        let process = ProcessMetrics::default();
        for (seconds, shown) in [(2, 2.0), (5, 5.0), (4, 5.0)] {
            process.set(Duration::from_secs(seconds));
            assert_eq!(process.processor_seconds.get().to_bits(), f64::to_bits(shown));
        }
        assert!(process.resident_bytes.get() > 100_000, "{process:?}");
    }
}
