//! Runs requests to completion even if the client disconnects.

use std::panic::resume_unwind;

use futures_util::future::BoxFuture;
use tokio::task::JoinError;

use crate::http::{ApiError, ApiErrorCode, Reply};

/// Runs a handler in a separate task. When a connection closes, the futures of its requests are dropped,
/// which must not leave the work half done.
pub(super) async fn run_to_completion(
    answer: BoxFuture<'static, Result<Reply, ApiError>>,
) -> Result<Reply, ApiError> {
    match tokio::spawn(answer).await.map_err(JoinError::try_into_panic) {
        Ok(answer) => answer,
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => Err(stopping()),
    }
}

/// Returns the error for a request that was not completed because the server is shutting down.
pub(super) fn stopping() -> ApiError {
    ApiError::new(ApiErrorCode::Draining, "the server is shutting down")
}
