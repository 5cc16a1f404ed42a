use crate::channel::{NotPublished, TooManyChannels};

/// Why an engine did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EngineError {
    /// There may be no further channel.
    #[error(transparent)]
    TooManyChannels(#[from] TooManyChannels),
    /// The server is going away, and takes no more messages.
    #[error("the server is going away, and takes no more messages")]
    Draining,
    /// The engine cannot be reached. Nothing was done.
    #[error("channels cannot be reached now; nothing was done")]
    Unavailable,
    /// The engine was asked and has not answered. It may have done it, now or later, or not.
    #[error("no answer came; it may have been done, or not")]
    OutcomeUnknown,
    /// The engine is asked for too much at once. Nothing was done.
    #[error("channels are asked for too much at once; nothing was done")]
    Overloaded,
}

impl From<NotPublished> for EngineError {
    fn from(error: NotPublished) -> Self {
        match error {
            NotPublished::TooManyChannels(error) => error.into(),
            NotPublished::Draining => Self::Draining,
        }
    }
}
