//! Handlers of the admin API.

mod call;
mod channels;
mod health;
mod live;
mod metrics;
mod openapi;
mod other_servers;
mod presence;
mod publish;
mod reminders;
pub(crate) mod routes;
mod run_to_completion;
mod send;
mod sessions;
mod subscribe;
mod timeline;
mod timers;
mod users;

use std::time::Duration;

pub(super) use call::ApiCall;
pub use health::HealthStatus;
pub(crate) use metrics::metrics_text;
pub(crate) use other_servers::accept_forwarded;
pub(super) use timers::TimersReport;

/// Default number of entries per page. The maximum is `HIGHEST_LIMIT`.
const DEFAULT_LIMIT: usize = 100;
const HIGHEST_LIMIT: usize = 1000;

/// Converts a duration to milliseconds, as shown by the API.
fn millis(duration: Duration) -> f64 {
    // Round to microseconds; more digits would be noise.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
