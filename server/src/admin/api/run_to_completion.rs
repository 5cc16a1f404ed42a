//! Requests that are completed even if the client disconnects.

use std::panic::resume_unwind;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinError;

use crate::http::{ApiError, ApiErrorCode, Reply};

/// Runs a request in a task of its own. A connection that ends drops its request, which must not leave the
/// work half done.
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

/// The runtime is shutting down and has cancelled the task.
fn stopping() -> ApiError {
    ApiError::new(ApiErrorCode::Draining, "the server is shutting down")
}
