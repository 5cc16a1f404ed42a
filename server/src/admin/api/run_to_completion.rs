//! Runs requests to completion even if the client disconnects.

use std::panic::resume_unwind;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinError;

use crate::http::{ApiError, ApiErrorCode, Reply};

/// Runs a handler in a separate task. When a connection closes, the futures of its requests are dropped,
/// which must not leave the work half done.
pub(super) fn run_to_completion(
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

/// Returns the error for a task that was cancelled because the runtime is shutting down.
fn stopping() -> ApiError {
    ApiError::new(ApiErrorCode::Draining, "the server is shutting down")
}
