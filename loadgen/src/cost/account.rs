//! CPU time and memory that a process used during a run, computed from periodic readings and from the number
//! of open connections at each reading.

use std::time::Duration;

use serde::Serialize;

use super::steady::{ServerLoad, SteadyPeriod};
use crate::process::Reading;
use crate::result::{Mean, Total, seconds, summed};

/// Shortest interval for which CPU usage is computed: the kernel counts CPU time in ticks of 10 ms.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Shortest interval at the end of a phase and in brief phases, in which readings are taken ten times a
/// second. CPU usage measured over such an interval is accurate to a tenth of a core.
pub(super) const MIN_FAST_INTERVAL: Duration = Duration::from_millis(90);

#[derive(Debug)]
pub(crate) struct Account {
    before: Reading,
    last: Reading,
    /// Reading at the end of the last interval that was long enough.
    interval_start: Reading,
    /// CPU usage during the last interval, in cores.
    cores: Option<f64>,
    cores_peak: Option<f64>,
    resident_peak: u64,
    descriptors_peak: Option<u64>,
    threads_peak: u64,
    steady: Option<SteadyPeriod>,
}

impl Account {
    /// Creates an account. `before` is the reading taken before the first connection.
    pub(crate) fn new(before: Reading) -> Self {
        Self {
            before,
            last: before,
            interval_start: before,
            cores: None,
            cores_peak: None,
            resident_peak: before.resident_bytes,
            descriptors_peak: before.descriptors,
            threads_peak: before.threads,
            steady: None,
        }
    }

    pub(crate) fn add(&mut self, reading: Reading, load: ServerLoad) {
        self.add_each_second(reading, load);
    }

    /// Adds a reading taken at the end of a full second. Returns the same as [`Self::add_fast`].
    pub(crate) fn add_each_second(&mut self, reading: Reading, load: ServerLoad) -> Option<f64> {
        let ended = self.end_interval(&reading, MIN_INTERVAL);
        self.add_within(reading, load);
        ended
    }

    /// Adds a reading taken in a brief phase, or at the end of any phase. If the reading completes an
    /// interval, returns the CPU usage during that interval, in cores.
    pub(crate) fn add_fast(&mut self, reading: Reading, load: ServerLoad, ends_phase: bool) -> Option<f64> {
        let ended = self.end_interval(&reading, MIN_FAST_INTERVAL);
        if ends_phase {
            self.interval_start = reading;
        }
        self.add_within(reading, load);
        ended
    }

    /// Adds the reading taken after the run. The resident memory in this reading is reported separately and
    /// does not count towards the peak. Returns the same as [`Self::add_fast`].
    pub(crate) fn end(&mut self, reading: Reading, load: ServerLoad, is_fast: bool) -> Option<f64> {
        let shortest = if is_fast { MIN_FAST_INTERVAL } else { MIN_INTERVAL };
        let (ended, peak) = (self.end_interval(&reading, shortest), self.resident_peak);
        self.add_within(reading, load);
        self.resident_peak = peak;
        ended
    }

    fn end_interval(&mut self, reading: &Reading, shortest: Duration) -> Option<f64> {
        let time = reading.at.saturating_duration_since(self.interval_start.at);
        if time < shortest {
            return None;
        }
        let cores = cores(reading.cpu.saturating_sub(self.interval_start.cpu), time);
        self.interval_start = *reading;
        self.cores = Some(cores);
        self.cores_peak = self.cores_peak.max_of(self.cores);
        self.cores
    }

    /// Raises the peak to the mean of a phase that has ended, if the mean is higher. The mean includes time
    /// that was too short to form an interval.
    pub(super) fn end_phase(&mut self, mean: Option<f64>) {
        if mean > self.cores_peak {
            (self.cores, self.cores_peak) = (mean, mean);
        }
    }

    fn add_within(&mut self, reading: Reading, load: ServerLoad) {
        self.last = reading;
        self.resident_peak = self.resident_peak.max(reading.resident_bytes);
        self.descriptors_peak = self.descriptors_peak.max(reading.descriptors);
        self.threads_peak = self.threads_peak.max(reading.threads);
        self.steady = SteadyPeriod::after(self.steady, (reading, load));
    }

    pub(crate) fn cpu_seconds(&self) -> f64 {
        seconds(self.last.cpu.saturating_sub(self.before.cpu))
    }

    /// Returns the CPU usage during the last interval that was long enough, in cores.
    pub(crate) fn cores(&self) -> Option<f64> {
        self.cores
    }

    pub(crate) fn outcome(&self) -> ServerCost {
        let steady = self.steady.as_ref();
        ServerCost {
            cost: self.summary(),
            descriptors: Descriptors {
                before: self.before.descriptors,
                peak: self.descriptors_peak,
                after: self.last.descriptors,
            },
            threads_peak: self.threads_peak,
            steady_connections: steady.map(SteadyPeriod::connections),
            steady_seconds: steady.map(|steady| seconds(steady.time())),
        }
    }

    pub(crate) fn summary(&self) -> CostSummary {
        let Self { before, last, .. } = self;
        let steady = self.steady.as_ref();
        let mean = (last.at - before.at >= MIN_INTERVAL)
            .then(|| cores(last.cpu.saturating_sub(before.cpu), last.at - before.at));
        CostSummary {
            cores: Cores { mean: mean.map(Total), peak: self.cores_peak.map(Total) },
            resident_bytes: ResidentBytes {
                before: before.resident_bytes,
                steady: steady.map(SteadyPeriod::resident_bytes),
                peak: self.resident_peak,
                after: last.resident_bytes,
            },
            bytes_per_connection: steady
                .and_then(|steady| steady.bytes_per_connection(before))
                .map(Mean::from),
            cpu_ms_per_ping: steady.and_then(SteadyPeriod::cpu_ms_per_ping).map(Mean::from),
        }
    }
}

