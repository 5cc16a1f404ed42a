//! Resource usage of the load generator itself: file descriptors, CPU, memory, and scheduling lag.

use std::cell::Cell;
use std::convert::Infallible;
use std::time::Duration;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::kernel::SampledProcess;
use crate::record::{Gauge, Recorder, Stalls};
use crate::result::{Highest, Total, millis, seconds, summed};

/// Descriptors reserved for everything except connections.
const OTHER_DESCRIPTORS: u64 = 64;
const LAG_SAMPLE: Duration = Duration::from_millis(10);
/// Minimum time for computing CPU usage: over shorter times, the kernel's CPU accounting is too coarse.
const MIN_CPU_SAMPLE: Duration = Duration::from_millis(500);

/// Raises the descriptor limit to its hard limit, and checks that the connections fit.
pub(crate) fn reserve_descriptors(connections: u32) -> Result<(), String> {
    let limits = getrlimit(Resource::RLIMIT_NOFILE);
    let (soft, hard) = limits.map_err(|error| format!("cannot read the descriptor limit: {error}"))?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .map_err(|error| format!("cannot raise the descriptor limit from {soft} to {hard}: {error}"))?;
    }
    check_descriptors(connections, hard)
}

fn check_descriptors(connections: u32, limit: u64) -> Result<(), String> {
    if u64::from(connections) + OTHER_DESCRIPTORS <= limit {
        return Ok(());
    }
    let room = limit.saturating_sub(OTHER_DESCRIPTORS);
    Err(format!(
        "{connections} connections do not fit: this process may open {limit} files (ulimit -Hn), which leaves \
         room for {room}; raise the limit or run several processes"
    ))
}

/// Scheduling lag and resource usage of this process. Its measurements of the server may be too high by as
/// much as the lag.
#[derive(Debug)]
pub(crate) struct SelfUsage {
    longest: Cell<Duration>,
    longest_of_second: Cell<Duration>,
    /// When the CPU time was last read, and its value.
    cpu_seen: Cell<(Instant, Option<Duration>)>,
    lag_ms: Gauge,
    cores: Gauge,
    resident_bytes: Gauge,
    /// The current process. `None` if there is no `/proc`.
    process: Option<SampledProcess>,
}

impl Default for SelfUsage {
    fn default() -> Self {
        Self {
            longest: Cell::default(),
            longest_of_second: Cell::default(),
            cpu_seen: Cell::new((Instant::now(), cpu_time())),
            lag_ms: Gauge::highest(),
            cores: Gauge::default(),
            resident_bytes: Gauge::default(),
            process: SampledProcess::own(),
        }
    }
}

impl SelfUsage {
    pub(crate) async fn watch(&self, stalls: &Stalls) -> Infallible {
        let mut sample = interval(LAG_SAMPLE);
        sample.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = sample.tick().await;
            let now = Instant::now();
            stalls.turn(now);
            let late = now.saturating_duration_since(due);
            self.longest.set(self.longest.get().max(late));
            self.longest_of_second.set(self.longest_of_second.get().max(late));
        }
    }

    pub(crate) fn record(&self, recorder: &Recorder) {
        recorder.gauge("loadgen.cores", &self.cores);
        recorder.gauge("loadgen.resident_bytes", &self.resident_bytes);
        recorder.gauge("loadgen.lag_ms", &self.lag_ms);
    }

    /// Updates the recorded gauges.
    #[expect(clippy::cast_precision_loss, reason = "no process takes near 2^53 bytes")]
    pub(crate) fn sample(&self) {
        let (then, cpu_then) = self.cpu_seen.get();
        let (now, cpu_now) = (Instant::now(), cpu_time());
        if now - then >= MIN_CPU_SAMPLE {
            let used = cpu_now.zip(cpu_then).map(|(now, then)| now.saturating_sub(then));
            let cores = |used: Duration| used.as_secs_f64() / (now - then).as_secs_f64();
            self.cores.set(used.map(|used| (cores(used) * 1e3).round() / 1e3));
            self.cpu_seen.set((now, cpu_now));
        }
        self.resident_bytes.set(self.resident_and_peak_bytes().map(|(now, _)| now as f64));
        self.lag_ms.set(Some(millis(self.longest_of_second.take())));
    }

    pub(crate) fn summary(&self) -> UsageSummary {
        UsageSummary {
            cpu_seconds: cpu_time().map(seconds).map(Total),
            peak_resident_bytes: self.resident_and_peak_bytes().map(|(_, peak)| peak),
            lag_ms_max: Highest(millis(self.longest.get())),
        }
    }

    /// Returns the current and the peak resident memory. Unlike the peak that getrusage reports, this peak
    /// does not include the process that was forked to start the program.
    fn resident_and_peak_bytes(&self) -> Option<(u64, u64)> {
        self.process.as_ref()?.resident_and_peak_bytes()
    }
}

summed! {
    /// First fields of the `loadgen` part of the result.
    pub(crate) struct UsageSummary {
        cpu_seconds: Option<Total>,
        peak_resident_bytes: Option<u64>,
        lag_ms_max: Highest,
    }
}

impl UsageSummary {
    pub(crate) fn peak_resident_bytes(&self) -> Option<u64> {
        self.peak_resident_bytes
    }

    #[must_use]
    pub(crate) fn with_peak_resident_bytes(mut self, bytes: Option<u64>) -> Self {
        self.peak_resident_bytes = bytes;
        self
    }
}

/// Returns the user and system time of all threads of this process.
fn cpu_time() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    Some(as_duration(usage.user_time())? + as_duration(usage.system_time())?)
}

fn as_duration(time: TimeVal) -> Option<Duration> {
    let micros = u64::try_from(time.tv_usec()).ok()?;
    Some(Duration::from_secs(u64::try_from(time.tv_sec()).ok()?) + Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_must_fit_the_limit() {
        assert_eq!(check_descriptors(19_000, 20_000), Ok(()));
        let error = check_descriptors(20_000, 20_000).expect_err("some descriptors are needed for the rest");
        assert!(error.contains("room for 19936"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cpu_time_is_available() {
        assert!(cpu_time().is_some());
    }
}
