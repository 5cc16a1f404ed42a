use std::net::IpAddr;
use std::sync::Arc;

use encke_core::close::CloseReason;
use encke_core::dialect::DialectName;
use encke_core::session::{Input, Phase};
use serde::Serialize;

use super::call::ApiCall;
use super::millis;
use crate::http::reply::{json, no_content};
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::{Channel, InvalidSessionId, SessionHandle, SessionId, SessionView, Transport};

/// Maximum number of sessions examined for one page. If few sessions match the filter, a short page is
/// returned quickly instead of a full page late.
const MAX_EXAMINED: usize = 10_000;

#[derive(Serialize)]
struct SessionPage {
    sessions: Vec<SessionSummary>,
    /// Start of the next page. A filtered page may be short, or even empty, without being the last page.
    next_cursor: Option<u32>,
}

#[derive(Serialize)]
struct SessionSummary {
    id: String,
    /// User of the session, from the `sub` claim of the client's token.
    user: Option<String>,
    phase: &'static str,
    transport: Transport,
    dialect: DialectName,
    address: Option<IpAddr>,
    age_ms: f64,
    last_heard_ms: f64,
}

#[derive(Serialize)]
struct SessionDetail {
    #[serde(flatten)]
    summary: SessionSummary,
    seq: u64,
    /// Number of messages that were sent and not acknowledged yet.
    unacked: usize,
    subscriptions: Vec<SubscriptionState>,
    close_reason: Option<&'static str>,
    deadlines: Vec<RemainingDeadline>,
}

#[derive(Serialize)]
struct SubscriptionState {
    channel: String,
    /// Offset of the last message that the session has read.
    cursor: u64,
    /// Number of messages that the session has not read, including messages already dropped from the log.
    backlog: u64,
}

#[derive(Serialize)]
struct RemainingDeadline {
    deadline: &'static str,
    remaining_ms: f64,
}

/// `GET /api/sessions?phase=&user=&limit=&cursor=`
pub(super) fn list(call: &ApiCall) -> Result<Reply, ApiError> {
    let query = call.query();
    let (limit, phase) = (query.limit()?, query.get("phase"));
    if !matches!(phase, None | Some("attached" | "suspended")) {
        return Err(ApiError::bad_request("phase must be attached or suspended"));
    }
    let first_slot = query.get("cursor").unwrap_or("0").parse();
    let bad_cursor = |_| ApiError::bad_request("cursor must be a next_cursor of an earlier page");
    let now = call.context.client.timeouts.clock().now();
    let all = &call.context.client.sessions;
    let mut sessions = Vec::new();
    let (mut next_cursor, mut looked_at) = (Some(first_slot.map_err(bad_cursor)?), 0);
    while let Some(cursor) = next_cursor
        && sessions.len() < limit
        && looked_at < MAX_EXAMINED
    {
        let wanted = limit - sessions.len();
        let (found, next) = match query.get("user") {
            Some(user) => all.table.of_user(user, cursor, wanted),
            None => all.table.registry().page(cursor, wanted),
        };
        let summaries =
            found.iter().map(|session| SessionSummary::from(&session.view(now, all.lifecycle.settings())));
        sessions.extend(summaries.filter(|summary| phase.is_none_or(|phase| phase == summary.phase)));
        next_cursor = next;
        looked_at += found.len().max(1);
    }
    Ok(json(&SessionPage { sessions, next_cursor }))
}

/// `GET /api/sessions/{id}`
pub(super) fn show(call: &ApiCall) -> Result<Reply, ApiError> {
    let session = find(call)?;
    let client = &call.context.client;
    let view = session.view(client.timeouts.clock().now(), client.sessions.lifecycle.settings());
    let remaining = |&(deadline, remaining): &(encke_core::session::Deadline, _)| RemainingDeadline {
        deadline: deadline.as_str(),
        remaining_ms: millis(remaining),
    };
    Ok(json(&SessionDetail {
        summary: SessionSummary::from(&view),
        seq: view.seq,
        unacked: view.unacked,
        subscriptions: session.subscriptions().iter().map(SubscriptionState::from).collect(),
        close_reason: match view.phase {
            Phase::Closed(reason) => Some(reason.as_str()),
            Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended | Phase::Moved => None,
        },
        deadlines: view.deadlines.iter().map(remaining).collect(),
    }))
}

/// `POST /api/sessions/{id}/disconnect`
pub(super) fn disconnect(call: &ApiCall) -> Result<Reply, ApiError> {
    let session = find(call)?;
    call.context.client.sessions.lifecycle.handle(&session, Input::Disconnect);
    Ok(no_content())
}

/// `DELETE /api/sessions/{id}`
pub(super) fn end(call: &ApiCall) -> Result<Reply, ApiError> {
    let session = find(call)?;
    call.context.client.sessions.lifecycle.handle(&session, Input::Close(CloseReason::Kicked));
    match session.phase() {
        Phase::Moved => Err(moved()),
        Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended | Phase::Closed(_) => Ok(no_content()),
    }
}

/// Returns the error for a change to a session that has moved: the session may already be in the snapshot, so
/// the next process would not know of the change.
pub(super) fn moved() -> ApiError {
    let message =
        "the server is shutting down; the session continues in the next process: repeat the request there";
    ApiError::new(ApiErrorCode::Draining, message)
}

pub(super) fn find(call: &ApiCall) -> Result<SessionHandle, ApiError> {
    let id = parse_id(&call.parameter)?;
    let session = call.context.client.sessions.table.registry().get(id);
    session.ok_or_else(|| unknown(id))
}

pub(super) fn unknown(id: SessionId) -> ApiError {
    ApiError::not_found(format!("no such session: {id}"))
}

pub(super) fn parse_id(id: &str) -> Result<SessionId, ApiError> {
    id.parse().map_err(|error: InvalidSessionId| ApiError::bad_request(error.to_string()))
}

impl From<&(Arc<Channel>, u64)> for SubscriptionState {
    fn from((channel, cursor): &(Arc<Channel>, u64)) -> Self {
        Self {
            channel: channel.name().client_name().to_owned(),
            cursor: *cursor,
            backlog: channel.last_offset().saturating_sub(*cursor),
        }
    }
}

impl From<&SessionView> for SessionSummary {
    fn from(view: &SessionView) -> Self {
        Self {
            id: view.id.to_string(),
            user: view.identity.user().map(str::to_owned),
            phase: view.phase_name(),
            transport: view.transport,
            dialect: view.dialect,
            address: view.address,
            age_ms: millis(view.age),
            last_heard_ms: millis(view.last_received),
        }
    }
}
