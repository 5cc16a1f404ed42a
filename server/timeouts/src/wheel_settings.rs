use std::time::Duration;

use crate::scheme::TimerScheme;

/// Settings of the wheel thread.
#[derive(Clone, Copy, Debug)]
pub struct WheelSettings {
    /// Structure that holds the timers.
    pub scheme: TimerScheme,
    /// The wheel's unit of time.
    pub tick: Duration,
    /// Lateness from which a turn counts as a stall: the excess is removed from server time.
    pub stall_threshold: Duration,
    /// Minimum delay after an expiry at which a session usually requests its next expiry: the delay until the
    /// pong for the ping just sent is due.
    pub rearm_delay: Duration,
}

impl WheelSettings {
    /// Maximum sleep, regardless of the next expiry. When the wheel receives a timer, its current tick may be
    /// this far behind.
    pub fn longest_sleep(&self) -> Duration {
        self.stall_threshold / 2
    }
}
