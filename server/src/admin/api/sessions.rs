use std::sync::Arc;

use encke_core::close::CloseReason;
use encke_core::dialect::DialectName;
use encke_core::session::{Input, Phase};
use serde::Serialize;

use super::routes::Call;
use super::{DEFAULT_LIMIT, millis, parse_limit, unknown_parameter};
use crate::http::reply::{json, no_content};
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::{BadSessionId, Channel, SessionHandle, SessionId, SessionView, Transport};

/// How many sessions are looked at for one page: when few pass the filter, it is short rather than late.
const MOST_LOOKED_AT: usize = 10_000;

#[derive(Serialize)]
struct Page {
    sessions: Vec<Summary>,
    /// Where the next page begins. A page that was filtered may be short, or empty, and not the last.
    next_cursor: Option<u32>,
}

#[derive(Serialize)]
struct Summary {
    id: String,
    /// The `sub` of its client's token.
    user: Option<String>,
    phase: &'static str,
    transport: Transport,
    dialect: DialectName,
    age_ms: f64,
    last_heard_ms: f64,
}

#[derive(Serialize)]
struct Detail {
    #[serde(flatten)]
    summary: Summary,
    seq: u64,
    /// Messages sent that may not have arrived.
    unacked: usize,
    subscriptions: Vec<Subscription>,
    close_reason: Option<&'static str>,
    deadlines: Vec<Remaining>,
}

#[derive(Serialize)]
struct Subscription {
    channel: String,
    /// The last message it has read.
    cursor: u64,
    /// Messages that it has not read yet, those included that are gone already.
    backlog: u64,
}

#[derive(Serialize)]
struct Remaining {
    deadline: &'static str,
    remaining_ms: f64,
}

struct Filter {
    phase: Option<String>,
    user: Option<String>,
    limit: usize,
    /// The slot that the page begins with.
    cursor: u32,
}

/// `GET /api/sessions?phase=&user=&limit=&cursor=`
pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let context = call.context;
    let filter = Filter::parse(call.query)?;
    let now = context.client.timeouts.clock().now();
    let all = &context.client.sessions;
    let mut sessions = Vec::new();
    let (mut next_cursor, mut looked_at) = (Some(filter.cursor), 0);
    while let Some(cursor) = next_cursor
        && sessions.len() < filter.limit
        && looked_at < MOST_LOOKED_AT
    {
        let wanted = filter.limit - sessions.len();
        let (found, next) = match &filter.user {
            Some(user) => all.of_user(user, cursor, wanted),
            None => all.registry().page(cursor, wanted),
        };
        let summaries = found.iter().map(|session| Summary::from(&session.view(now, all.settings())));
        sessions.extend(summaries.filter(|summary| filter.lets_through(summary)));
        next_cursor = next;
        looked_at += found.len().max(1);
    }
    Ok(json(&Page { sessions, next_cursor }))
}

/// `GET /api/sessions/{id}`
pub(super) fn show(call: &Call<'_>) -> Result<Reply, ApiError> {
    let session = find(call)?;
    let client = &call.context.client;
    let view = session.view(client.timeouts.clock().now(), client.sessions.settings());
    let remaining = |&(deadline, remaining): &(encke_core::session::Deadline, _)| Remaining {
        deadline: deadline.as_str(),
        remaining_ms: millis(remaining),
    };
    Ok(json(&Detail {
        summary: Summary::from(&view),
        seq: view.seq,
        unacked: view.unacked,
        subscriptions: session.subscriptions().iter().map(Subscription::from).collect(),
        close_reason: match view.phase {
            Phase::Closed(reason) => Some(reason.as_str()),
            Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended | Phase::Moved => None,
        },
        deadlines: view.deadlines.iter().map(remaining).collect(),
    }))
}

/// `POST /api/sessions/{id}/disconnect`
pub(super) fn disconnect(call: &Call<'_>) -> Result<Reply, ApiError> {
    let session = find(call)?;
    call.context.client.sessions.handle(&session, Input::Disconnect);
    Ok(no_content())
}

/// `DELETE /api/sessions/{id}`
pub(super) fn end(call: &Call<'_>) -> Result<Reply, ApiError> {
    let session = find(call)?;
    call.context.client.sessions.handle(&session, Input::Close(CloseReason::Kicked));
    match session.phase() {
        Phase::Moved => Err(moved()),
        Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended | Phase::Closed(_) => Ok(no_content()),
    }
}

/// The session may be in the snapshot already: what it is asked for now, the next process would not know.
pub(super) fn moved() -> ApiError {
    let message = "the server is going away, and the session goes on in the next one: ask that";
    ApiError::new(ApiErrorCode::Draining, message)
}

pub(super) fn find(call: &Call<'_>) -> Result<SessionHandle, ApiError> {
    let id = parse_id(call.parameter)?;
    let session = call.context.client.sessions.registry().get(id);
    session.ok_or_else(|| unknown(id))
}

pub(super) fn unknown(id: SessionId) -> ApiError {
    ApiError::not_found(format!("no such session: {id}"))
}

pub(super) fn parse_id(id: &str) -> Result<SessionId, ApiError> {
    id.parse().map_err(|error: BadSessionId| ApiError::bad_request(error.to_string()))
}

/// What [`Page::next_cursor`] has said.
fn parse_cursor(text: &str) -> Result<u32, ApiError> {
    text.parse().map_err(|_| ApiError::bad_request("cursor must be what next_cursor has said"))
}

impl Filter {
    fn parse(query: &str) -> Result<Self, ApiError> {
        let mut filter = Self { phase: None, user: None, limit: DEFAULT_LIMIT, cursor: 0 };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match (&*name, &*value) {
                ("phase", "attached" | "suspended") => filter.phase = Some(value.into_owned()),
                ("phase", _) => return Err(ApiError::bad_request("phase must be attached or suspended")),
                ("user", _) => filter.user = Some(value.into_owned()),
                ("limit", limit) => filter.limit = parse_limit(limit)?,
                ("cursor", cursor) => filter.cursor = parse_cursor(cursor)?,
                (name, _) => return Err(unknown_parameter(name)),
            }
        }
        Ok(filter)
    }

    fn lets_through(&self, summary: &Summary) -> bool {
        self.phase.as_ref().is_none_or(|phase| phase == summary.phase)
    }
}

impl From<&(Arc<Channel>, u64)> for Subscription {
    fn from((channel, cursor): &(Arc<Channel>, u64)) -> Self {
        Self {
            channel: channel.name().told().to_owned(),
            cursor: *cursor,
            backlog: channel.last_offset().saturating_sub(*cursor),
        }
    }
}

impl From<&SessionView> for Summary {
    fn from(view: &SessionView) -> Self {
        Self {
            id: view.id.to_string(),
            user: view.identity.user().map(str::to_owned),
            phase: view.phase_name(),
            transport: view.transport,
            dialect: view.dialect,
            age_ms: millis(view.age),
            last_heard_ms: millis(view.last_received),
        }
    }
}
