//! Time. Nothing else reads a clock.
//!
//! Time that the server could not serve does not count: when the wheel thread wakes much later than it planned (a
//! stopped process, a suspended machine, starvation), what goes beyond `stall_threshold` is taken out of the
//! server's time for good. A freeze of thirty seconds closes no healthy session. Changes of the wall clock matter
//! only to the expiry of tokens, which state it in wall-clock time.

mod served_time;
#[cfg(any(test, feature = "simulation"))]
mod simulated_time;
mod unix_time;

use std::time::{Duration, Instant, SystemTime};

use encke_core::Timestamp;

use served_time::ServedTime;

pub(crate) use served_time::Turn;
#[cfg(any(test, feature = "simulation"))]
pub use simulated_time::SimulatedTime;
pub use unix_time::UnixTime;

/// The first instant, so that there is time before it and none is zero: sessions and messages of earlier processes have their age, and a
/// session ends when it has lived long enough through all of them. Ten years.
const START: Duration = Duration::from_hours(10 * 365 * 24);

/// Server time. Any thread may read it; the wheel thread alone moves its limit.
#[derive(Debug)]
pub(crate) struct Clock {
    source: Source,
    origin: Instant,
    served: ServedTime,
}

/// Where time comes from.
#[derive(Debug)]
enum Source {
    /// The clocks of the machine.
    Machine,
    /// The simulation, which moves both of its clocks itself.
    #[cfg(any(test, feature = "simulation"))]
    Simulated(std::sync::Arc<SimulatedTime>),
}

impl Clock {
    /// A clock whose time, once [`Clock::plan`] was called, runs at most `stall_threshold` beyond the plan.
    #[must_use]
    pub(crate) fn new(stall_threshold: Duration) -> Self {
        Self { source: Source::Machine, origin: now(), served: ServedTime::new(stall_threshold) }
    }

    /// The same on simulated time.
    #[must_use]
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn simulated(time: std::sync::Arc<SimulatedTime>, stall_threshold: Duration) -> Self {
        Self { source: Source::Simulated(time), ..Self::new(stall_threshold) }
    }

    /// The server's time.
    #[must_use]
    pub(crate) fn now(&self) -> Timestamp {
        // The limit first, then the monotonic clock: see `ServedTime::read`.
        self.served.read(|| self.monotonic())
    }

    /// Time since the start as the machine counts it, stalls included: for the watchdog, which looks for them.
    #[must_use]
    pub(crate) fn uptime(&self) -> Duration {
        match &self.source {
            Source::Machine => now().duration_since(self.origin),
            #[cfg(any(test, feature = "simulation"))]
            Source::Simulated(time) => time.elapsed(),
        }
    }

    /// The wall clock, for what a token says about time (`exp`, `nbf`) and for nothing else: it jumps.
    #[must_use]
    pub(crate) fn unix_now(&self) -> UnixTime {
        match &self.source {
            Source::Machine => unix_now(),
            #[cfg(any(test, feature = "simulation"))]
            Source::Simulated(time) => time.unix_now(),
        }
    }

    /// The wall clock as exactly as there is one, since 1970: what a trace tells its times by. It decides nothing.
    #[must_use]
    #[cfg(feature = "otlp")]
    pub(crate) fn since_1970(&self) -> Duration {
        match &self.source {
            Source::Machine => since_1970(),
            #[cfg(any(test, feature = "simulation"))]
            Source::Simulated(time) => Duration::from_millis(time.unix_now().as_millis()),
        }
    }

    /// For the wheel thread, on waking: the time, and how much was lost to a stall.
    pub(crate) fn turn(&self) -> Turn {
        self.served.turn(self.monotonic())
    }

    /// For the wheel thread, before it sleeps: no thread's time shall run much beyond the planned wake-up.
    pub(crate) fn plan(&self, wake_up: Timestamp) {
        self.served.plan(wake_up);
    }

    /// This clock's instants as hyper counts them.
    pub(crate) fn to_instant(&self, timestamp: Timestamp) -> Instant {
        self.origin + Duration::from_nanos(timestamp.as_nanos())
    }

    /// The reverse of [`Clock::to_instant`].
    pub(crate) fn timestamp_of(&self, instant: Instant) -> Timestamp {
        Timestamp::from_nanos(nanos(instant.saturating_duration_since(self.origin)))
    }

    fn monotonic(&self) -> u64 {
        nanos(START + self.uptime())
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
fn now() -> Instant {
    Instant::now()
}

/// The wall clock of the machine, for programs beside the server: that one has a clock of its own.
#[must_use]
pub fn unix_now() -> UnixTime {
    UnixTime::since_epoch(since_1970())
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
fn since_1970() -> Duration {
    // A clock that is set to before 1970 counts as 1970.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The machine's monotonic clock, for a supervisor on the same machine, which reads it, too.
#[must_use]
pub fn monotonic_now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // It begins with the machine, and does not go below zero.
    Duration::try_from(time).unwrap_or_default()
}

/// The time that the process has had on processors.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// A duration in nanoseconds: 584 years of them fit.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn instants_come_back_as_they_went() {
        let clock = Clock::new(Duration::from_millis(500));
        let now = clock.now();
        assert_eq!(clock.timestamp_of(clock.to_instant(now)), now);
    }

    #[test]
    fn simulated_time_passes_when_told_to() {
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
        assert_eq!(clock.now(), start + Duration::from_secs(4), "and nothing else minds");
    }

    #[test]
    fn a_simulated_stall_is_one() {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
        let clock = Clock::simulated(Arc::clone(&time), Duration::from_millis(500));
        clock.plan(clock.now() + Duration::from_millis(100));
        time.advance(Duration::from_secs(30));
        assert_eq!(clock.turn().stalled, Duration::from_millis(29_400));
    }
}
