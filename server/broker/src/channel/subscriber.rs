use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use encke_core::session::outbox::SubscriptionSlot;

use super::presence::Member;
use super::state::Channel;

/// Weak reference to a reader of channels, which is notified of new messages.
pub trait Subscriber: Copy + fmt::Debug + Send + Sync + 'static {
    /// Registry in which the reference is looked up.
    type Registry: fmt::Debug + Send + Sync;

    /// Whether the reader still exists.
    fn exists(&self, registry: &Self::Registry) -> bool;

    /// Notifies the reader of new messages in the channel behind `slot`. Returns the task to wake, if there
    /// is one.
    fn notify_readable(&self, registry: &Self::Registry, slot: SubscriptionSlot) -> Option<Waker>;

    /// Moves the subscription from a channel that has ended to its replacement. Messages up to `cut` have the
    /// same offsets in both; if `cut` is `None`, the channels have no messages in common.
    fn move_to(
        &self,
        registry: &Self::Registry,
        from: &Arc<Channel<Self>>,
        to: &Arc<Channel<Self>>,
        cut: Option<u64>,
    );

    /// Public presence information for this channel, or `None` if the reader is just unsubscribing.
    fn member(&self, registry: &Self::Registry, channel: &Channel<Self>) -> Option<Member>;
}
