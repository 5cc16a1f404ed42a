use encke_core::session::outbox::SubscriptionSlot;
use slab::Slab;

/// Key of a subscriber within its channel, valid until it unsubscribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriberKey(usize);

impl SubscriberKey {
    /// A key that belongs to no subscriber.
    pub const NONE: Self = Self(usize::MAX);
}

/// Subscribers of one channel.
#[derive(Debug)]
pub(super) struct Subscribers<S> {
    entries: Slab<SubscriberEntry<S>>,
    /// Number of subscribers that presence does not list.
    unlisted: usize,
    /// Number of subscribers that were added, removed, listed or unlisted.
    changes: u64,
}

#[derive(Debug)]
struct SubscriberEntry<S> {
    subscriber: S,
    slot: SubscriptionSlot,
    /// Whether the subscriber has read to the end of the log and must be notified of new messages.
    waiting: bool,
    /// Whether presence lists the subscriber.
    listed: bool,
}

/// A subscriber to notify, and the slot of its subscription.
pub(super) type Notification<S> = (S, SubscriptionSlot);

impl<S> Default for Subscribers<S> {
    fn default() -> Self {
        Self { entries: Slab::new(), unlisted: 0, changes: 0 }
    }
}

impl<S: Copy> Subscribers<S> {
    pub(super) fn add(&mut self, subscriber: S, slot: SubscriptionSlot) -> SubscriberKey {
        self.changes += 1;
        SubscriberKey(self.entries.insert(SubscriberEntry { subscriber, slot, waiting: false, listed: true }))
    }

    /// Removes a subscriber. Returns whether it was present.
    pub(super) fn remove(&mut self, key: SubscriberKey) -> bool {
        let removed = self.entries.try_remove(key.0);
        self.unlisted -= usize::from(removed.as_ref().is_some_and(|it| !it.listed));
        let was_there = removed.is_some();
        self.changes += u64::from(was_there);
        if self.entries.is_empty() {
            // Release the memory of a large audience.
            self.entries = Slab::new();
        }
        was_there
    }

    /// Sets whether presence lists a subscriber.
    pub(super) fn set_listed(&mut self, key: SubscriberKey, listed: bool) {
        if let Some(subscriber) = self.entries.get_mut(key.0).filter(|it| it.listed != listed) {
            subscriber.listed = listed;
            self.unlisted = if listed { self.unlisted - 1 } else { self.unlisted + 1 };
            self.changes += 1;
        }
    }

    pub(super) fn is_listed(&self, key: SubscriberKey) -> bool {
        self.entries.get(key.0).is_some_and(|it| it.listed)
    }

    /// Number of subscribers that presence lists.
    pub(super) fn listed_len(&self) -> usize {
        self.len() - self.unlisted
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn set_waiting(&mut self, key: SubscriberKey) {
        if let Some(subscriber) = self.entries.get_mut(key.0) {
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
        let end = self.entries.capacity();
        for index in at..end.min(at + max_examined) {
            if let Some(subscriber) = self.entries.get_mut(index)
                && std::mem::take(&mut subscriber.waiting)
            {
                return Some((index + 1, Some((subscriber.subscriber, subscriber.slot))));
            }
        }
        (at + max_examined < end).then_some((at + max_examined, None))
    }

    /// Returns the subscribers from index `from` on, each with its index. Subscribers that `is_wanted` rejects are
    /// skipped, so a page has fewer than `limit` entries only if there are no more. `is_wanted` is also called with
    /// whether presence lists the subscriber.
    pub(super) fn page(
        &self,
        from: usize,
        limit: usize,
        is_wanted: impl Fn(&S, bool) -> bool,
    ) -> Vec<(usize, S)> {
        let entries =
            (from..self.entries.capacity()).filter_map(|index| Some((index, self.entries.get(index)?)));
        let wanted = entries.filter(|(_, entry)| is_wanted(&entry.subscriber, entry.listed));
        wanted.map(|(index, entry)| (index, entry.subscriber)).take(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_subscribers_do_not_shorten_pages() {
        let slot = encke_core::session::Outbox::new(1).subscribe((), 0, false);
        let mut subscribers = Subscribers::default();
        for number in 0..5 {
            subscribers.add(5, slot);
            subscribers.add(number, slot);
        }
        let (mut seen, mut from) = (Vec::new(), 0);
        for expected in [2, 2, 1, 0] {
            let page = subscribers.page(from, 2, |number, _| *number < 5);
            assert_eq!(page.len(), expected);
            from = page.last().map_or(from, |(index, _)| index + 1);
            seen.extend(page.into_iter().map(|(_, number)| number));
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }
}
