//! The list of users, and operations on all sessions of a user.

use encke_core::close::CloseReason;
use encke_core::session::{Input, Phase};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::json;
use tokio::task::yield_now;

use super::call::ApiCall;
use super::sessions::moved;
use crate::admin::context::Context;
use crate::auth::{MAX_USER_BYTES, TooManyRevoked};
use crate::http::reply;
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::SessionCell;

/// Number of sessions processed before the task yields to others.
const SESSIONS_PER_BATCH: usize = 64;

/// Number of sessions after which a page of users ends, although it may have fewer users than requested. The
/// sessions of the last user may exceed it.
const SESSIONS_PER_PAGE: usize = 10_000;

#[derive(Serialize)]
struct UserPage {
    users: Vec<UserSummary>,
    /// Name of the last user on this page.
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct UserSummary {
    user: String,
    sessions: usize,
    /// Number of these sessions that have a connection or are between polls.
    connections: usize,
}

/// `GET /api/users?limit=&cursor=`
pub(super) async fn list(call: ApiCall) -> Result<Reply, ApiError> {
    let query = call.query();
    let (limit, mut cursor) = (query.limit()?, query.get("cursor").map(str::to_owned));
    let (mut users, mut examined) = (Vec::new(), 0);
    let table = &call.context.client.sessions.table;
    while let Some(user) = table.user_after(cursor.as_deref()) {
        if users.len() >= limit || examined >= SESSIONS_PER_PAGE {
            return Ok(reply::json(&UserPage { users, next_cursor: cursor }));
        }
        let mut connections = 0;
        let count = |session: &SessionCell| {
            connections += usize::from(session.phase().has_client());
            true
        };
        let sessions = for_each_of(&call.context, &user, count).await;
        examined += sessions.max(1);
        // The last session may have ended in the meantime.
        users.extend((sessions > 0).then(|| UserSummary { user: user.to_string(), sessions, connections }));
        cursor = Some(user.to_string());
    }
    Ok(reply::json(&UserPage { users, next_cursor: None }))
}

/// `POST /api/users/{user}/disconnect`
pub(super) async fn disconnect(call: ApiCall) -> Result<Reply, ApiError> {
    let user = user_of(&call)?;
    let each = |session: &SessionCell| {
        call.context.client.sessions.lifecycle.handle(session, Input::Disconnect);
        true
    };
    Ok(affected(for_each_of(&call.context, &user, each).await))
}

/// `DELETE /api/users/{user}`: ends the user's sessions and revokes the tokens issued so far.
pub(super) async fn revoke(call: ApiCall) -> Result<Reply, ApiError> {
    let user = user_of(&call)?;
    let client = &call.context.client;
    // Revoke the tokens before ending the sessions. A session that is opened in the meantime checks the
    // revocation after it has become visible to this loop, so it is not missed.
    if client.access.auth.needs_token() {
        client.sessions.revocations().revoke(&user, client.timeouts.clock().unix_now())?;
    }
    let mut are_over = true;
    let each = |session: &SessionCell| {
        client.sessions.lifecycle.handle(session, Input::Close(CloseReason::Kicked));
        let has_moved = session.phase() == Phase::Moved;
        are_over &= !has_moved;
        !has_moved
    };
    let sessions = for_each_of(&call.context, &user, each).await;
    // Report an error if the snapshot may have been written without the change.
    if !are_over || client.sessions.is_draining() {
        return Err(moved());
    }
    Ok(affected(sessions))
}

/// Returns the response of an operation that affected this many sessions.
fn affected(sessions: usize) -> Reply {
    reply::json(&json!({ "sessions": sessions }))
}

/// Returns the user in the path.
pub(super) fn user_of(call: &ApiCall) -> Result<String, ApiError> {
    let user = percent_decode_str(&call.parameter).decode_utf8();
    let user = user.map_err(|_| ApiError::bad_request("a user's name must be UTF-8"))?;
    if !(1..=MAX_USER_BYTES).contains(&user.len()) {
        return Err(ApiError::bad_request(format!(
            "a user's name must have from 1 to {MAX_USER_BYTES} bytes"
        )));
    }
    Ok(user.into_owned())
}

/// Calls `act` for each session of a user. Returns how often it returned true.
pub(super) async fn for_each_of(
    context: &Context,
    user: &str,
    mut act: impl FnMut(&SessionCell) -> bool,
) -> usize {
    let (mut done, mut next) = (0, Some(0));
    while let Some(from) = next {
        let (page, after) = context.client.sessions.table.of_user(user, from, SESSIONS_PER_BATCH);
        done += page.iter().filter(|session| act(session)).count();
        next = after;
        drop(page);
        yield_now().await;
    }
    done
}

/// Maps the error to a status other than 429: the request is valid and may succeed later.
impl From<TooManyRevoked> for ApiError {
    fn from(error: TooManyRevoked) -> Self {
        Self::new(ApiErrorCode::Limit, error.to_string())
    }
}
