//! Direct messages to one session, or to all sessions of a user.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::publish::{PublishedPosition, check_length, content};
use super::routes::ApiCall;
use super::sessions::{find, moved};
use super::users::{for_each_of, with_user};
use crate::channel::PublishError;
use crate::engine::EngineError;
use crate::http::body::parse_object;
use crate::http::reply::json;
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::DirectMessageError;

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
pub(super) fn to_session(call: &ApiCall<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let session = find(call);
    let (context, body) = (Arc::clone(call.context), call.body.clone());
    async move {
        let session = session?;
        let SendRequest { data } = parse_object(&body)?;
        check_length(&context, data)?;
        let published = context.client.sessions.subscriptions.send_to_session(&session, &content(data)?)?;
        Ok(json(&PublishedPosition::of(&published)))
    }
    .boxed()
}

/// `POST /api/users/{user}/send`
pub(super) fn to_user(call: &ApiCall<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let body = call.body.clone();
    with_user(call, |context, user| async move {
        let SendRequest { data } = parse_object(&body)?;
        check_length(&context, data)?;
        let content = content(data)?;
        let sessions = &context.client.sessions;
        // Create the log before listing the sessions, so that a session created in the meantime is either in
        // the list or finds the log.
        let log = sessions.subscriptions.user_log(&user)?;
        let count = for_each_of(&context, &user, |session| {
            sessions.subscriptions.subscribe_direct(session, &log).is_ok()
        })
        .await;
        if count == 0 {
            return Ok(json(&SendResponse { sessions: 0, position: None }));
        }
        let published = sessions.subscriptions.send_direct(&log, &content)?;
        Ok(json(&SendResponse { sessions: count, position: Some(PublishedPosition::of(&published)) }))
    })
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
