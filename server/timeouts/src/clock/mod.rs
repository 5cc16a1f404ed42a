//! The server's clock. No other module reads the system's clocks.
//!
//! Time during which the server could not run does not count. If the wheel thread wakes much later than
//! planned (stopped process, suspended machine, starvation), the excess over `stall_threshold` is permanently
//! removed from server time. Therefore, a freeze of thirty seconds closes no healthy session. Changes of the
//! wall clock affect only the expiry of tokens, which is given in wall-clock time.

mod served_time;
#[cfg(feature = "simulation")]
mod simulated_time;
mod unix_time;

use std::time::{Duration, Instant, SystemTime};

use encke_core::Timestamp;

use served_time::ServedTime;
pub use served_time::nanos;

use served_time::TurnTime;
#[cfg(feature = "simulation")]
pub use simulated_time::SimulatedTime;
pub use unix_time::UnixTime;

/// Server time at startup: ten years, so that earlier times can be represented and no time is zero. Sessions
/// and messages from earlier processes keep their age, and a session reaches its maximum lifetime across
/// restarts.
const START_OFFSET: Duration = Duration::from_hours(10 * 365 * 24);

/// Server time. Any thread may read it; only the wheel thread moves its limit.
#[derive(Debug)]
pub struct Clock {
    source: TimeSource,
    origin: Instant,
    served: ServedTime,
}

/// Clocks from which the time is read.
#[derive(Debug)]
enum TimeSource {
    Machine,
    /// Simulated clocks, both advanced by the simulation.
    #[cfg(feature = "simulation")]
    Simulated(std::sync::Arc<SimulatedTime>),
}

impl Clock {
    /// Creates a clock that runs at most `stall_threshold` beyond the next planned wake-up of the wheel thread.
    /// Before the first plan, there is no limit.
    #[must_use]
    pub fn new(stall_threshold: Duration) -> Self {
        Self { source: TimeSource::Machine, origin: now(), served: ServedTime::new(stall_threshold) }
    }

    /// Creates a clock on simulated time.
    #[must_use]
    #[cfg(feature = "simulation")]
    pub fn simulated(time: std::sync::Arc<SimulatedTime>, stall_threshold: Duration) -> Self {
        Self { source: TimeSource::Simulated(time), ..Self::new(stall_threshold) }
    }

    /// Server time, which does not include stalls.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        // Read the limit before the monotonic clock: see `ServedTime::read`.
        self.served.read(|| self.monotonic())
    }

    /// Time since startup according to the machine's clock, including stalls. Used by the watchdog to detect
    /// stalls.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        match &self.source {
            TimeSource::Machine => now().duration_since(self.origin),
            #[cfg(feature = "simulation")]
            TimeSource::Simulated(time) => time.elapsed(),
        }
    }

    /// Time since the machine was started. Unlike [`Self::uptime`], it also advances while the machine is suspended. Used
    /// for leases.
    #[must_use]
    pub fn boot_time(&self) -> Duration {
        match &self.source {
            TimeSource::Machine => boot_time(),
            #[cfg(feature = "simulation")]
            TimeSource::Simulated(time) => time.elapsed(),
        }
    }

    /// The wall clock, which may jump. Used only for time claims of tokens (`exp`, `nbf`).
    #[must_use]
    pub fn unix_now(&self) -> UnixTime {
        UnixTime::since_epoch(self.since_1970())
    }

    /// Wall-clock time since 1970 with the highest available precision, for the timestamps of traces.
    #[must_use]
    pub fn since_1970(&self) -> Duration {
        match &self.source {
            TimeSource::Machine => since_1970(),
            #[cfg(feature = "simulation")]
            TimeSource::Simulated(time) => Duration::from_millis(time.unix_now().as_millis()),
        }
    }

    /// Returns the time, and how much time was lost to a stall. Called by the wheel thread when it wakes.
    pub(crate) fn turn(&self) -> TurnTime {
        self.served.turn(self.monotonic())
    }

    /// Limits server time, on every thread, to the stall threshold after the planned wake-up. Called by the
    /// wheel thread before it sleeps.
    pub(crate) fn plan_wake_up(&self, wake_up: Timestamp) {
        self.served.plan_wake_up(wake_up);
    }

    /// Converts a timestamp of this clock to hyper's `Instant`.
    pub(crate) fn to_instant(&self, timestamp: Timestamp) -> Instant {
        self.origin + Duration::from_nanos(timestamp.as_nanos())
    }

    /// Reverse of [`Clock::to_instant`].
    pub(crate) fn timestamp_of(&self, instant: Instant) -> Timestamp {
        Timestamp::from_nanos(nanos(instant.saturating_duration_since(self.origin)))
    }

    fn monotonic(&self) -> u64 {
        nanos(START_OFFSET + self.uptime())
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
fn now() -> Instant {
    Instant::now()
}

fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Negative times cannot occur: the clock starts at zero.
    Duration::try_from(time).unwrap_or_default()
}

/// The machine's wall clock, for programs other than the server, which has its own clock.
#[must_use]
pub fn unix_now() -> UnixTime {
    UnixTime::since_epoch(since_1970())
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
fn since_1970() -> Duration {
    // A wall clock set before 1970 counts as 1970.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The machine's monotonic clock, for a supervisor on the same machine that compares it with its own reading.
#[must_use]
pub fn monotonic_now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The clock starts at boot and is never negative.
    Duration::try_from(time).unwrap_or_default()
}

/// Processor time used by the process.
#[must_use]
pub fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn instants_round_trip() {
        let clock = Clock::new(Duration::from_millis(500));
        let now = clock.now();
        assert_eq!(clock.timestamp_of(clock.to_instant(now)), now);
    }

    #[test]
    fn simulated_time_advances_only_when_told() {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(1_000)));
        let clock = Clock::simulated(Arc::clone(&time), Duration::from_millis(500));
        let start = clock.now();
        assert_eq!(clock.uptime(), Duration::ZERO);
        time.advance(Duration::from_secs(3));
        assert_eq!(clock.now(), start + Duration::from_secs(3));
        assert_eq!(clock.uptime(), Duration::from_secs(3));
        assert_eq!(clock.unix_now(), UnixTime::from_secs(1_003));
        time.set_unix(UnixTime::from_secs(500));
        time.advance(Duration::from_secs(1));
        assert_eq!(clock.unix_now(), UnixTime::from_secs(501), "the wall clock may jump");
        assert_eq!(clock.now(), start + Duration::from_secs(4), "server time is not affected");
    }

    #[test]
    fn a_simulated_stall_is_detected() {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
        let clock = Clock::simulated(Arc::clone(&time), Duration::from_millis(500));
        clock.plan_wake_up(clock.now() + Duration::from_millis(100));
        time.advance(Duration::from_secs(30));
        assert_eq!(clock.turn().stalled, Duration::from_millis(29_400));
    }
}
