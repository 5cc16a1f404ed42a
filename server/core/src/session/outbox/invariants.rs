//! The invariants of an outbox, checked the slow way. For tests, after every step.

use super::ring::EntryKind;
use super::{MOST_ENDS, Outbox, Subscription};

impl<C> Outbox<C> {
    /// Panics if the outbox contradicts itself.
    pub(in crate::session) fn check_invariants(&self) {
        self.check_seqs();
        self.check_ring();
        self.check_ready();
        self.check_pending_gaps();
        self.check_notices();
        self.check_box();
    }

    fn check_seqs(&self) {
        let (dropped, last) = (self.ring.dropped(), self.seq());
        assert!(self.ring.len() <= self.ring.capacity(), "the ring is bounded");
        assert!(self.acknowledged <= dropped, "what is acknowledged is not in the ring");
        assert!(self.acknowledged <= self.sent, "what is not sent on this connection is not acknowledged");
        assert!(self.sent <= last, "nothing is sent that is not in the ring");
        assert!(
            self.sent >= dropped || self.next_pending_gap().is_some(),
            "without pending gaps, the ring comes next"
        );
    }

    fn check_ring(&self) {
        let mut in_ring = vec![false; self.slots() as usize];
        let mut reached: Vec<Option<u64>> = (0..self.slots())
            .map(|slot| self.get(slot)?.evicted_gap()?.1.map(|(_, offset)| offset))
            .collect();
        for seq in self.ring.dropped() + 1..=self.seq() {
            let entry = self.ring.get(seq).expect("seqs have no holes");
            let slot = entry.slot as usize;
            assert!(self.get(entry.slot).is_some(), "seq {seq} is of a subscription that has ended");
            in_ring[slot] = true;
            let first = match entry.kind() {
                EntryKind::Message => Some(entry.offset),
                EntryKind::Gap(range) => range.map(|(from, _)| from),
            };
            if let (Some(reached), Some(first)) = (reached[slot], first) {
                let passes = self.get(entry.slot).is_some_and(Subscription::is_sent_by_others);
                assert!(
                    first == reached + 1 || passes && first > reached,
                    "seq {seq} continues where its subscription was"
                );
            }
            reached[slot] = Some(entry.last_offset());
        }
        for (slot, subscription) in self.existing() {
            let is_kept = in_ring[slot as usize] || subscription.notice().is_some();
            assert!(subscription.live || is_kept, "{slot} is kept for nothing");
            if let Some(reached) = reached[slot as usize] {
                let passes = subscription.is_sent_by_others() && subscription.cursor > reached;
                assert!(
                    subscription.cursor == reached || passes,
                    "the cursor of {slot} is where its last entry ends"
                );
            }
        }
    }

    fn check_ready(&self) {
        for (slot, subscription) in self.existing() {
            let queued = self.ready().filter(|ready| *ready == slot).count();
            let expected = usize::from(subscription.live && subscription.ready);
            assert_eq!(queued, expected, "{slot} is as often in the queue as it says");
        }
        assert!(self.ready().all(|slot| self.get(slot).is_some()), "all in the queue are there");
    }

    fn check_pending_gaps(&self) {
        let mut before = self.sent;
        for slot in self.pending_gaps() {
            let subscription = self.get(slot).expect("pending for one that exists");
            let (seq, _) = subscription.evicted_gap().expect("pending for what was evicted");
            assert!(subscription.live, "no gap is pending for one that has unsubscribed");
            assert!(before < seq, "each pending gap has a seq of its own, and they rise");
            before = seq;
        }
        assert!(
            self.next_pending_gap().is_none() || before <= self.ring.dropped(),
            "only what was evicted is pending"
        );
    }

    fn check_notices(&self) {
        let mut noted = 0;
        for (slot, it) in self.existing() {
            let queued = self.notices().filter(|untold| *untold == slot).count();
            let expected = it.notice().is_some_and(|notice| notice.told_after.is_none());
            assert_eq!(queued, usize::from(expected), "{slot} is in the queue as it says");
            let Some(notice) = it.notice() else { continue };
            assert_eq!(notice.is_end(), !it.live, "{slot} is told as it is");
            assert!(notice.told_after <= Some(self.seq()), "{slot} was not told in the future");
            noted += usize::from(notice.is_end());
        }
        assert!(noted <= MOST_ENDS, "ends are bounded");
        assert!(self.notices().all(|slot| self.get(slot).is_some()), "all in the queue are there");
        let has_notices = self.existing().any(|(_, it)| it.notice().is_some());
        assert_eq!(self.has_notices(), has_notices, "known as it is");
    }

    fn check_box(&self) {
        let waits = self.ready().count() > 1;
        assert!(self.next_ready().is_some() || !waits, "whoever waits, waits for another");
        let owes = self.next_pending_gap().is_some() || self.forgotten() > 0;
        let needed = self.slots() > 1 || waits || owes || self.has_notices();
        assert_eq!(self.rare.is_some(), needed, "a box for nothing");
    }
}
