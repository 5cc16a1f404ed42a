//! Replacement of logs: when a channel starts a new epoch, a new log replaces the old one, and all subscribers
//! are moved.

use std::sync::Arc;

use super::channels::Channels;
use super::epoch::LogEpoch;
use super::guard::ChannelGuard;
use super::state::Channel;
use super::subscriber::Subscriber;

/// Number of subscribers moved before the lock is released for others.
const MOVE_BATCH: usize = 128;

impl<S: Subscriber> Channels<S> {
    /// Replaces a log by one with a new epoch. The caller must [move](Self::move_subscribers) the subscribers
    /// once the new log has contents. Returns `None` if the log has already been replaced.
    pub(crate) fn replace_channel(
        self: &Arc<Self>,
        old: &Arc<Channel<S>>,
        epoch: &LogEpoch,
    ) -> Option<ChannelGuard<S>> {
        let new = self.table().replace(old, epoch)?;
        self.retention().retire(old, |_| true);
        self.acquire_existing(new).ok()
    }

    /// Replaces a log that may be inconsistent after a panic by an empty one. Its subscribers receive a gap.
    #[cold]
    pub(super) fn replace_half_changed(self: &Arc<Self>, log: &Arc<Channel<S>>) {
        tracing::error!(channel = %log.name(), "panic while a message was being appended; the log is replaced");
        if let Some(new) = self.replace_channel(log, &LogEpoch::random(&self.entropy)) {
            self.move_subscribers(log, new.channel(), None);
        }
    }

    /// Moves all subscribers of `old` to `new`. Messages of `old` up to `cut` have the same offsets in `new`.
    pub(crate) fn move_subscribers(&self, old: &Arc<Channel<S>>, new: &Arc<Channel<S>>, cut: Option<u64>) {
        let mut from = 0;
        loop {
            let exists = |subscriber: &S, _| subscriber.exists(self.registry());
            let (some, _) = old.subscribers(from, MOVE_BATCH, exists);
            for (index, subscriber) in &some {
                subscriber.move_to(self.registry(), old, new, cut);
                from = index + 1;
            }
            if some.len() < MOVE_BATCH {
                return;
            }
        }
    }
}
