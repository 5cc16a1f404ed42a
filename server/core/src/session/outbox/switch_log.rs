//! Switching a subscription to another log after its own has ended.

use super::Outbox;
use super::log_handle::LogHandle;
use super::subscription::Subscription;
use super::turn::{LogBounds, SubscriptionSlot, WhenFull};

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
        // An event stream acknowledges nothing. If its client resumes from before the ring, the old log can no
        // longer report the entries that have left the ring, before the messages of the new log.
        let may_lack_evicted =
            self.when_full == WhenFull::Wrap && old.last_evicted().is_some_and(|seq| seq > self.acknowledged);
        let may_have_gap =
            old.gap || may_lack_evicted || self.pending_gaps().any(|pending| pending == slot.0);
        let (cursor, gap) = match shared_up_to {
            Some(shared_up_to) => (old.cursor.min(shared_up_to), may_have_gap || old.cursor > shared_up_to),
            None => (log.first - 1, true),
        };
        // If the client resumes from before the ring, no live subscription of the ended log remains to report
        // the messages sent from it.
        let may_resume_before_ring =
            old.relies_on_others() || old.last_evicted().is_some() || self.ring.contains_slot(slot.0);
        self.overlaps |= may_resume_before_ring;
        let notice = self.get(slot.0).and_then(Subscription::notice);
        self.unsubscribe(slot);
        if let Some(old) = self.get_mut(slot.0) {
            old.switched = true;
        }
        let moved = self.subscribe_with(channel, cursor, gap);
        if let Some(notice) = notice {
            self.store_notice(moved.0, notice);
        }
        if may_resume_before_ring && let Some(it) = self.get_mut(moved.0) {
            it.advance_past(cursor);
        }
        Some(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Turn, TurnOutcome};
    use super::*;

    const LOG: LogBounds = LogBounds { first: 1, last: 9 };

    fn next(outbox: &mut Outbox<char>, log: LogBounds) -> TurnOutcome {
        let turn: Turn = outbox.next_turn().expect("there is something to send");
        outbox.take(turn, log, 100, |_| &[])
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

    /// An event stream sends no acknowledgements, except when it resumes.
    #[test]
    fn an_event_stream_gets_a_gap_if_the_ring_has_lost_unacknowledged_messages() {
        for (sent, gap) in [(16, None), (17, Some(TurnOutcome::Gap { seq: 24, range: None }))] {
            let mut outbox = Outbox::new(16);
            let slot = outbox.subscribe('o', 0, false);
            outbox.resume(None, WhenFull::Wrap);
            next(&mut outbox, LogBounds { first: 1, last: 6 });
            outbox.resume(Some(6), WhenFull::Wrap);
            outbox.mark_ready(slot);
            let log = LogBounds { first: 1, last: 6 + sent };
            while let Some(turn) = outbox.next_turn() {
                outbox.take(turn, log, 100, |_| &[]);
            }
            outbox.switch_log(slot, |_| 'n', Some(log.last), log).expect("the subscription is live");
            let taken = outbox.next_turn().map(|turn| outbox.take(turn, log, 100, |_| &[]));
            assert_eq!(taken.filter(|taken| *taken != TurnOutcome::CaughtUp), gap, "{sent}");
            outbox.check_invariants();
        }
    }

    /// A client that is disconnected after the first resent message must not believe that it lacks nothing.
    #[test]
    fn evicted_entries_of_the_former_log_are_reported_before_the_ring() {
        let mut outbox = Outbox::new(4);
        let slot = outbox.subscribe('o', 0, false);
        outbox.resume(None, WhenFull::Wrap);
        while let Some(turn) = outbox.next_turn() {
            outbox.take(turn, LOG, 100, |_| &[]);
        }
        outbox.switch_log(slot, |_| 'n', Some(9), LOG).expect("the subscription is live");
        outbox.resume(None, WhenFull::Wrap);
        assert_eq!(next(&mut outbox, LOG), TurnOutcome::Gap { seq: 5, range: Some((1, 5)) });
        outbox.check_invariants();
        assert_eq!(
            next(&mut outbox, LOG),
            TurnOutcome::Messages { seq: 6, offset: 6, count: 4, caught_up: false }
        );
        assert_eq!(next(&mut outbox, LOG), TurnOutcome::Gap { seq: 10, range: None });
        outbox.check_invariants();
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
                TurnOutcome::Gap { seq: 5, range: None },
                "{is_acknowledged_first}"
            );
            outbox.check_invariants();
        }
    }
}
