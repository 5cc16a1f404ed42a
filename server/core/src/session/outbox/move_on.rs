//! A log goes on in another one: what a subscription makes of it.

use super::Outbox;
use super::overlap::Source;
use super::subscription::Subscription;
use super::turn::{Bounds, Slot, WhenFull};

impl<C: Source> Outbox<C> {
    /// The log of a subscription has ended. Another goes on in its place, with the same messages up to `cut` under the same numbers, if that is
    /// something. The subscription ends, and another begins: where this one was, or with a gap, if the client may have what is not in the other
    /// log, or may lack what is in neither.
    pub fn move_on(
        &mut self,
        slot: Slot,
        channel: impl FnOnce(Slot) -> C,
        cut: Option<u64>,
        log: Bounds,
    ) -> Option<Slot> {
        let old = self.get(slot.0).filter(|it| it.live)?;
        // What has left a ring that wraps would have been told as a gap of the old log.
        let may_lack = old.gap
            || self.pending_gaps().any(|pending| pending == slot.0)
            || (self.when_full == WhenFull::Wrap && old.last_evicted().is_some());
        let (cursor, gap) = match cut {
            Some(cut) => (old.cursor.min(cut), may_lack || old.cursor > cut),
            None => (log.first - 1, true),
        };
        // To a client that goes back to before the ring, nobody tells what was sent of the log that has ended.
        let may_go_back =
            old.relies_on_others() || old.last_evicted().is_some() || self.ring.has_any_of(slot.0);
        self.overlaps |= may_go_back;
        let notice = self.get(slot.0).and_then(Subscription::notice);
        self.unsubscribe(slot);
        let moved = self.subscribe_with(channel, cursor, gap);
        if let Some(notice) = notice {
            self.have_told(moved.0, notice);
        }
        if may_go_back && let Some(it) = self.get_mut(moved.0) {
            it.pass(cursor);
        }
        Some(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Run, Turn};
    use super::*;

    const LOG: Bounds = Bounds { first: 1, last: 9 };

    fn next(outbox: &mut Outbox<char>, log: Bounds) -> Run {
        let turn: Turn = outbox.next_turn().expect("something to send");
        outbox.take(turn, log, 100, |_| &[])
    }

    #[test]
    fn where_the_other_log_has_what_comes_next_nothing_is_missing() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe('o', 5, false);
        let moved = outbox.move_on(slot, |_| 'n', Some(7), LOG).expect("it was followed");
        assert_eq!(outbox.channel(moved), Some(&'n'));
        assert_eq!(next(&mut outbox, LOG), Run::Messages { seq: 1, offset: 6, count: 4, caught_up: true });
    }

    #[test]
    fn what_was_lost_is_a_gap() {
        for (cut, next_offset) in [(Some(4), 5), (None, 1)] {
            let mut outbox = Outbox::new(16);
            let slot = outbox.subscribe('o', 5, false);
            outbox.move_on(slot, |_| 'n', cut, LOG);
            assert!(matches!(next(&mut outbox, LOG), Run::Gap { seq: 1, range: None }), "{cut:?}");
            let Run::Messages { offset, .. } = next(&mut outbox, LOG) else { panic!("{cut:?}") };
            assert_eq!(offset, next_offset);
        }
    }

    #[test]
    fn a_gap_that_was_not_told_yet_still_is() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe('o', 5, true);
        outbox.move_on(slot, |_| 'n', Some(7), LOG);
        assert!(matches!(next(&mut outbox, LOG), Run::Gap { .. }));
    }

    #[test]
    fn what_was_sent_is_sent_again_from_the_old_log() {
        let mut outbox = Outbox::new(16);
        let slot = outbox.subscribe('o', 5, false);
        assert_eq!(next(&mut outbox, LOG), Run::Messages { seq: 1, offset: 6, count: 4, caught_up: true });
        outbox.move_on(slot, |_| 'n', Some(9), LOG);
        assert_eq!(outbox.channel(slot), Some(&'o'), "until it is acknowledged");
        outbox.acknowledge(4);
        assert_eq!(outbox.channel(slot), None);
    }

    #[test]
    fn whoever_goes_back_to_before_the_ring_is_told_that_the_old_log_had_something() {
        for is_acknowledged_first in [true, false] {
            let mut outbox = Outbox::new(16);
            let mut slot = outbox.subscribe('o', 5, false);
            assert_eq!(
                next(&mut outbox, LOG),
                Run::Messages { seq: 1, offset: 6, count: 4, caught_up: true }
            );
            if is_acknowledged_first {
                outbox.acknowledge(4);
            }
            for log in ['n', 'm'] {
                slot = outbox.move_on(slot, |_| log, Some(9), LOG).expect("it was followed");
                assert_eq!(next(&mut outbox, LOG), Run::CaughtUp);
            }
            outbox.acknowledge(4);
            outbox.resume(Some(4), WhenFull::Stop);
            assert!(outbox.next_turn().is_none(), "it has all that there is");
            outbox.resume(Some(2), WhenFull::Stop);
            assert_eq!(next(&mut outbox, LOG), Run::Gap { seq: 5, range: None }, "{is_acknowledged_first}");
            outbox.check_invariants();
        }
    }
}
