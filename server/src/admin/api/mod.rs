//! Handlers of the admin API.

mod channels;
mod health;
mod live;
mod metrics;
mod openapi;
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

use crate::http::ApiError;

pub use health::HealthStatus;
pub(super) use timers::TimersReport;

/// Default number of entries per page. The maximum is `HIGHEST_LIMIT`.
const DEFAULT_LIMIT: usize = 100;
const HIGHEST_LIMIT: usize = 1000;

/// Parses a `limit`.
fn parse_limit(text: &str) -> Result<usize, ApiError> {
    text.parse()
        .ok()
        .filter(|limit| (1..=HIGHEST_LIMIT).contains(limit))
        .ok_or_else(|| ApiError::bad_request(format!("limit must be from 1 to {HIGHEST_LIMIT}")))
}

fn unknown_parameter(name: &str) -> ApiError {
    ApiError::bad_request(format!("unknown parameter: {name}"))
}

/// Converts a duration to milliseconds, as shown by the API.
fn millis(duration: Duration) -> f64 {
    // Round to microseconds; more digits would be noise.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
