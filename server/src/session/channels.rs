//! Channels, with sessions as subscribers.

use std::sync::Arc;

use encke_broker::channel::{SubscriberKey, overlap};
use encke_broker::engine::LogEngine;
use encke_core::session::Outbox;
use encke_core::session::outbox::LogHandle;

use super::session_ref::SessionRef;

pub(crate) type Channels = encke_broker::channel::Channels<SessionRef>;
pub(crate) type Channel = encke_broker::channel::Channel<SessionRef>;

/// A session's subscriptions, the messages pending for them, and the messages that were sent but not
/// acknowledged.
pub(crate) type SessionOutbox = Outbox<SubscribedChannel>;

/// Logs that sessions read and publish to.
#[derive(Clone, Debug)]
pub(crate) struct SessionLogs {
    pub(crate) engine: Arc<dyn LogEngine<SessionRef>>,
    /// Logs that sessions read. They are filled by the engine.
    pub(crate) channels: Arc<Channels>,
}

/// A channel that a session is subscribed to.
#[derive(Clone, Debug)]
pub(crate) struct SubscribedChannel {
    pub(crate) channel: Arc<Channel>,
    /// Key of the session among the channel's subscribers.
    pub(super) key: SubscriberKey,
}

impl LogHandle for SubscribedChannel {
    fn log(&self) -> u64 {
        self.channel.number()
    }

    fn overlaps(&self, other: &Self) -> bool {
        overlap(self.channel.name().as_str(), other.channel.name().as_str())
    }
}
