//! CPU and memory of a process in each phase of a run.

use std::time::Duration;

use indexmap::IndexMap;
use serde::Serialize;

use super::account::{MIN_FAST_INTERVAL, cores};
use crate::process::Reading;
use crate::result::seconds;

/// Maximum number of phases to record. Later phases are ignored.
const MAX_PHASES: usize = 256;

/// Phases in the order in which they began. Entering a phase again continues the existing one.
#[derive(Debug, Default)]
pub(super) struct Phases {
    all: IndexMap<String, PhaseUsage>,
    current: String,
}

#[derive(Debug)]
struct PhaseUsage {
    /// Reading taken when the phase was last entered.
    from: Reading,
    last: Reading,
    time_before: Duration,
    cpu_before: Duration,
    cores_peak: Option<f64>,
    resident_peak: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct PhaseCost {
    duration_seconds: f64,
    cores: Cores,
    resident_bytes: ResidentBytes,
}

#[derive(Debug, Serialize)]
struct Cores {
    mean: Option<f64>,
    peak: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ResidentBytes {
    peak: u64,
    /// Resident memory at the end of the phase.
    end: u64,
}

impl Phases {
    pub(super) fn current(&self) -> &str {
        &self.current
    }

    /// Adds a reading taken in the phase `name`. Must be called when a phase begins. `cores` is the mean CPU
    /// usage over an interval that ends with this reading and lies within the phase of the previous reading.
    /// Returns the mean of the phase that this reading ended, if any.
    pub(super) fn add(&mut self, name: &str, reading: &Reading, cores: Option<f64>) -> Option<f64> {
        if let Some(phase) = self.all.get_mut(&self.current) {
            phase.add(reading, cores);
            // Ignore memory resident after the run: it does not belong to the last phase.
            if !name.is_empty() {
                phase.resident_peak = phase.resident_peak.max(reading.resident_bytes);
            }
        }
        if name == self.current {
            return None;
        }
        let mean = self.end();
        name.clone_into(&mut self.current);
        if !name.is_empty() {
            self.enter(reading);
        }
        mean
    }

    /// Ends the current phase and returns its mean CPU usage.
    pub(super) fn end(&mut self) -> Option<f64> {
        let phase = self.all.get_mut(&self.current)?;
        let mean = phase.mean();
        phase.note_cores(mean);
        mean
    }

    fn enter(&mut self, reading: &Reading) {
        if let Some(phase) = self.all.get_mut(&self.current) {
            (phase.time_before, phase.cpu_before) = (phase.time(), phase.cpu());
            (phase.from, phase.last) = (*reading, *reading);
        } else if self.all.len() < MAX_PHASES {
            let phase = PhaseUsage {
                from: *reading,
                last: *reading,
                time_before: Duration::ZERO,
                cpu_before: Duration::ZERO,
                cores_peak: None,
                resident_peak: reading.resident_bytes,
            };
            self.all.insert(self.current.clone(), phase);
        }
    }

    /// Returns the results by phase name. Characters that a result path does not allow are replaced with `_`.
    pub(super) fn outcome(&self) -> IndexMap<String, PhaseCost> {
        let path_name = |name: &str| {
            name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).collect()
        };
        self.all.iter().map(|(name, phase)| (path_name(name), phase.outcome())).collect()
    }
}

impl PhaseUsage {
    fn add(&mut self, reading: &Reading, cores: Option<f64>) {
        self.last = *reading;
        self.note_cores(cores);
    }

    fn note_cores(&mut self, cores: Option<f64>) {
        self.cores_peak = self.cores_peak.into_iter().chain(cores).reduce(f64::max);
    }

    fn mean(&self) -> Option<f64> {
        (self.time() >= MIN_FAST_INTERVAL).then(|| cores(self.cpu(), self.time()))
    }

    fn time(&self) -> Duration {
        self.time_before + self.last.at.saturating_duration_since(self.from.at)
    }

    fn cpu(&self) -> Duration {
        self.cpu_before + self.last.cpu.saturating_sub(self.from.cpu)
    }

    fn outcome(&self) -> PhaseCost {
        PhaseCost {
            duration_seconds: seconds(self.time()),
            cores: Cores { mean: self.mean(), peak: self.cores_peak },
            resident_bytes: ResidentBytes { peak: self.resident_peak, end: self.last.resident_bytes },
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::cost::ServerLoad;
    use crate::cost::account::Account;
    use crate::result::Group;

    #[test]
    fn each_phase_has_its_own_peak() {
        let start = Instant::now();
        let reading = |at_ms: u64, cpu_ms: u64, resident_bytes: u64| Reading {
            at: start + Duration::from_millis(at_ms),
            cpu: Duration::from_millis(cpu_ms),
            resident_bytes,
            descriptors: None,
            threads: 1,
        };
        let (mut account, mut phases) = (Account::new(reading(0, 0, 10)), Phases::default());
        for (name, at_ms, cpu_ms, bytes) in [
            ("connect", 0, 0, 10),
            ("connect", 1000, 120, 20),
            ("hold", 1500, 150, 25),
            ("hold", 2000, 160, 25),
            ("resume", 2700, 160, 25),
            ("resume", 2800, 240, 60),
            ("resume", 2900, 320, 50),
            ("", 2950, 330, 30),
        ] {
            let reading = reading(at_ms, cpu_ms, bytes);
            let ends_phase = phases.current() != name;
            let cores = account.add_fast(reading, ServerLoad::default(), ends_phase);
            account.end_phase(phases.add(name, &reading, cores));
        }
        let outcome = Group::of(&phases.outcome());
        for (path, number) in [
            ("connect.cores.peak", 0.12),
            ("connect.cores.mean", 0.1),
            ("hold.cores.peak", 0.02),
            ("hold.resident_bytes.peak", 25.0),
            ("resume.cores.peak", 0.8),
            ("resume.cores.mean", 0.68),
            ("resume.duration_seconds", 0.25),
            ("hold.resident_bytes.end", 25.0),
            ("resume.resident_bytes.peak", 60.0),
            ("resume.resident_bytes.end", 30.0),
        ] {
            assert_eq!(outcome.number(path), Ok(number), "{path}");
        }
        assert_eq!(Group::of(&account.outcome()).number("cores.peak"), Ok(0.8));
    }

    #[test]
    fn no_phase_has_a_higher_peak_than_the_run() {
        let start = Instant::now();
        let (mut account, mut phases) = (Account::new(reading(start, 0, 0)), Phases::default());
        // The last 80 ms count towards the phase's mean, but are too short for an interval.
        for (name, at_ms, cpu_ms) in [
            ("connect", 0, 0),
            ("connect", 1000, 100),
            ("resume", 1000, 100),
            ("resume", 1100, 150),
            ("", 1180, 230),
        ] {
            let reading = reading(start, at_ms, cpu_ms);
            let ends_phase = phases.current() != name;
            let cores = account.add_fast(reading, ServerLoad::default(), ends_phase);
            account.end_phase(phases.add(name, &reading, cores));
        }
        let peak = Group::of(&phases.outcome()).number("resume.cores.peak");
        assert_eq!(peak, Ok(0.7222));
        assert_eq!(Group::of(&account.outcome()).number("cores.peak"), peak);
        assert_eq!(account.cores(), Some(0.7222), "the series shows the same");
    }

    fn reading(start: Instant, at_ms: u64, cpu_ms: u64) -> Reading {
        Reading {
            at: start + Duration::from_millis(at_ms),
            cpu: Duration::from_millis(cpu_ms),
            resident_bytes: 10,
            descriptors: None,
            threads: 1,
        }
    }
}