/// Resources that a server used.
#[derive(Serialize)]
pub(crate) struct ServerCost {
    #[serde(flatten)]
    cost: CostSummary,
    descriptors: Descriptors,
    threads_peak: u64,
    steady_connections: Option<u64>,
    steady_seconds: Option<f64>,
}

#[derive(Serialize)]
struct Descriptors {
    before: Option<u64>,
    peak: Option<u64>,
    after: Option<u64>,
}

summed! {
    /// CPU and memory of a process over a run.
    pub(crate) struct CostSummary {
        cores: Cores,
        resident_bytes: ResidentBytes,
        bytes_per_connection: Option<Mean>,
        cpu_ms_per_ping: Option<Mean>,
    }
}

impl CostSummary {
    pub(crate) fn peak_resident_bytes(&self) -> u64 {
        self.resident_bytes.peak
    }

    #[must_use]
    pub(crate) fn with_peak_resident_bytes(mut self, bytes: u64) -> Self {
        self.resident_bytes.peak = bytes;
        self
    }
}

summed! {
    struct Cores {
        mean: Option<Total>,
        peak: Option<Total>,
    }
}

summed! {
    struct ResidentBytes {
        before: u64,
        steady: Option<u64>,
        peak: u64,
        after: u64,
    }
}

pub(super) fn cores(cpu: Duration, time: Duration) -> f64 {
    (cpu.as_secs_f64() / time.as_secs_f64().max(f64::EPSILON) * 1e4).round() / 1e4
}

/// Maximum of two optional numbers.
trait MaxOf {
    fn max_of(self, other: Self) -> Self;
}

impl MaxOf for Option<f64> {
    fn max_of(self, other: Self) -> Self {
        self.into_iter().chain(other).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::result::Group;

    /// Values of a reading: second, CPU time in milliseconds, memory in bytes, connections, pings.
    type Row = (u64, u64, u64, u64, u64);

    fn account(rows: &[Row]) -> Account {
        let start = Instant::now();
        let reading = |(second, cpu_ms, resident_bytes, connections, pings): Row| {
            let at = start + Duration::from_secs(second);
            let cpu = Duration::from_millis(cpu_ms);
            let reading =
                Reading { at, cpu, resident_bytes, descriptors: Some(10 + connections), threads: 6 };
            (reading, ServerLoad { connections, pings })
        };
        let mut account = Account::new(reading(rows[0]).0);
        rows[1..].iter().for_each(|row| {
            let (reading, load) = reading(*row);
            account.add(reading, load);
        });
        account
    }

    #[test]
    fn a_hold_run_is_accounted_for() {
        let account = account(&[
            (0, 1000, 5_000, 0, 0),
            (1, 1800, 9_000, 50, 0),
            (2, 2400, 15_000, 100, 10),
            (3, 2500, 15_100, 100, 110),
            (4, 2600, 15_200, 100, 210),
            (5, 2650, 6_000, 0, 215),
        ]);
        let outcome = Group::of(&account.outcome());
        assert_eq!(account.cpu_seconds().to_string(), "1.65");
        for (path, number) in [
            ("cores.mean", 0.33),
            ("cores.peak", 0.8),
            ("resident_bytes.before", 5000.0),
            ("resident_bytes.steady", 15_200.0),
            ("resident_bytes.peak", 15_200.0),
            ("resident_bytes.after", 6000.0),
            ("descriptors.before", 10.0),
            ("descriptors.peak", 110.0),
            ("descriptors.after", 10.0),
            ("threads_peak", 6.0),
            ("steady_seconds", 2.0),
            ("steady_connections", 100.0),
            ("bytes_per_connection", 102.0),
            ("cpu_ms_per_ping", 1.0),
        ] {
            assert_eq!(outcome.number(path), Ok(number), "{path}");
        }
    }

    #[test]
    fn the_steady_period_has_the_most_connections() {
        let account = account(&[
            (0, 0, 0, 0, 0),
            (1, 0, 1_000, 1000, 0),
            (2, 0, 2_000, 995, 0),
            (3, 0, 9_000, 500, 0),
            (4, 0, 9_000, 1000, 0),
        ]);
        let outcome = Group::of(&account.outcome());
        assert_eq!(outcome.number("steady_seconds"), Ok(1.0));
        assert_eq!(outcome.number("steady_connections"), Ok(995.0));
        assert_eq!(outcome.number("bytes_per_connection"), Ok(2.0));
        assert!(outcome.number("cpu_ms_per_ping").is_err(), "no pings, so no cost of a ping");
    }

    #[test]
    fn a_run_without_a_second_has_no_rates() {
        let outcome = Group::of(&account(&[(0, 0, 0, 0, 0)]).outcome());
        for path in ["cores.mean", "cores.peak", "bytes_per_connection", "steady_connections"] {
            assert!(outcome.number(path).is_err(), "{path}");
        }
    }

    #[test]
    fn little_cpu_time_gives_no_cost_per_ping() {
        let account = account(&[(0, 0, 0, 0, 0), (1, 0, 0, 9, 0), (2, 90, 0, 9, 500)]);
        assert!(Group::of(&account.outcome()).number("cpu_ms_per_ping").is_err());
    }
}
