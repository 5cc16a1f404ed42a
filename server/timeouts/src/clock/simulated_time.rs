use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{UnixTime, nanos};

/// Clocks of a simulation, which advance only when the simulation advances them.
#[derive(Debug)]
pub struct SimulatedTime {
    elapsed_nanos: AtomicU64,
    /// Wall clock in nanoseconds since 1970.
    unix_nanos: AtomicU64,
}

impl SimulatedTime {
    /// Creates clocks whose wall clock starts at `unix`.
    #[must_use]
    pub fn new(unix: UnixTime) -> Self {
        let time = Self { elapsed_nanos: AtomicU64::new(0), unix_nanos: AtomicU64::new(0) };
        time.set_unix(unix);
        time
    }

    /// Advances both clocks by `duration`.
    pub fn advance(&self, duration: Duration) {
        self.elapsed_nanos.fetch_add(nanos(duration), Ordering::Relaxed);
        self.unix_nanos.fetch_add(nanos(duration), Ordering::Relaxed);
    }

    /// Sets the wall clock, which may jump forwards or backwards.
    pub fn set_unix(&self, unix: UnixTime) {
        self.unix_nanos.store(nanos(unix.since(UnixTime::from_secs(0))), Ordering::Relaxed);
    }

    /// Time since the start according to the monotonic clock.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_nanos.load(Ordering::Relaxed))
    }

    pub(super) fn unix_now(&self) -> UnixTime {
        UnixTime::since_epoch(Duration::from_nanos(self.unix_nanos.load(Ordering::Relaxed)))
    }
}
