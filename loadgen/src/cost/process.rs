//! CPU time, memory, descriptors and threads of a process during a run, computed from one reading a second.

use std::time::Duration;

use indexmap::IndexMap;

use crate::process::Reading;
use crate::result::{Field, Group, path_name, seconds};

/// Shortest interval over which CPU usage is computed: the kernel counts CPU time in ticks of 10 ms.
const MIN_TIME: Duration = Duration::from_millis(90);
/// Shortest interval that counts for the peak of the CPU usage.
const MIN_PEAK_TIME: Duration = Duration::from_millis(500);
/// Minimum CPU time for computing a cost per ping: less is too inaccurate.
const MIN_CPU: Duration = Duration::from_millis(100);

/// Minimum number of connections for computing a cost per connection: with fewer, other memory dominates.
const MIN_CONNECTIONS: u64 = 10;

/// Load on the server at a given time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerLoad {
    pub(crate) connections: u64,
    /// Number of pings since the start.
    pub(crate) pings: u64,
}

impl ServerLoad {
    /// Returns the load of this many processes with the same load.
    pub(super) fn times(self, processes: u32) -> Self {
        let count = u64::from(processes);
        Self { connections: self.connections * count, pings: self.pings * count }
    }
}

#[derive(Clone, Copy, Debug)]
struct Part {
    first: Reading,
    last: Reading,
    /// The highest of each number.
    peak: Reading,
    cores_peak: Option<f64>,
}

impl Part {
    fn starting_with(first: Reading) -> Self {
        Self { first, last: first, peak: first, cores_peak: None }
    }

    fn add(&mut self, reading: &Reading) {
        let cores = cores(&self.last, reading, MIN_PEAK_TIME);
        let Reading { resident_bytes, descriptors, threads, .. } = self.peak;
        self.cores_peak = highest(self.cores_peak, cores);
        self.last = *reading;
        self.peak = Reading {
            resident_bytes: resident_bytes.max(reading.resident_bytes),
            descriptors: descriptors.max(reading.descriptors),
            threads: threads.max(reading.threads),
            ..*reading
        };
    }

    fn time(&self) -> Duration {
        self.last.at.saturating_duration_since(self.first.at)
    }

    fn cpu(&self) -> Duration {
        self.last.cpu.saturating_sub(self.first.cpu)
    }

    fn cores(&self) -> Group {
        let mean = cores(&self.first, &self.last, MIN_TIME);
        Group::default().with("mean", mean).with("peak", highest(self.cores_peak, mean))
    }
}

/// The period with the most open connections. It begins with the reading that has more than 1 % more
/// connections than any earlier reading, and ends before the first one that has more than 1 % fewer.
#[derive(Clone, Copy, Debug)]
struct Steady {
    from: (Reading, ServerLoad),
    to: (Reading, ServerLoad),
    is_ongoing: bool,
}

/// Resources that a process used during a run.
#[derive(Debug)]
pub(super) struct ProcessCost {
    whole: Part,
    /// The phases in the order in which they began.
    phases: IndexMap<String, Part>,
    steady: Option<Steady>,
    after: Option<Reading>,
}

impl ProcessCost {
    /// `before` is the reading taken before the first connection.
    pub(super) fn new(before: Reading) -> Self {
        Self { whole: Part::starting_with(before), phases: IndexMap::new(), steady: None, after: None }
    }

    /// Adds a reading. `phases` are all phases that have begun; the last one is the current one. A phase without
    /// a reading of its own gets the next one. Returns the CPU usage since the previous reading, in cores.
    pub(super) fn add(&mut self, reading: &Reading, load: ServerLoad, phases: &[String]) -> Option<f64> {
        let (before, now) = (self.whole.last, (*reading, load));
        self.whole.add(reading);
        if let Some((_, last)) = self.phases.last_mut() {
            last.add(reading);
        }
        for name in phases {
            self.phases.entry(name.clone()).or_insert_with(|| {
                let mut part = Part::starting_with(before);
                part.add(reading);
                part
            });
        }
        let most = self.steady.map_or(0, |steady| steady.from.1.connections);
        if load.connections * 100 > most * 101 {
            self.steady = Some(Steady { from: now, to: now, is_ongoing: true });
        } else if let Some(steady) = &mut self.steady {
            steady.is_ongoing &= load.connections * 100 >= most * 99;
            if steady.is_ongoing {
                steady.to = now;
            }
        }
        cores(&before, reading, MIN_TIME)
    }

