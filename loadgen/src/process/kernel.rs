//! Resource usage of a process, from Linux's `/proc`.

use std::sync::Arc;
use std::time::Duration;

use procfs::process::ProcState;
use procfs::{ProcError, ProcResult};
use thiserror::Error;
use tokio::time::Instant;

/// Resource usage of a process at a given time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    /// User and system time of all threads since the process began, in units of the kernel's clock tick.
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
    pub(crate) descriptors: Option<u64>,
    pub(crate) threads: u64,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum ReadingError {
    /// The process does not exist, or has ended.
    #[error("it has ended")]
    Ended,
    #[error("{0}")]
    Other(String),
}

/// A running process, identified by its open `/proc` directory, so that a later process with the same id is
/// not mistaken for it.
#[derive(Clone, Debug)]
pub(crate) struct SampledProcess(Arc<procfs::process::Process>);

impl SampledProcess {
    pub(crate) fn open(pid: u32) -> Result<Self, String> {
        let process = i32::try_from(pid).map_err(|_| ReadingError::Ended).and_then(|pid| {
            let process = procfs::process::Process::new(pid)?;
            process.stat()?;
            Ok(Self(Arc::new(process)))
        });
        process.map_err(|why| match why {
            ReadingError::Ended => format!("there is no process {pid}, or it is not visible"),
            ReadingError::Other(why) => format!("cannot sample process {pid}: {why}"),
        })
    }

    /// Opens the current process. `None` if there is no `/proc`.
    pub(crate) fn own() -> Option<Self> {
        procfs::process::Process::myself().ok().map(|process| Self(Arc::new(process)))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.pid()
    }

    /// Returns the source of the resident memory size. `smaps_rollup` is exact, but only readable by a
    /// process that may debug the other one; `statm` is readable by everyone, and may be off by a few hundred
    /// kilobytes.
    pub(crate) fn resident_from(&self) -> &'static str {
        if self.rolled_up_bytes().is_some() { "smaps_rollup" } else { "statm" }
    }

    pub(crate) fn reading(&self) -> Result<Reading, ReadingError> {
        let at = Instant::now();
        let stat = self.0.stat()?;
        if matches!(stat.state()?, ProcState::Zombie | ProcState::Dead) {
            return Err(ReadingError::Ended);
        }
        Ok(Reading {
            at,
            cpu: cpu_time(stat.utime.saturating_add(stat.stime)),
            resident_bytes: self.resident_bytes()?,
            descriptors: self.0.fd_count().ok().map(|count| count as u64),
            threads: u64::try_from(stat.num_threads).unwrap_or_default(),
        })
    }

    fn resident_bytes(&self) -> ProcResult<u64> {
        match self.rolled_up_bytes() {
            Some(bytes) => Ok(bytes),
            None => Ok(self.0.statm()?.resident * procfs::page_size()),
        }
    }

    fn rolled_up_bytes(&self) -> Option<u64> {
        let maps = self.0.smaps_rollup().ok()?.memory_map_rollup;
        maps.into_iter().find_map(|map| map.extension.map.get("Rss").copied())
    }
}

fn cpu_time(ticks: u64) -> Duration {
    let per_second = procfs::ticks_per_second().max(1);
    let rest = Duration::from_secs(ticks % per_second);
    Duration::from_secs(ticks / per_second) + rest / u32::try_from(per_second).unwrap_or(u32::MAX)
}

impl From<ProcError> for ReadingError {
    fn from(error: ProcError) -> Self {
        match error {
            ProcError::NotFound(_) => Self::Ended,
            other => Self::Other(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn readings_of_this_process_change() {
        let process = SampledProcess::own().expect("Linux has /proc");
        let before = process.reading().expect("the process is running");
        assert!(before.resident_bytes > 100_000 && before.threads > 0);
        let files: Vec<_> = (0..64).map(|_| fs::File::open("/dev/null").expect("/dev/null exists")).collect();
        let mut held = vec![0_u8; 8 << 20];
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            held.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        }
        let after = process.reading().expect("the process is running");
        assert!(after.cpu > before.cpu);
        assert!(after.resident_bytes >= before.resident_bytes + (6 << 20), "{before:?} {after:?}");
        assert!(after.descriptors > before.descriptors, "{} files, {} bytes", files.len(), held.len());
        assert!(["smaps_rollup", "statm"].contains(&process.resident_from()));
    }

    #[test]
    fn a_process_that_has_ended_is_reported() {
        let mut sleeper = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep starts");
        let process = SampledProcess::open(sleeper.id()).expect("the child is running");
        assert!(process.reading().expect("the process is running").resident_bytes > 0);
        // Kill the process without waiting for it: it has ended, but its id is not free yet.
        sleeper.kill().expect("the child can be killed");
        let ended = || process.reading() == Err(ReadingError::Ended);
        while !ended() {
            std::thread::yield_now();
        }
        sleeper.wait().expect("the child can be waited for");
        assert!(ended(), "still reported as ended after the wait");
        for pid in [u32::MAX, i32::MAX.unsigned_abs()] {
            let error = SampledProcess::open(pid).expect_err("no Linux process has such a high number");
            assert!(error.contains(&format!("no process {pid}")), "{error}");
        }
    }

    #[test]
    fn ticks_are_converted_to_durations() {
        let second = procfs::ticks_per_second();
        assert_eq!(cpu_time(3 * second), Duration::from_secs(3));
        assert_eq!(cpu_time(second + second / 2), Duration::from_millis(1500));
    }
}
