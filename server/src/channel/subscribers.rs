use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use encke_core::session::outbox::Slot;
use slab::Slab;

use super::presence::Member;
use super::state::Channel;

/// A subscriber of one channel, while it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubscriberKey(usize);

impl SubscriberKey {
    /// Of what is no subscriber any more.
    pub(crate) const NOBODY: Self = Self(usize::MAX);

    /// Its index among those of its channel.
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// A reference to what reads channels, and is told when one has something new. It does not keep that alive.
pub(crate) trait Subscriber: Copy + fmt::Debug + Send + Sync + 'static {
    /// Where it finds what it refers to.
    type Home: fmt::Debug + Send + Sync;

    /// Whether it finds that still.
    fn is_there(&self, home: &Self::Home) -> bool;

    /// The channel behind this slot has something new. Returns a task to wake, if there is one.
    fn tell_readable(&self, home: &Self::Home, slot: Slot) -> Option<Waker>;

    /// A channel that it follows has ended, and another goes on in its place, with the same messages up to `cut` under the same numbers; with none, if
    /// that is nothing.
    fn move_on(
        &self,
        home: &Self::Home,
        from: &Arc<Channel<Self>>,
        to: &Arc<Channel<Self>>,
        cut: Option<u64>,
    );

    /// What others may see of it on this channel; nothing, if it is just going away from there.
    fn member(&self, home: &Self::Home, channel: &Channel<Self>) -> Option<Member>;
}

/// Everything that follows one channel.
#[derive(Debug)]
pub(super) struct Subscribers<S>(Slab<Entry<S>>);

#[derive(Debug)]
struct Entry<S> {
    subscriber: S,
    slot: Slot,
    /// It has read to the end of the log and wants to be told when there is more.
    waiting: bool,
}

/// Which subscriber to tell, and which of its subscriptions has something new.
pub(super) type Call<S> = (S, Slot);

impl<S> Default for Subscribers<S> {
    fn default() -> Self {
        Self(Slab::new())
    }
}

impl<S: Subscriber> Subscribers<S> {
    pub(super) fn add(&mut self, subscriber: S, slot: Slot) -> SubscriberKey {
        SubscriberKey(self.0.insert(Entry { subscriber, slot, waiting: false }))
    }

    /// Returns whether it was there.
    pub(super) fn remove(&mut self, key: SubscriberKey) -> bool {
        let was_there = self.0.try_remove(key.0).is_some();
        if self.0.is_empty() {
            // A large audience that has left must not keep its memory.
            self.0 = Slab::new();
        }
        was_there
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The indices of all.
    #[cfg(feature = "otlp")]
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(index, _)| index)
    }

    /// The subscriber with this index.
    #[cfg(feature = "otlp")]
    pub(super) fn at(&self, index: usize) -> Option<S> {
        self.0.get(index).map(|entry| entry.subscriber)
    }

    pub(super) fn set_waiting(&mut self, key: SubscriberKey) {
        if let Some(subscriber) = self.0.get_mut(key.0) {
            subscriber.waiting = true;
        }
    }

    /// The first that waits, from index `at` on, and the index after it; it no longer waits then. `None` when none is left
    /// after `at`; an index without a call when it is time to let others have the lock.
    pub(super) fn next_waiting(
        &mut self,
        at: usize,
        look_at_most: usize,
    ) -> Option<(usize, Option<Call<S>>)> {
        let end = self.0.capacity();
        for index in at..end.min(at + look_at_most) {
            if let Some(subscriber) = self.0.get_mut(index)
                && std::mem::take(&mut subscriber.waiting)
            {
                return Some((index + 1, Some((subscriber.subscriber, subscriber.slot))));
            }
        }
        (at + look_at_most < end).then_some((at + look_at_most, None))
    }

    /// The subscribers from index `from` on, each with its index. Fewer than `limit` only when there are no more: one that
    /// is just going away does not count.
    pub(super) fn page(&self, home: &S::Home, from: usize, limit: usize) -> Vec<(usize, S)> {
        (from..self.0.capacity())
            .filter_map(|index| Some((index, self.0.get(index)?.subscriber)))
            .filter(|(_, subscriber)| subscriber.is_there(home))
            .take(limit)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those below are there.
    #[derive(Clone, Copy, Debug)]
    struct Numbered(usize);

    impl Subscriber for Numbered {
        type Home = usize;

        fn is_there(&self, home: &usize) -> bool {
            self.0 < *home
        }

        fn tell_readable(&self, _: &usize, _: Slot) -> Option<Waker> {
            None
        }

        fn move_on(&self, _: &usize, _: &Arc<Channel<Self>>, _: &Arc<Channel<Self>>, _: Option<u64>) {}

        fn member(&self, _: &usize, _: &Channel<Self>) -> Option<Member> {
            unreachable!("nobody asks")
        }
    }

    #[test]
    fn subscribers_that_are_gone_make_no_page_short() {
        let slot = encke_core::session::Outbox::new(1).subscribe((), 0, false);
        let mut subscribers = Subscribers::default();
        for number in 0..5 {
            subscribers.add(Numbered(5), slot);
            subscribers.add(Numbered(number), slot);
        }
        let (mut seen, mut from) = (Vec::new(), 0);
        for expected in [2, 2, 1, 0] {
            let page = subscribers.page(&5, from, 2);
            assert_eq!(page.len(), expected);
            from = page.last().map_or(from, |(index, _)| index + 1);
            seen.extend(page.into_iter().map(|(_, one)| one.0));
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }
}
