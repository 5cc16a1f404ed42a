use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use encke_base::executor::Executor;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::unconstrained;

/// A request that is sent in order with all others, and runs to completion even if this future is dropped.
pub(super) struct DetachedRequest<T: Send + 'static> {
    request: Option<BoxFuture<'static, T>>,
    /// Response, if it was available immediately.
    response: Option<T>,
    executor: Arc<dyn Executor>,
}

impl<T: Send + 'static> DetachedRequest<T> {
    /// Sends the request. The future must send it during its first poll.
    pub(super) fn new(
        request: impl Future<Output = T> + Send + 'static,
        executor: &Arc<dyn Executor>,
    ) -> Self {
        // Tokio's cooperative budget could otherwise defer the request to the task's next poll, and other
        // requests would overtake it.
        let mut request = unconstrained(request).boxed();
        // No waker is needed yet: the next poll of this future registers the caller's waker.
        match request.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(response) => {
                Self { request: None, response: Some(response), executor: Arc::clone(executor) }
            }
            Poll::Pending => Self { request: Some(request), response: None, executor: Arc::clone(executor) },
        }
    }
}

impl<T: Send + Unpin + 'static> Future for DetachedRequest<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<T> {
        if let Some(response) = self.response.take() {
            return Poll::Ready(response);
        }
        let Some(request) = &mut self.request else { return Poll::Pending };
        let response = request.poll_unpin(task);
        if response.is_ready() {
            self.request = None;
        }
        response
    }
}

impl<T: Send + 'static> Drop for DetachedRequest<T> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.executor.spawn(Box::pin(request.map(drop)));
        }
    }
}
