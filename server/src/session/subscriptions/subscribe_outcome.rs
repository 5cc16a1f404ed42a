use std::sync::Arc;

use encke_broker::engine::EngineError;

use crate::session::channels::Channel;

/// Result of a successful subscribe request.
#[derive(Debug)]
pub(crate) struct SubscribeOutcome {
    pub(crate) channel: Arc<Channel>,
    /// Whether the session was not subscribed to the channel before.
    pub(crate) is_new: bool,
    /// Offset of the newest message in the log when the subscription began.
    pub(crate) offset: u64,
    /// Offset of the message before the first one to be sent.
    pub(crate) start_offset: u64,
    /// Whether all messages after the one that the client named are still available. `None` if the client
    /// named no message.
    pub(crate) recovered: Option<bool>,
}

/// Why a subscribe request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubscribeError {
    #[error("subscription limit reached (limits.max_subscriptions = {limit})")]
    TooManySubscriptions { limit: usize },
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("no permission to subscribe to this channel")]
    Forbidden,
    #[error("the server is shutting down; the session continues in the next process")]
    Draining,
    #[error("another connection has taken over the session")]
    Detached,
    #[error("the session has ended")]
    Ended,
}
