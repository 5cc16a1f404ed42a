use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use encke_core::session::outbox::SubscriptionSlot;
use slab::Slab;

use super::presence::Member;
use super::state::Channel;

/// Key of a subscriber within its channel, valid until it unsubscribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriberKey(usize);

impl SubscriberKey {
    /// A key that belongs to no subscriber.
    pub const NONE: Self = Self(usize::MAX);
}

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

/// Subscribers of one channel.
#[derive(Debug)]
pub(super) struct Subscribers<S>(Slab<SubscriberEntry<S>>);

#[derive(Debug)]
struct SubscriberEntry<S> {
    subscriber: S,
    slot: SubscriptionSlot,
    /// Whether the subscriber has read to the end of the log and must be notified of new messages.
    waiting: bool,
}

/// A subscriber to notify, and the slot of its subscription.
pub(super) type Notification<S> = (S, SubscriptionSlot);

impl<S> Default for Subscribers<S> {
    fn default() -> Self {
        Self(Slab::new())
    }
}

impl<S: Subscriber> Subscribers<S> {
    pub(super) fn add(&mut self, subscriber: S, slot: SubscriptionSlot) -> SubscriberKey {
        SubscriberKey(self.0.insert(SubscriberEntry { subscriber, slot, waiting: false }))
    }

    /// Removes a subscriber. Returns whether it was present.
    pub(super) fn remove(&mut self, key: SubscriberKey) -> bool {
        let was_there = self.0.try_remove(key.0).is_some();
        if self.0.is_empty() {
            // Release the memory of a large audience.
            self.0 = Slab::new();
        }
        was_there
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn set_waiting(&mut self, key: SubscriberKey) {
        if let Some(subscriber) = self.0.get_mut(key.0) {
            subscriber.waiting = true;
        }
    }

    /// Finds the first waiting subscriber from index `at` on, clears its flag, and returns it with the index
    /// to continue from. Returns `None` if no waiting subscriber is left, and an index without a subscriber
    /// if `max_examined` entries were examined and the lock should be released.
    pub(super) fn next_waiting(
        &mut self,
        at: usize,
        max_examined: usize,
    ) -> Option<(usize, Option<Notification<S>>)> {
        let end = self.0.capacity();
        for index in at..end.min(at + max_examined) {
            if let Some(subscriber) = self.0.get_mut(index)
                && std::mem::take(&mut subscriber.waiting)
            {
                return Some((index + 1, Some((subscriber.subscriber, subscriber.slot))));
            }
        }
        (at + max_examined < end).then_some((at + max_examined, None))
    }

    /// Returns the subscribers from index `from` on, each with its index. Subscribers that no longer exist
    /// are skipped, so a page has fewer than `limit` entries only if there are no more.
    pub(super) fn page(&self, registry: &S::Registry, from: usize, limit: usize) -> Vec<(usize, S)> {
        (from..self.0.capacity())
            .filter_map(|index| Some((index, self.0.get(index)?.subscriber)))
            .filter(|(_, subscriber)| subscriber.exists(registry))
            .take(limit)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subscriber that exists if its number is lower than the registry, which is itself just a number.
    #[derive(Clone, Copy, Debug)]
    struct NumberedSubscriber(usize);

    impl Subscriber for NumberedSubscriber {
        type Registry = usize;

        fn exists(&self, registry: &usize) -> bool {
            self.0 < *registry
        }

        fn notify_readable(&self, _: &usize, _: SubscriptionSlot) -> Option<Waker> {
            None
        }

        fn move_to(&self, _: &usize, _: &Arc<Channel<Self>>, _: &Arc<Channel<Self>>, _: Option<u64>) {}

        fn member(&self, _: &usize, _: &Channel<Self>) -> Option<Member> {
            unreachable!("presence is not queried")
        }
    }

    #[test]
    fn removed_subscribers_do_not_shorten_pages() {
        let slot = encke_core::session::Outbox::new(1).subscribe((), 0, false);
        let mut subscribers = Subscribers::default();
        for number in 0..5 {
            subscribers.add(NumberedSubscriber(5), slot);
            subscribers.add(NumberedSubscriber(number), slot);
        }
        let (mut seen, mut from) = (Vec::new(), 0);
        for expected in [2, 2, 1, 0] {
            let page = subscribers.page(&5, from, 2);
            assert_eq!(page.len(), expected);
            from = page.last().map_or(from, |(index, _)| index + 1);
            seen.extend(page.into_iter().map(|(_, subscriber)| subscriber.0));
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }
}