    /// Adds the reading taken after loadgen has dropped its connections.
    pub(super) fn end(&mut self, reading: &Reading) {
        self.after = Some(*reading);
        if let Some((_, last)) = self.phases.last_mut() {
            last.last = *reading;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no process takes near 2^53 bytes")]
    pub(super) fn outcome(&self) -> Group {
        let Self { whole, steady, .. } = self;
        let after = self.after.unwrap_or(whole.last);
        let per_connection = steady.and_then(|Steady { to: (reading, load), .. }| {
            let grown = reading.resident_bytes.saturating_sub(whole.first.resident_bytes);
            (load.connections >= MIN_CONNECTIONS).then(|| (grown as f64 / load.connections as f64).round())
        });
        let per_ping = steady.and_then(|Steady { from, to, .. }| {
            let (pings, cpu) = (to.1.pings - from.1.pings, to.0.cpu.saturating_sub(from.0.cpu));
            let cpu_ms = || (cpu.as_secs_f64() * 1e7 / pings as f64).round() / 1e4;
            (pings > 0 && cpu >= MIN_CPU).then(cpu_ms)
        });
        let phases = self.phases.iter().map(|(name, part)| {
            let resident =
                Group::default().with("peak", part.peak.resident_bytes).with("end", part.last.resident_bytes);
            let cost = Group::default()
                .with("duration_seconds", seconds(part.time()))
                .with("cores", part.cores())
                .with("resident_bytes", resident);
            (path_name(name), Field::Group(cost))
        });
        let resident_bytes = Group::default()
            .with("before", whole.first.resident_bytes)
            .with("steady", steady.map(|steady| steady.to.0.resident_bytes))
            .with("peak", whole.peak.resident_bytes)
            .with("after", after.resident_bytes);
        let descriptors = Group::default()
            .with("before", whole.first.descriptors)
            .with("peak", whole.peak.descriptors)
            .with("after", after.descriptors);
        Group::default()
            .with("cpu_seconds", seconds(whole.cpu()))
            .with("cores", whole.cores())
            .with("resident_bytes", resident_bytes)
            .with("bytes_per_connection", per_connection)
            .with("cpu_ms_per_ping", per_ping)
            .with("descriptors", descriptors)
            .with("threads_peak", whole.peak.threads)
            .with("steady_connections", steady.map(|steady| steady.to.1.connections))
            .with("phases", Group(phases.collect()))
    }
}

/// Returns the CPU usage between two readings, in cores. `None` if there is too little time between them.
fn cores(from: &Reading, to: &Reading, shortest: Duration) -> Option<f64> {
    let time = to.at.saturating_duration_since(from.at);
    let cores = to.cpu.saturating_sub(from.cpu).as_secs_f64() / time.as_secs_f64();
    (time >= shortest).then(|| (cores * 1e4).round() / 1e4)
}

fn highest(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn costs_are_computed_by_phase_and_for_the_steady_period() {
        let start = Instant::now();
        let reading = |second: u64, cpu_ms: u64, resident_bytes: u64| Reading {
            at: start + Duration::from_secs(second),
            cpu: Duration::from_millis(cpu_ms),
            resident_bytes,
            descriptors: Some(second),
            threads: 3,
        };
        let load = |connections, pings| ServerLoad { connections, pings };
        let mut cost = ProcessCost::new(reading(0, 0, 1000));
        let phases = ["connect", "hold"].map(str::to_owned);
        cost.add(&reading(1, 500, 2000), load(50, 0), &phases[..1]);
        cost.add(&reading(2, 1000, 3000), load(100, 0), &phases);
        cost.add(&reading(3, 1200, 5000), load(100, 50), &phases);
        cost.add(&reading(4, 1200, 4000), load(10, 60), &phases);
        cost.end(&reading(5, 1200, 1500));
        let outcome = cost.outcome();
        for (path, expected) in [
            ("cpu_seconds", 1.2),
            ("cores.mean", 0.3),
            ("cores.peak", 0.5),
            ("resident_bytes.before", 1000.0),
            ("resident_bytes.steady", 5000.0),
            ("resident_bytes.peak", 5000.0),
            ("resident_bytes.after", 1500.0),
            ("bytes_per_connection", 40.0),
            ("cpu_ms_per_ping", 4.0),
            ("descriptors.after", 5.0),
            ("steady_connections", 100.0),
            ("phases.connect.cores.peak", 0.5),
            ("phases.hold.resident_bytes.peak", 5000.0),
            ("phases.hold.resident_bytes.end", 1500.0),
        ] {
            assert_eq!(outcome.number(path), Ok(expected), "{path}");
        }
    }
}
