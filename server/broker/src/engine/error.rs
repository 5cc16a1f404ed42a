use crate::channel::{PublishError, TooManyChannels};

/// Why an engine request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    TooManyChannels(#[from] TooManyChannels),
    /// The server is shutting down and accepts no more messages.
    #[error("the server is shutting down and accepts no more messages")]
    Draining,
    /// The engine is unreachable. Nothing was done.
    #[error("channels are unavailable; nothing was done")]
    Unavailable,
    /// The request was sent, but no response arrived. It may have taken effect, may still do so, or may never
    /// do so.
    #[error("no response from the engine; the request may have taken effect")]
    OutcomeUnknown,
    /// Too many requests are in flight. Nothing was done.
    #[error("too many requests in flight; nothing was done")]
    Overloaded,
}

impl From<PublishError> for EngineError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::TooManyChannels(error) => error.into(),
            PublishError::Draining => Self::Draining,
        }
    }
}
