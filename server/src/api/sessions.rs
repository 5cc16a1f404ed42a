use std::sync::Arc;

use encke_core::close::CloseReason;
use encke_core::session::{Input, Phase};
use serde::Serialize;

use super::millis;
use crate::http::reply::{json, no_content};
use crate::http::{ApiError, Reply};
use crate::server::Shared;
use crate::session::{BadSessionId, SessionCell, SessionId, SessionView, Transport};

const DEFAULT_LIMIT: usize = 100;
const HIGHEST_LIMIT: usize = 1000;

#[derive(Serialize)]
struct Page {
    sessions: Vec<Summary>,
    /// Where the next page begins. A page that was filtered may be short, or empty, and not the last.
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct Summary {
    id: String,
    phase: &'static str,
    transport: Transport,
    dialect: &'static str,
    age_ms: f64,
    last_heard_ms: f64,
}

#[derive(Serialize)]
struct Detail {
    #[serde(flatten)]
    summary: Summary,
    seq: u64,
    close_reason: Option<&'static str>,
    deadlines: Vec<Remaining>,
}

#[derive(Serialize)]
struct Remaining {
    deadline: &'static str,
    remaining_ms: f64,
}

struct Filter {
    phase: Option<String>,
    limit: usize,
    cursor: Option<SessionId>,
}

/// `GET /api/sessions?phase=&limit=&cursor=`
pub(crate) fn list(shared: &Shared, query: &str) -> Result<Reply, ApiError> {
    let filter = Filter::parse(query)?;
    let now = shared.timeouts.clock().now();
    let page = shared.sessions.registry().after(filter.cursor, filter.limit);
    let next_cursor =
        (page.len() == filter.limit).then(|| page.last()).flatten().map(|last| last.id().to_string());
    let sessions = page
        .iter()
        .map(|session| Summary::from(&session.view(now)))
        .filter(|summary| filter.phase.as_ref().is_none_or(|phase| phase == summary.phase))
        .collect();
    Ok(json(&Page { sessions, next_cursor }))
}

/// `GET /api/sessions/{id}`
pub(crate) fn show(shared: &Shared, id: &str) -> Result<Reply, ApiError> {
    let view = find(shared, id)?.view(shared.timeouts.clock().now());
    let remaining = |&(deadline, remaining): &(encke_core::session::Deadline, _)| Remaining {
        deadline: deadline.as_str(),
        remaining_ms: millis(remaining),
    };
    Ok(json(&Detail {
        summary: Summary::from(&view),
        seq: view.seq,
        close_reason: match view.phase {
            Phase::Closed(reason) => Some(reason.as_str()),
            Phase::Attached(_) | Phase::Suspended => None,
        },
        deadlines: view.deadlines.iter().map(remaining).collect(),
    }))
}

/// `POST /api/sessions/{id}/disconnect`
pub(crate) fn disconnect(shared: &Shared, id: &str) -> Result<Reply, ApiError> {
    shared.sessions.handle(&find(shared, id)?, Input::Disconnect);
    Ok(no_content())
}

/// `DELETE /api/sessions/{id}`
pub(crate) fn end(shared: &Shared, id: &str) -> Result<Reply, ApiError> {
    shared.sessions.handle(&find(shared, id)?, Input::Close(CloseReason::Kicked));
    Ok(no_content())
}

fn find(shared: &Shared, id: &str) -> Result<Arc<SessionCell>, ApiError> {
    let id = parse_id(id)?;
    shared.sessions.registry().get(id).ok_or_else(|| ApiError::not_found(format!("no such session: {id}")))
}

fn parse_id(id: &str) -> Result<SessionId, ApiError> {
    id.parse().map_err(|error: BadSessionId| ApiError::bad_request(error.to_string()))
}

impl Filter {
    fn parse(query: &str) -> Result<Self, ApiError> {
        let mut filter = Self { phase: None, limit: DEFAULT_LIMIT, cursor: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match (&*name, &*value) {
                ("phase", "attached" | "suspended") => filter.phase = Some(value.into_owned()),
                ("phase", _) => return Err(ApiError::bad_request("phase must be attached or suspended")),
                ("limit", limit) => {
                    filter.limit =
                        limit.parse().ok().filter(|limit| (1..=HIGHEST_LIMIT).contains(limit)).ok_or_else(
                            || ApiError::bad_request(format!("limit must be from 1 to {HIGHEST_LIMIT}")),
                        )?;
                }
                ("cursor", cursor) => filter.cursor = Some(parse_id(cursor)?),
                (name, _) => return Err(ApiError::bad_request(format!("unknown parameter: {name}"))),
            }
        }
        Ok(filter)
    }
}

impl From<&SessionView> for Summary {
    fn from(view: &SessionView) -> Self {
        Self {
            id: view.id.to_string(),
            phase: view.phase_name(),
            transport: view.transport,
            dialect: "json",
            age_ms: millis(view.age),
            last_heard_ms: millis(view.last_heard),
        }
    }
}
