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
mod send;
mod sessions;
mod subscribe;
mod task;
mod timers;
mod users;

use std::time::Duration;

use crate::http::ApiError;

pub(crate) use health::HealthStatus;
pub(super) use timers::Timers;

/// How many entries a page has if nothing is said, and at most.
const DEFAULT_LIMIT: usize = 100;
const HIGHEST_LIMIT: usize = 1000;

/// Reads a `limit`.
fn parse_limit(text: &str) -> Result<usize, ApiError> {
    text.parse()
        .ok()
        .filter(|limit| (1..=HIGHEST_LIMIT).contains(limit))
        .ok_or_else(|| ApiError::bad_request(format!("limit must be from 1 to {HIGHEST_LIMIT}")))
}

fn unknown_parameter(name: &str) -> ApiError {
    ApiError::bad_request(format!("unknown parameter: {name}"))
}

/// Durations as the API shows them.
fn millis(duration: Duration) -> f64 {
    // To the microsecond; more is noise.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
