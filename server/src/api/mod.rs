//! Handlers of the admin API.

pub(crate) mod health;
pub(crate) mod sessions;
pub(crate) mod timers;

use std::time::Duration;

/// Durations as the API shows them.
fn millis(duration: Duration) -> f64 {
    // To the microsecond; more is noise.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
