use encke_core::session::Transition;
use serde::Serialize;

use super::routes::Call;
use super::sessions::{parse_id, unknown};
use crate::clock::UnixTime;
use crate::http::reply::json;
use crate::http::{ApiError, Reply};

/// Times are those of the wall clock, in milliseconds since 1970.
#[derive(Serialize)]
struct Timeline {
    /// Everything since then is known.
    since_ms: u64,
    events: Vec<Event>,
}

#[derive(Serialize)]
struct Event {
    at_ms: u64,
    event: &'static str,
    /// Why; `null` for the beginning.
    reason: Option<&'static str>,
}

/// `GET /api/sessions/{id}/timeline`
pub(super) fn show(call: &Call<'_>) -> Result<Reply, ApiError> {
    let id = parse_id(call.parameter)?;
    let life = call.context.client.sessions.life_of(id).ok_or_else(|| unknown(id))?;
    let events = life.events.into_iter().map(Event::from).collect();
    Ok(json(&Timeline { since_ms: life.since.as_millis(), events }))
}

impl From<(UnixTime, Transition)> for Event {
    fn from((at, transition): (UnixTime, Transition)) -> Self {
        let reason = Some(transition.reason()).filter(|_| transition != Transition::Opened);
        Self { at_ms: at.as_millis(), event: transition.name(), reason }
    }
}
