//! What the kernel says about a process, from Linux's `/proc`.

use std::sync::Arc;
use std::time::Duration;

use procfs::process::ProcState;
use procfs::{ProcError, ProcResult};
use tokio::time::Instant;

/// What a process had taken at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    /// User and system time of all its threads since it began, to the kernel's clock tick.
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
    pub(crate) descriptors: Option<u64>,
    pub(crate) threads: u64,
}

/// Why there is no reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoReading {
    /// There is no such process, or there is none any more.
    Gone,
    Other(String),
}

/// A running process. It is held by its directory, so another one that gets its number later is not taken for it.
#[derive(Clone, Debug)]
pub(crate) struct Process(Arc<procfs::process::Process>);

impl Process {
    pub(crate) fn open(pid: u32) -> Result<Self, String> {
        let process = i32::try_from(pid).map_err(|_| NoReading::Gone).and_then(|pid| {
            let process = procfs::process::Process::new(pid)?;
            process.stat()?;
            Ok(Self(Arc::new(process)))
        });
        process.map_err(|why| match why {
            NoReading::Gone => format!("there is no process {pid} (that this one can see)"),
            NoReading::Other(why) => format!("cannot sample process {pid}: {why}"),
        })
    }

    /// This process, where there is a `/proc`.
    pub(crate) fn own() -> Option<Self> {
        procfs::process::Process::myself().ok().map(|process| Self(Arc::new(process)))
    }

    /// Where resident memory is read from. The roll-up of the mappings is exact, but only a process that may debug the
    /// other one can read it; `statm` is for everyone, and may be off by some hundred kilobytes.
    pub(crate) fn resident_from(&self) -> &'static str {
        if self.rolled_up_bytes().is_some() { "smaps_rollup" } else { "statm" }
    }

    pub(crate) fn reading(&self) -> Result<Reading, NoReading> {
        let at = Instant::now();
        let stat = self.0.stat()?;
        if matches!(stat.state()?, ProcState::Zombie | ProcState::Dead) {
            return Err(NoReading::Gone);
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

    /// What is resident now, and the most that has been since the program began.
    pub(crate) fn resident_and_peak_bytes(&self) -> Option<(u64, u64)> {
        let status = self.0.status().ok()?;
        // The kernel's "kB" are KiB.
        Some((status.vmrss? * 1024, status.vmhwm? * 1024))
    }
}

fn cpu_time(ticks: u64) -> Duration {
    let per_second = procfs::ticks_per_second().max(1);
    let rest = Duration::from_secs(ticks % per_second);
    Duration::from_secs(ticks / per_second) + rest / u32::try_from(per_second).unwrap_or(u32::MAX)
}

impl From<ProcError> for NoReading {
    fn from(error: ProcError) -> Self {
        match error {
            ProcError::NotFound(_) => Self::Gone,
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
    fn this_process_can_be_read_and_its_numbers_move() {
        let process = Process::open(std::process::id()).expect("this process is here");
        let before = process.reading().expect("it runs");
        assert!(before.resident_bytes > 100_000 && before.threads > 0);
        let files: Vec<_> = (0..64).map(|_| fs::File::open("/dev/null").expect("it is there")).collect();
        let mut held = vec![0_u8; 8 << 20];
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            held.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        }
        let after = process.reading().expect("it runs still");
        assert!(after.cpu > before.cpu);
        assert!(
            after.resident_bytes >= before.resident_bytes + (6 << 20),
            "{before:?} {after:?}, {}",
            held[0]
        );
        assert!(
            after.descriptors.zip(before.descriptors).is_some_and(|(after, before)| after > before),
            "{}",
            files.len()
        );
        assert!(["smaps_rollup", "statm"].contains(&process.resident_from()));
        assert!(process.resident_and_peak_bytes().is_some_and(|(now, peak)| 100_000 < now && now <= peak));
    }

    #[test]
    fn resident_memory_is_what_the_roll_up_says() {
        let mut sleeper = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep starts");
        let process = Process::open(sleeper.id()).expect("it is there");
        let told = || {
            let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", sleeper.id())).ok()?;
            let kibibytes =
                text.lines().find_map(|line| line.strip_prefix("Rss:"))?.trim().strip_suffix(" kB")?;
            Some(kibibytes.parse::<u64>().expect("a number") * 1024)
        };
        // It grows until it sleeps: what was read in between counts if the kernel says the same before and after.
        let (expected, read) = loop {
            let (before, read, after) = (told(), process.rolled_up_bytes(), told());
            if before == after {
                break (before, read);
            }
        };
        assert_eq!(read, expected);
        assert!(process.reading().expect("it runs").resident_bytes > 0);
        // It has ended, but its number is not free yet.
        sleeper.kill().expect("it is ours");
        let ended = || process.reading() == Err(NoReading::Gone);
        while !ended() {
            std::thread::yield_now();
        }
        sleeper.wait().expect("it is ours");
        assert!(ended(), "nor when nobody knows it any more");
    }

    #[test]
    fn a_process_that_is_not_there_is_reported() {
        for pid in [u32::MAX, i32::MAX.unsigned_abs()] {
            let error = Process::open(pid).expect_err("Linux numbers no process as high");
            assert!(error.contains(&format!("no process {pid}")), "{error}");
        }
    }

    #[test]
    fn ticks_are_a_share_of_a_second() {
        let second = procfs::ticks_per_second();
        assert_eq!(cpu_time(3 * second), Duration::from_secs(3));
        assert_eq!(cpu_time(second + second / 2), Duration::from_millis(1500));
    }
}
