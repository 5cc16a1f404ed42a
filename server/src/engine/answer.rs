use std::fmt;
use std::future::{IntoFuture, Ready, ready};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, join_all};

/// What an engine answers: at once, or when a future completes.
pub(crate) enum Answer<T> {
    /// The answer.
    Ready(T),
    /// The answer comes later. Dropping the future does not take the question back.
    Later(BoxFuture<'static, T>),
}

impl<T: Send + 'static> Answer<T> {
    /// What follows from the answer.
    pub(crate) fn map<U>(self, then: impl FnOnce(T) -> U + Send + 'static) -> Answer<U> {
        match self {
            Self::Ready(answer) => Answer::Ready(then(answer)),
            Self::Later(answer) => Answer::Later(answer.map(then).boxed()),
        }
    }
}

/// All answers, in order, once the last has come.
pub(crate) fn all<T: Send + 'static>(answers: Vec<Answer<T>>) -> Answer<Vec<T>> {
    if answers.iter().any(|answer| matches!(answer, Answer::Later(_))) {
        return Answer::Later(join_all(answers.into_iter().map(IntoFuture::into_future)).boxed());
    }
    let ready = answers.into_iter().filter_map(|answer| match answer {
        Answer::Ready(answer) => Some(answer),
        Answer::Later(_) => None,
    });
    Answer::Ready(ready.collect())
}

impl<T: Send + 'static> IntoFuture for Answer<T> {
    type Output = T;
    type IntoFuture = Either<Ready<T>, BoxFuture<'static, T>>;

    fn into_future(self) -> Self::IntoFuture {
        match self {
            Self::Ready(answer) => Either::Left(ready(answer)),
            Self::Later(answer) => Either::Right(answer),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(answer) => f.debug_tuple("Ready").field(answer).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}
