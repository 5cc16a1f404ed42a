//! What is always true of an outbox, found out the slow way. For tests, after every step.

use super::ring::What;
use super::{Outbox, Subscription};

impl<C> Outbox<C> {
    /// Panics if the outbox contradicts itself.
    pub(in crate::session) fn check_invariants(&self) {
        self.check_seqs();
        self.check_ring();
        self.check_ready();
        self.check_owed();
    }

    fn check_seqs(&self) {
        let (dropped, last) = (self.ring.dropped(), self.seq());
        assert!(self.ring.len() <= self.ring.capacity(), "the ring is bounded");
        assert!(self.acknowledged <= dropped, "what is acknowledged is not remembered");
        assert!(self.acknowledged <= self.sent, "what is not sent on this connection is not acknowledged");
        assert!(self.sent <= last, "nothing is sent that is not in the ring");
        assert!(
            self.sent >= dropped || !self.owed.is_empty(),
            "without owed gaps, the ring is what comes next"
        );
    }

    fn check_ring(&self) {
        let mut remembered = vec![0; self.subscriptions.len()];
        let mut reached: Vec<Option<u64>> =
            self.subscriptions.iter().map(|it| it.as_ref()?.owed()?.1.map(|(_, offset)| offset)).collect();
        for seq in self.ring.dropped() + 1..=self.seq() {
            let entry = self.ring.get(seq).expect("seqs have no holes");
            let slot = entry.slot as usize;
            assert!(self.get(entry.slot).is_some(), "seq {seq} is of a subscription that is gone");
            remembered[slot] += 1;
            let first = match entry.what() {
                What::Message => Some(entry.offset),
                What::Gap(range) => range.map(|(from, _)| from),
            };
            if let (Some(reached), Some(first)) = (reached[slot], first) {
                assert_eq!(first, reached + 1, "seq {seq} goes on where its subscription was");
            }
            reached[slot] = Some(entry.last_offset());
        }
        for (slot, subscription) in self.standing() {
            assert_eq!(subscription.remembered, remembered[slot as usize], "entries of {slot}");
            assert!(subscription.live || subscription.remembered > 0, "{slot} is kept for nothing");
            if let Some(reached) = reached[slot as usize] {
                assert_eq!(
                    subscription.cursor, reached,
                    "the cursor of {slot} is where its last entry goes to"
                );
            }
        }
    }

    fn check_ready(&self) {
        for (slot, subscription) in self.standing() {
            let queued = self.ready.iter().filter(|ready| **ready == slot).count();
            let expected = usize::from(subscription.live && subscription.ready);
            assert_eq!(queued, expected, "{slot} is as often in the queue as it says");
        }
        assert!(self.ready.iter().all(|slot| self.get(*slot).is_some()), "all in the queue are there");
    }

    fn check_owed(&self) {
        let mut before = self.sent;
        for slot in &self.owed {
            let subscription = self.get(*slot).expect("owed to one that stands");
            let (seq, _) = subscription.owed().expect("owed for what was forgotten");
            assert!(subscription.live, "nothing is owed to who has left");
            assert!(before < seq, "each owed gap has a seq of its own, and they rise");
            before = seq;
        }
        assert!(self.owed.is_empty() || before <= self.ring.dropped(), "owed is only what was forgotten");
    }

    fn standing(&self) -> impl Iterator<Item = (u32, &Subscription<C>)> {
        (0..).zip(&self.subscriptions).filter_map(|(slot, it)| Some((slot, it.as_ref()?)))
    }
}
