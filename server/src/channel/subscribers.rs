use std::sync::{Arc, Weak};

use encke_core::session::outbox::Slot;
use slab::Slab;

use crate::session::SessionCell;

/// A subscriber of one channel, while it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubscriberKey(usize);

/// The sessions that follow a channel.
#[derive(Debug, Default)]
pub(super) struct Subscribers(Slab<Subscriber>);

#[derive(Debug)]
struct Subscriber {
    session: Weak<SessionCell>,
    slot: Slot,
    /// It has read to the end of the log and wants to be told when there is more.
    waiting: bool,
}

/// Whom to tell: a session, and which of its subscriptions has something new.
pub(super) type Call = (Weak<SessionCell>, Slot);

impl Subscribers {
    pub(super) fn add(&mut self, session: Weak<SessionCell>, slot: Slot) -> SubscriberKey {
        SubscriberKey(self.0.insert(Subscriber { session, slot, waiting: false }))
    }

    pub(super) fn remove(&mut self, key: SubscriberKey) {
        self.0.try_remove(key.0);
        if self.0.is_empty() {
            // Ten thousand that have come and gone leave no room for ten thousand.
            self.0 = Slab::new();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn set_waiting(&mut self, key: SubscriberKey) {
        if let Some(subscriber) = self.0.get_mut(key.0) {
            subscriber.waiting = true;
        }
    }

    /// The first that waits from place `at` on, which does not wait any more then; and the place after it. `None` when
    /// there is no one after `at`; a place without a call when it is time to let others have the lock.
    pub(super) fn next_waiting(&mut self, at: usize, look_at_most: usize) -> Option<(usize, Option<Call>)> {
        let end = self.0.capacity();
        for place in at..end.min(at + look_at_most) {
            if let Some(subscriber) = self.0.get_mut(place)
                && std::mem::take(&mut subscriber.waiting)
            {
                return Some((place + 1, Some((Weak::clone(&subscriber.session), subscriber.slot))));
            }
        }
        (at + look_at_most < end).then_some((at + look_at_most, None))
    }

    /// The sessions from place `from` on that are there still, each with its place. Fewer than `limit` only when there are
    /// no more: one that is just going away takes nobody's place.
    pub(super) fn page(&self, from: usize, limit: usize) -> Vec<(usize, Arc<SessionCell>)> {
        (from..self.0.capacity())
            .filter_map(|place| Some((place, self.0.get(place)?.session.upgrade()?)))
            .take(limit)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_are_gone_make_no_page_short() {
        let sessions: Vec<_> = (0..5).map(|_| SessionCell::of_no_one()).collect();
        let slot = encke_core::session::Outbox::new(1).subscribe((), 0, false);
        let mut subscribers = Subscribers::default();
        for session in &sessions {
            subscribers.add(Weak::new(), slot);
            subscribers.add(Arc::downgrade(session), slot);
        }
        let (mut seen, mut from) = (Vec::new(), 0);
        for expected in [2, 2, 1, 0] {
            let page = subscribers.page(from, 2);
            assert_eq!(page.len(), expected);
            from = page.last().map_or(from, |(place, _)| place + 1);
            seen.extend(page.into_iter().map(|(_, session)| session.id()));
        }
        assert_eq!(seen, sessions.iter().map(|session| session.id()).collect::<Vec<_>>());
    }
}
