//! Switching a subscription to another log after its own has ended.

use super::Outbox;
use super::log_handle::LogHandle;
use super::turn::{LogBounds, SubscriptionSlot};

impl<C: LogHandle> Outbox<C> {
    /// Replaces the subscription when its log has ended and the log of `channel` continues in its place. The
    /// two logs contain the same messages up to offset `shared_up_to`; `None` if they share none. The
    /// subscription ends, and a new one begins at its position. The new one begins with a gap if the client
    /// may have messages that the new log lacks, or may lack messages that neither log has.
    pub fn switch_log(
        &mut self,
        slot: SubscriptionSlot,
        channel: impl FnOnce(SubscriptionSlot) -> C,
        shared_up_to: Option<u64>,
        log: LogBounds,
    ) -> Option<SubscriptionSlot> {
        let old = self.get(slot.0).filter(|it| it.live)?;
        let may_have_gap = old.gap || self.pending_gaps().any(|pending| pending == slot.0);
        let (cursor, gap) = match shared_up_to {
            Some(shared_up_to) => (old.cursor.min(shared_up_to), may_have_gap || old.cursor > shared_up_to),
            None => (log.first - 1, true),
        };
        let (evicted, relies_on_others) = (old.evicted, old.relies_on_others());
        let notice = old.notice();
        self.drop_notice(slot.0);
        self.end_subscription(slot.0);
        let was_freed = self.get(slot.0).is_none();
        let moved = self.subscribe_with(channel, cursor, gap);
        self.set_successor(slot.0, moved.0, was_freed);
        let Some(new) = self.get_mut(moved.0) else { return Some(moved) };
        if let Some(evicted) = evicted
            && was_freed
        {
            new.inherit_evicted(evicted.seq);
        }
        if relies_on_others {
            new.advance_past(cursor);
        }
        if let Some(notice) = notice {
            self.store_notice(moved.0, notice);
        }
        Some(moved)
    }
}

impl<C> Outbox<C> {
    /// Makes `new` the successor of the ended subscription `old`, or, if that one was freed, of its
    /// predecessors.
    fn set_successor(&mut self, old: u32, new: u32, was_freed: bool) {
        for slot in (0..self.slots()).filter(|slot| *slot != new) {
            let Some(it) = self.get_mut(slot) else { continue };
            if slot == old || was_freed && it.successor() == Some(old) {
                it.set_successor(Some(new));
            }
        }
    }

    /// Stops the predecessors of an ended subscription, directly or indirectly, from reporting evicted entries.
    pub(super) fn forget_predecessors(&mut self, ended: u32) {
        for slot in 0..self.slots() {
            if let Some(it) = self.get_mut(slot).filter(|it| it.successor() == Some(ended)) {
                it.set_successor(None);
                self.remove_pending_gap(slot);
                self.forget_predecessors(slot);
            }
        }
    }

    /// Hands the evicted entries of an ended subscription over to its successor, before its slot is freed.
    pub(super) fn hand_over_evicted(&mut self, freed: u32) {
        let ended = self.get(freed).and_then(|it| Some((it.successor()?, it.evicted?)));
        if let Some((successor, evicted)) = ended
            && let Some(it) = self.get_mut(successor)
        {
            it.inherit_evicted(evicted.seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Turn, TurnOutcome, WhenFull};
    use super::*;

    const LOG: LogBounds = LogBounds { first: 1, last: 9 };

    fn next(outbox: &mut Outbox<char>, log: LogBounds) -> TurnOutcome {
        let turn: Turn = outbox.next_turn().expect("there is something to send");
        outbox.take(turn, log, 100, |_| &[])
    }

    /// Returns the outbox of an event stream that has sent the whole log, of which the ring holds the last four
    /// messages.
    fn wrapped_stream() -> (Outbox<char>, SubscriptionSlot) {
        let mut outbox = Outbox::new(4);
        let slot = outbox.subscribe('o', 0, false);
        outbox.resume(None, WhenFull::Wrap);
        while let Some(turn) = outbox.next_turn() {
            outbox.take(turn, LOG, 100, |_| &[]);
        }
        (outbox, slot)
    }

    #[test]
    fn switching_to_a_log_with_the_next_message_leaves_no_gap() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe('o', 5, false);
        let moved = outbox.switch_log(slot, |_| 'n', Some(7), LOG).expect("the subscription is live");
        assert_eq!(outbox.channel(moved), Some(&'n'));
        assert_eq!(
            next(&mut outbox, LOG),
            TurnOutcome::Messages { seq: 1, offset: 6, count: 4, caught_up: true }
        );
    }

    #[test]
    fn messages_missing_from_the_new_log_become_a_gap() {
        for (shared_up_to, next_offset) in [(Some(4), 5), (None, 1)] {
            let mut outbox = Outbox::new(16);
            let slot = outbox.subscribe('o', 5, false);
            outbox.switch_log(slot, |_| 'n', shared_up_to, LOG);
            assert!(
                matches!(next(&mut outbox, LOG), TurnOutcome::Gap { seq: 1, range: None }),
                "{shared_up_to:?}"
            );
            let TurnOutcome::Messages { offset, .. } = next(&mut outbox, LOG) else {
                panic!("{shared_up_to:?}")
            };
            assert_eq!(offset, next_offset);
        }
    }

    #[test]
    fn a_pending_gap_survives_the_switch() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe('o', 5, true);
        outbox.switch_log(slot, |_| 'n', Some(7), LOG);
        assert!(matches!(next(&mut outbox, LOG), TurnOutcome::Gap { .. }));
    }

