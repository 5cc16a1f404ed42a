use std::fmt;
use std::future::{IntoFuture, Ready, ready};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, join_all};

/// Response from an engine, available immediately or when a future completes.
pub enum EngineResponse<T> {
    Ready(T),
    /// Dropping the future does not cancel the request.
    Pending(BoxFuture<'static, T>),
}

impl<T: Send + 'static> EngineResponse<T> {
    /// Maps the result.
    pub fn map<U>(self, then: impl FnOnce(T) -> U + Send + 'static) -> EngineResponse<U> {
        match self {
            Self::Ready(response) => EngineResponse::Ready(then(response)),
            Self::Pending(response) => EngineResponse::Pending(response.map(then).boxed()),
        }
    }
}

/// Waits for all responses and returns them in order.
pub fn join_responses<T: Send + 'static>(responses: Vec<EngineResponse<T>>) -> EngineResponse<Vec<T>> {
    if responses.iter().any(|response| matches!(response, EngineResponse::Pending(_))) {
        return EngineResponse::Pending(join_all(responses.into_iter().map(IntoFuture::into_future)).boxed());
    }
    let ready = responses.into_iter().filter_map(|response| match response {
        EngineResponse::Ready(response) => Some(response),
        EngineResponse::Pending(_) => None,
    });
    EngineResponse::Ready(ready.collect())
}

impl<T: Send + 'static> IntoFuture for EngineResponse<T> {
    type Output = T;
    type IntoFuture = Either<Ready<T>, BoxFuture<'static, T>>;

    fn into_future(self) -> Self::IntoFuture {
        match self {
            Self::Ready(response) => Either::Left(ready(response)),
            Self::Pending(response) => Either::Right(response),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for EngineResponse<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(response) => f.debug_tuple("Ready").field(response).finish(),
            Self::Pending(_) => f.write_str("Later"),
        }
    }
}
