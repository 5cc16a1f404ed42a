//! What the backend says to one session, or to all of a user's.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::publish::{Position, check_length, content};
use super::routes::Call;
use super::sessions::{find, moved};
use super::users::{for_each_of, with_user};
use crate::channel::NotPublished;
use crate::engine::EngineError;
use crate::http::body::parse_object;
use crate::http::reply::json;
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::NotSaid;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Send<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

/// What became of a message to a user.
#[derive(Serialize)]
struct Sent<'a> {
    /// How many of its sessions get it.
    sessions: usize,
    /// Nothing, where there are none.
    #[serde(flatten)]
    position: Option<Position<'a>>,
}

/// `POST /api/sessions/{id}/send`
pub(super) fn to_session(call: &Call<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let session = find(call);
    let (context, body) = (Arc::clone(call.context), call.body.clone());
    async move {
        let session = session?;
        let Send { data } = parse_object(&body)?;
        check_length(&context, data)?;
        let published = context.client.sessions.say_to_session(&session, &content(data)?)?;
        Ok(json(&Position::of(&published)))
    }
    .boxed()
}

/// `POST /api/users/{user}/send`
pub(super) fn to_user(call: &Call<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let body = call.body.clone();
    with_user(call, |context, user| async move {
        let Send { data } = parse_object(&body)?;
        check_length(&context, data)?;
        let content = content(data)?;
        let sessions = &context.client.sessions;
        // Before sessions are looked for: one that begins meanwhile is found, or finds it.
        let log = sessions.user_log(&user)?;
        let count =
            for_each_of(&context, &user, |session| sessions.follow_direct(session, &log).is_ok()).await;
        if count == 0 {
            return Ok(json(&Sent { sessions: 0, position: None }));
        }
        let published = sessions.say(&log, &content)?;
        Ok(json(&Sent { sessions: count, position: Some(Position::of(&published)) }))
    })
}

impl From<NotSaid> for ApiError {
    fn from(error: NotSaid) -> Self {
        match error {
            NotSaid::Ended => Self::new(ApiErrorCode::NotFound, error.to_string()),
            NotSaid::Moved => moved(),
            NotSaid::NotPublished(error) => error.into(),
        }
    }
}

impl From<NotPublished> for ApiError {
    fn from(error: NotPublished) -> Self {
        EngineError::from(error).into()
    }
}
