//! Invariants of an outbox, checked exhaustively after every step of a test.

use super::ring::EntryKind;
use super::{MAX_END_NOTICES, Outbox, Subscription};

impl<C> Outbox<C> {
    /// Panics if an invariant is violated.
    pub(in crate::session) fn check_invariants(&self) {
        self.check_seqs();
        self.check_ring();
        self.check_ready();
        self.check_pending_gaps();
        self.check_notices();
        self.check_boxes();
    }

    fn check_seqs(&self) {
        let (dropped, last) = (self.ring.dropped(), self.seq());
        assert!(self.ring.len() <= self.ring.capacity(), "the ring does not exceed its capacity");
        assert!(self.acknowledged <= dropped, "acknowledged entries have left the ring");
        assert!(self.acknowledged <= self.sent, "only seqs sent on this connection are acknowledged");
        assert!(self.sent <= last, "every sent seq has been assigned");
        assert!(
            self.sent >= dropped || self.next_pending_gap().is_some(),
            "without pending gaps, the ring's entries are next"
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
            assert!(self.get(entry.slot).is_some(), "the subscription of seq {seq} exists");
            in_ring[slot] = true;
            let first = match entry.kind() {
                EntryKind::Message => Some(entry.offset),
                EntryKind::Gap(range) => range.map(|(from, _)| from),
            };
            if let (Some(reached), Some(first)) = (reached[slot], first) {
                let passes = self.get(entry.slot).is_some_and(Subscription::is_sent_by_others);
                assert!(
                    first == reached + 1 || passes && first > reached,
                    "seq {seq} follows the previous entry of its subscription"
                );
            }
            reached[slot] = Some(entry.last_offset());
        }
        for (slot, subscription) in self.existing() {
            let is_kept = in_ring[slot as usize] || subscription.notice().is_some();
            assert!(subscription.live || is_kept, "{slot} is kept only while it is needed");
            if let Some(reached) = reached[slot as usize] {
                let passes = subscription.is_sent_by_others() && subscription.cursor > reached;
                assert!(
                    subscription.cursor == reached || passes,
                    "the cursor of {slot} is at the end of its last entry"
                );
            }
        }
    }

    fn check_ready(&self) {
        for (slot, subscription) in self.existing() {
            let queued = self.ready().filter(|ready| *ready == slot).count();
            let expected = usize::from(subscription.live && subscription.ready);
            assert_eq!(queued, expected, "the queue matches the flag of {slot}");
        }
        assert!(self.ready().all(|slot| self.get(slot).is_some()), "every queued subscription exists");
    }

    fn check_pending_gaps(&self) {
        let mut before = self.sent;
        for slot in self.pending_gaps() {
            let subscription = self.get(slot).expect("a gap is pending only for an existing subscription");
            let (seq, _) = subscription.evicted_gap().expect("a gap is pending only for evicted entries");
            assert!(subscription.reports_evicted(), "no gap is pending after an unsubscribe");
            assert!(before < seq, "the seqs of pending gaps are ascending");
            before = seq;
        }
        assert!(
            self.next_pending_gap().is_none() || before <= self.ring.dropped(),
            "only evicted entries have pending gaps"
        );
    }

    fn check_notices(&self) {
        let mut noted = 0;
        for (slot, it) in self.existing() {
            let queued = self.notices().filter(|pending| *pending == slot).count();
            let expected = it.notice().is_some_and(|notice| notice.sent_after.is_none());
            assert_eq!(queued, usize::from(expected), "the queue matches the notice of {slot}");
            let Some(notice) = it.notice() else { continue };
            assert_eq!(notice.is_end(), !it.live, "the notice of {slot} matches its state");
            assert!(
                notice.sent_after <= Some(self.seq()),
                "the notice of {slot} was sent after an assigned seq"
            );
            noted += usize::from(notice.is_end());
        }
        assert!(noted <= MAX_END_NOTICES, "the number of end notices is limited");
        assert!(self.notices().all(|slot| self.get(slot).is_some()), "every queued subscription exists");
        let has_notices = self.existing().any(|(_, it)| it.notice().is_some());
        assert_eq!(self.has_notices(), has_notices, "the flag matches the notices");
    }

    fn check_boxes(&self) {
        let waits = self.ready().count() > 1;
        assert!(self.next_ready().is_some() || !waits, "subscriptions wait only behind another");
        let owes = self.next_pending_gap().is_some() || self.last_orphan_evicted() > 0;
        let needed = self.slots() > 1 || waits || owes || self.has_notices();
        assert_eq!(self.rare.is_some(), needed, "the box exists only if it is needed");
    }
}