    #[test]
    fn sent_messages_are_resent_from_the_old_log() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe('o', 5, false);
        assert_eq!(
            next(&mut outbox, LOG),
            TurnOutcome::Messages { seq: 1, offset: 6, count: 4, caught_up: true }
        );
        outbox.switch_log(slot, |_| 'n', Some(9), LOG);
        assert_eq!(outbox.channel(slot), Some(&'o'), "kept until acknowledged");
        outbox.acknowledge(4);
        assert_eq!(outbox.channel(slot), None);
    }

    /// An event stream acknowledges nothing, so its client may resume from before the ring at any time.
    #[test]
    fn a_client_that_resumes_before_the_ring_gets_the_gap_before_the_messages() {
        let (mut outbox, slot) = wrapped_stream();
        outbox.switch_log(slot, |_| 'n', Some(9), LOG).expect("the subscription is live");
        assert_eq!(next(&mut outbox, LOG), TurnOutcome::CaughtUp, "a client that has everything gets no gap");
        outbox.resume(None, WhenFull::Wrap);
        assert_eq!(next(&mut outbox, LOG), TurnOutcome::Gap { seq: 5, range: Some((1, 5)) });
        outbox.check_invariants();
        assert_eq!(
            next(&mut outbox, LOG),
            TurnOutcome::Messages { seq: 6, offset: 6, count: 4, caught_up: false }
        );
        assert!(outbox.next_turn().is_none());

        // The new subscription reports the gap once the ring has no entry of the ended one.
        let log = LogBounds { first: 1, last: 13 };
        outbox.mark_ready(SubscriptionSlot(1));
        next(&mut outbox, log);
        outbox.resume(None, WhenFull::Wrap);
        outbox.check_invariants();
        assert_eq!(next(&mut outbox, log), TurnOutcome::Gap { seq: 9, range: None });
        assert_eq!(
            next(&mut outbox, log),
            TurnOutcome::Messages { seq: 10, offset: 10, count: 4, caught_up: false }
        );
    }

    #[test]
    fn nothing_is_reported_after_an_unsubscribe() {
        let (mut outbox, slot) = wrapped_stream();
        let slot = outbox.switch_log(slot, |_| 'n', Some(9), LOG).expect("the subscription is live");
        let slot = outbox.switch_log(slot, |_| 'm', Some(9), LOG).expect("the subscription is live");
        outbox.resume(None, WhenFull::Wrap);
        outbox.unsubscribe(slot);
        outbox.check_invariants();
        assert_eq!(
            next(&mut outbox, LOG),
            TurnOutcome::Messages { seq: 6, offset: 6, count: 4, caught_up: false }
        );
    }

    #[test]
    fn resuming_before_the_ring_reports_a_gap_after_a_switch() {
        for is_acknowledged_first in [true, false] {
            let mut outbox = Outbox::new(16);
            let mut slot = outbox.subscribe('o', 5, false);
            assert_eq!(
                next(&mut outbox, LOG),
                TurnOutcome::Messages { seq: 1, offset: 6, count: 4, caught_up: true }
            );
            if is_acknowledged_first {
                outbox.acknowledge(4);
            }
            for log in ['n', 'm'] {
                slot = outbox.switch_log(slot, |_| log, Some(9), LOG).expect("the subscription is live");
                assert_eq!(next(&mut outbox, LOG), TurnOutcome::CaughtUp);
            }
            outbox.acknowledge(4);
            outbox.resume(Some(4), WhenFull::Stop);
            assert!(outbox.next_turn().is_none(), "the client has everything");
            outbox.resume(Some(2), WhenFull::Stop);
            assert_eq!(
                next(&mut outbox, LOG),
                TurnOutcome::Gap { seq: 4, range: None },
                "{is_acknowledged_first}"
            );
            outbox.check_invariants();
        }
    }
}
