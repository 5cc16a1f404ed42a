//! Direct messages to one session, or to all sessions of a user.

use encke_broker::channel::PublishError;
use encke_broker::engine::EngineError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::call::ApiCall;
use super::publish::{PublishedPosition, check_length, content};
use super::sessions::{find, moved};
use super::users::{for_each_of, user_of};
use crate::http::body::parse_object;
use crate::http::reply::json;
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::{DirectMessageError, SessionCell};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendRequest<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Result of sending to a user.
#[derive(Serialize)]
struct SendResponse<'a> {
    /// Number of sessions that receive the message.
    sessions: usize,
    /// Position of the message in the user's log, or `None` if the user has no sessions.
    #[serde(flatten)]
    position: Option<PublishedPosition<'a>>,
}

/// `POST /api/sessions/{id}/send`
pub(super) fn to_session(call: &ApiCall) -> Result<Reply, ApiError> {
    let session = find(call)?;
    let SendRequest { data } = parse_object(&call.body)?;
    check_length(&call.context, data)?;
    let published = call.context.client.sessions.subscriptions.send_to_session(&session, &content(data)?)?;
    Ok(json(&PublishedPosition::of(&published)))
}

/// `POST /api/users/{user}/send`
pub(super) async fn to_user(call: ApiCall) -> Result<Reply, ApiError> {
    let user = user_of(&call)?;
    let SendRequest { data } = parse_object(&call.body)?;
    check_length(&call.context, data)?;
    let content = content(data)?;
    let sessions = &call.context.client.sessions;
    // Create the log before listing the sessions, so that a session created in the meantime is either in
    // the list or finds the log.
    let log = sessions.subscriptions.user_log(&user)?;
    let subscribe = |session: &SessionCell| sessions.subscriptions.subscribe_direct(session, &log).is_ok();
    let count = for_each_of(&call.context, &user, subscribe).await;
    if count == 0 {
        return Ok(json(&SendResponse { sessions: 0, position: None }));
    }
    let published = sessions.subscriptions.send_direct(&log, &content)?;
    Ok(json(&SendResponse { sessions: count, position: Some(PublishedPosition::of(&published)) }))
}

impl From<DirectMessageError> for ApiError {
    fn from(error: DirectMessageError) -> Self {
        match error {
            DirectMessageError::Ended => Self::new(ApiErrorCode::NotFound, error.to_string()),
            DirectMessageError::Moved => moved(),
            DirectMessageError::NotPublished(error) => error.into(),
        }
    }
}

impl From<PublishError> for ApiError {
    fn from(error: PublishError) -> Self {
        EngineError::from(error).into()
    }
}
