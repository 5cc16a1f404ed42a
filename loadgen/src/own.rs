//! What the load generator itself takes: file descriptors, CPU, memory, and its own lag.

use std::cell::Cell;
use std::convert::Infallible;
use std::fs;
use std::time::Duration;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::report::{Group, millis, seconds};

/// Descriptors for everything that is not a connection.
const OTHER_DESCRIPTORS: u64 = 64;
const LAG_SAMPLE: Duration = Duration::from_millis(10);

/// Raises the descriptor limit as far as this process may, and checks that the connections fit.
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

/// How late this process's own tasks run. What it measures of the server is late by up to as much.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    longest: Cell<Duration>,
}

impl Lag {
    pub(crate) async fn watch(&self) -> Infallible {
        let mut sample = interval(LAG_SAMPLE);
        sample.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = sample.tick().await;
            self.longest.set(self.longest.get().max(Instant::now().saturating_duration_since(due)));
        }
    }

    /// The `loadgen` part of the report.
    pub(crate) fn and_usage(&self) -> Group {
        Group::default()
            .with("cpu_seconds", cpu_time().map(seconds))
            .with("peak_resident_bytes", peak_resident_bytes())
            .with("lag_ms_max", millis(self.longest.get()))
    }
}

/// User and system time of all threads of this process.
fn cpu_time() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    Some(as_duration(usage.user_time())? + as_duration(usage.system_time())?)
}

fn as_duration(time: TimeVal) -> Option<Duration> {
    let micros = u64::try_from(time.tv_usec()).ok()?;
    Some(Duration::from_secs(u64::try_from(time.tv_sec()).ok()?) + Duration::from_micros(micros))
}

/// The high-water mark of this program. (That of getrusage begins with what was forked to start it.)
fn peak_resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    Some(kibibytes.parse::<u64>().ok()? * 1024)
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
    fn the_process_knows_what_it_takes() {
        assert!(cpu_time().is_some());
        assert!(peak_resident_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
