//! What is done to its end, whoever waits for it.

use std::panic::resume_unwind;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinError;

use crate::http::{ApiError, ApiErrorCode, Reply};

/// Answers from a task of its own: a connection that ends drops its request, and a client that hangs up must not leave something half done.
pub(super) fn in_task(
    answer: impl Future<Output = Result<Reply, ApiError>> + Send + 'static,
) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let task = tokio::spawn(answer);
    task.map(|result| match result.map_err(JoinError::try_into_panic) {
        Ok(answer) => answer,
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => Err(stopping()),
    })
    .boxed()
}

/// The process is at its end, and its tasks with it.
fn stopping() -> ApiError {
    ApiError::new(ApiErrorCode::Draining, "the server is stopping")
}
