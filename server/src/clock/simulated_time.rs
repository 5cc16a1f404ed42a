use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{UnixTime, nanos};

/// The clocks of a simulation. They stand still until they are moved.
#[derive(Debug)]
pub struct SimulatedTime {
    elapsed_nanos: AtomicU64,
    /// The wall clock in nanoseconds since 1970.
    unix_nanos: AtomicU64,
}

impl SimulatedTime {
    /// The start, which is at `unix` by the wall clock.
    #[must_use]
    pub fn new(unix: UnixTime) -> Self {
        let time = Self { elapsed_nanos: AtomicU64::new(0), unix_nanos: AtomicU64::new(0) };
        time.set_unix(unix);
        time
    }

    /// Both clocks go on by `duration`.
    pub fn advance(&self, duration: Duration) {
        self.elapsed_nanos.fetch_add(nanos(duration), Ordering::Relaxed);
        self.unix_nanos.fetch_add(nanos(duration), Ordering::Relaxed);
    }

    /// The wall clock jumps, forwards or backwards.
    pub fn set_unix(&self, unix: UnixTime) {
        self.unix_nanos.store(nanos(unix.since(UnixTime::from_secs(0))), Ordering::Relaxed);
    }

    /// Since the start, by the monotonic clock.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_nanos.load(Ordering::Relaxed))
    }

    pub(super) fn unix_now(&self) -> UnixTime {
        UnixTime::since_epoch(Duration::from_nanos(self.unix_nanos.load(Ordering::Relaxed)))
    }
}
