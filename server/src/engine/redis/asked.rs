use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::unconstrained;

use crate::executor::Executor;

/// A question that is on its way, in its order among all questions, and stays so if nobody waits for the answer any more.
pub(super) struct Asked<T: Send + 'static> {
    question: Option<BoxFuture<'static, T>>,
    /// It was answered at once.
    answer: Option<T>,
    executor: Arc<dyn Executor>,
}

impl<T: Send + 'static> Asked<T> {
    /// Asks. The question must be on its way once the future has been polled.
    pub(super) fn new(
        question: impl Future<Output = T> + Send + 'static,
        executor: &Arc<dyn Executor>,
    ) -> Self {
        // A task that has done a lot would have the question wait for its next turn, and others overtake it.
        let mut question = unconstrained(question).boxed();
        // Whoever waits is polled once more, and leaves a waker then.
        match question.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => {
                Self { question: None, answer: Some(answer), executor: Arc::clone(executor) }
            }
            Poll::Pending => Self { question: Some(question), answer: None, executor: Arc::clone(executor) },
        }
    }
}

impl<T: Send + Unpin + 'static> Future for Asked<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<T> {
        if let Some(answer) = self.answer.take() {
            return Poll::Ready(answer);
        }
        let Some(question) = &mut self.question else { return Poll::Pending };
        let answer = question.poll_unpin(task);
        if answer.is_ready() {
            self.question = None;
        }
        answer
    }
}

impl<T: Send + 'static> Drop for Asked<T> {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            self.executor.spawn(Box::pin(question.map(drop)));
        }
    }
}
