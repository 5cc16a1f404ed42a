//! All sessions of a user.

use std::sync::Arc;

use encke_core::close::CloseReason;
use encke_core::session::{Input, Phase};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tokio::task::yield_now;

use super::routes::Call;
use super::sessions::moved;
use super::task::in_task;
use crate::admin::Context;
use crate::auth::{LONGEST_USER, TooManyRevoked};
use crate::http::reply::json;
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::SessionCell;

/// Sessions that are acted on before others get their turn.
const SESSIONS_AT_ONCE: usize = 64;

/// What was done.
#[derive(Serialize)]
struct Done {
    /// To how many sessions.
    sessions: usize,
}

/// `POST /api/users/{user}/disconnect`
pub(super) fn disconnect(call: &Call<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    with_user(call, |context, user| async move {
        let each = |session: &SessionCell| {
            context.client.sessions.handle(session, Input::Disconnect);
            true
        };
        Ok(json(&Done { sessions: for_each_of(&context, &user, each).await }))
    })
}

/// `DELETE /api/users/{user}`: its sessions end, and its tokens of before are refused.
pub(super) fn revoke(call: &Call<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    with_user(call, |context, user| async move {
        let client = &context.client;
        // First: a session that is opened meanwhile looks at it once it can be found.
        if client.auth.needs_token() {
            client.sessions.revocations().revoke(&user, client.timeouts.clock().unix_now())?;
        }
        let mut are_over = true;
        let each = |session: &SessionCell| {
            client.sessions.handle(session, Input::Close(CloseReason::Kicked));
            let has_moved = session.phase() == Phase::Moved;
            are_over &= !has_moved;
            !has_moved
        };
        let sessions = for_each_of(&context, &user, each).await;
        // The snapshot may have been written without it.
        if !are_over || client.sessions.is_draining() {
            return Err(moved());
        }
        Ok(json(&Done { sessions }))
    })
}

/// Answers with what is made of the user in the path.
pub(super) fn with_user<F: Future<Output = Result<Reply, ApiError>> + Send + 'static>(
    call: &Call<'_>,
    answer: impl FnOnce(Arc<Context>, String) -> F,
) -> BoxFuture<'static, Result<Reply, ApiError>> {
    match user_of(call) {
        Ok(user) => in_task(answer(Arc::clone(call.context), user)),
        Err(error) => async { Err(error) }.boxed(),
    }
}

/// The user in the path.
fn user_of(call: &Call<'_>) -> Result<String, ApiError> {
    let user = percent_decode_str(call.parameter).decode_utf8();
    let user = user.map_err(|_| ApiError::bad_request("a user's name must be UTF-8"))?;
    if !(1..=LONGEST_USER).contains(&user.len()) {
        return Err(ApiError::bad_request(format!("a user's name must have from 1 to {LONGEST_USER} bytes")));
    }
    Ok(user.into_owned())
}

/// Acts on each session of a user. Returns for how many it did what is to be done.
pub(super) async fn for_each_of(
    context: &Context,
    user: &str,
    mut act: impl FnMut(&SessionCell) -> bool,
) -> usize {
    let (mut done, mut next) = (0, Some(0));
    while let Some(from) = next {
        let (page, after) = context.client.sessions.of_user(user, from, SESSIONS_AT_ONCE);
        done += page.iter().filter(|session| act(session)).count();
        next = after;
        drop(page);
        yield_now().await;
    }
    done
}

/// Not 429: nothing is wrong with the request, and it may succeed later.
impl From<TooManyRevoked> for ApiError {
    fn from(error: TooManyRevoked) -> Self {
        Self::new(ApiErrorCode::Limit, error.to_string())
    }
}
