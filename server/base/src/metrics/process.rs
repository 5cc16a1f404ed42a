//! Resource use of the process, for both the metrics and the dashboard.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use encke_timeouts::clock::processor_time;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use rustix::process::{Resource, getrlimit};
use serde::{Serialize, Serializer};

/// Resource use of the process at one moment. Values that the kernel does not provide are left out.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ProcessView {
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes: Option<u64>,
    #[serde(skip)]
    virtual_bytes: Option<u64>,
    #[serde(rename = "cpu_ms", serialize_with = "as_millis")]
    processor_time: Duration,
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptors: Option<u64>,
    #[serde(skip)]
    max_descriptors: Option<u64>,
}

impl ProcessView {
    pub fn now() -> Self {
        let (virtual_bytes, resident_bytes) = memory().unzip();
        Self {
            resident_bytes,
            virtual_bytes,
            processor_time: processor_time(),
            descriptors: descriptors(),
            max_descriptors: getrlimit(Resource::Nofile).current,
        }
    }
}

/// Returns virtual and resident memory in bytes, from the first two numbers of `/proc/self/statm`, which are
/// in pages.
fn memory() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let page = u64::try_from(rustix::param::page_size()).ok()?;
    let mut bytes = text.split(' ').map_while(|pages| pages.parse::<u64>().ok()?.checked_mul(page));
    Some((bytes.next()?, bytes.next()?))
}

/// Returns the number of open file descriptors. Since version 6.2, Linux reports this number as the size of
/// `/proc/self/fd`; in earlier versions, the size is 0. Listing the directory instead would take longer with
/// each connection.
fn descriptors() -> Option<u64> {
    let open = fs::metadata("/proc/self/fd").ok()?.len();
    (open > 0).then_some(open)
}

fn as_millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Metrics of resource use, with names that are standard for all kinds of programs.
#[derive(Debug, Default)]
pub(super) struct ProcessMetrics {
    pub(super) resident_bytes: OptionalGauge,
    pub(super) virtual_bytes: OptionalGauge,
    pub(super) open_descriptors: OptionalGauge,
    pub(super) max_descriptors: OptionalGauge,
    pub(super) processor_seconds: Counter<f64, AtomicU64>,
    pub(super) started_at: Gauge<f64, AtomicU64>,
}

impl ProcessMetrics {
    /// Records the current resource use, and the start time as the time since 1970. Processor time never
    /// decreases.
    pub(super) fn set(&self, process: &ProcessView, started_at: Duration) {
        self.resident_bytes.set(process.resident_bytes);
        self.virtual_bytes.set(process.virtual_bytes);
        self.open_descriptors.set(process.descriptors);
        self.max_descriptors.set(process.max_descriptors);
        // Compare bit patterns, which for positive floats are in the same order as the values.
        let seconds = process.processor_time.as_secs_f64().to_bits();
        self.processor_seconds.inner().fetch_max(seconds, Ordering::Relaxed);
        self.started_at.set(started_at.as_secs_f64());
    }
}

/// A gauge that is not exported while its value is unknown, because 0 would be wrong.
#[derive(Clone, Debug)]
pub(super) struct OptionalGauge(Arc<AtomicI64>);

impl OptionalGauge {
    const UNKNOWN: i64 = -1;

    fn set(&self, value: Option<u64>) {
        let value = value.map_or(Self::UNKNOWN, |value| i64::try_from(value).unwrap_or(i64::MAX));
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|value| *value != Self::UNKNOWN)
    }
}

impl Default for OptionalGauge {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(Self::UNKNOWN)))
    }
}

impl EncodeMetric for OptionalGauge {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.get().map_or(Ok(()), |value| encoder.encode_gauge(&value))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn time_never_goes_back() {
        let process = ProcessMetrics::default();
        for (seconds, shown) in [(2, 2.0), (5, 5.0), (4, 5.0)] {
            let view = ProcessView { processor_time: Duration::from_secs(seconds), ..ProcessView::default() };
            process.set(&view, Duration::ZERO);
            assert_eq!(process.processor_seconds.get().to_bits(), f64::to_bits(shown));
        }
    }

    #[test]
    fn what_the_kernel_does_not_say_is_not_shown() {
        let process = ProcessMetrics::default();
        for (said, shown) in [(None, None), (Some(4096), Some(4096)), (Some(0), Some(0)), (None, None)] {
            process.set(&ProcessView { resident_bytes: said, ..ProcessView::default() }, Duration::ZERO);
            assert_eq!(process.resident_bytes.get(), shown);
        }
    }

    #[test]
    fn the_process_takes_something() {
        let process = ProcessView::now();
        assert!(process.resident_bytes >= Some(100_000), "{process:?}");
        assert!(process.virtual_bytes >= process.resident_bytes, "{process:?}");
        let Some(before) = descriptors() else { return };
        let listed = fs::read_dir("/proc/self/fd").expect("a folder").count() as u64;
        assert!(listed.abs_diff(before) <= 64, "{listed} and {before}; other tests open files, too");
        let files: Vec<_> = (0..300).map(|_| File::open("/proc/self/statm").expect("a file")).collect();
        assert!(descriptors() >= Some(before + 200), "{} more", files.len());
    }
}
