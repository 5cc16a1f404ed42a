use encke_core::session::Transition;
use encke_timeouts::clock::UnixTime;
use serde::Serialize;

use super::call::ApiCall;
use super::sessions::{parse_id, unknown};
use crate::http::reply::json;
use crate::http::{ApiError, Reply};

/// Events of a session. Times are wall-clock times, in milliseconds since 1970.
#[derive(Serialize)]
struct TimelineResponse {
    /// Earliest time from which all events are known.
    since_ms: u64,
    events: Vec<TimelineEvent>,
}

#[derive(Serialize)]
struct TimelineEvent {
    at_ms: u64,
    event: &'static str,
    reason: &'static str,
}

/// `GET /api/sessions/{id}/timeline`
pub(super) fn show(call: &ApiCall) -> Result<Reply, ApiError> {
    let id = parse_id(&call.parameter)?;
    let life = call.context.client.sessions.lifecycle.history_of(id).ok_or_else(|| unknown(id))?;
    let event = |(at, transition): (UnixTime, Transition)| TimelineEvent {
        at_ms: at.as_millis(),
        event: transition.name(),
        reason: transition.reason(),
    };
    let events = life.events.into_iter().map(event).collect();
    Ok(json(&TimelineResponse { since_ms: life.since.as_millis(), events }))
}
