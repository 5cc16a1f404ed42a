//! Continuing a stream from an outdated record, after the process that sent the latest messages has failed.

use super::ring::ReplayRing;
use super::{LogBounds, Outbox};

impl<C> Outbox<C> {
    /// Continues after `seq`, which was sent after this outbox was recorded. (`None`: the client does not report a seq, and
    /// must receive no message twice.) What the client has received of each log is unknown, except in these cases, in
    /// which the client gets exactly the messages that it lacks:
    ///
    /// - `position` returns the offset that the client itself reports,
    /// - all later messages were sent on the only subscription, or
    /// - no message was published after the record, or the client has received all of them.
    ///
    /// Otherwise, the log is read from its end, after a gap of unknown length.
    ///
    /// `log` returns the bounds of a log. `seq` must be higher than [`Outbox::seq`].
    pub fn continue_after_loss(
        &mut self,
        seq: Option<u64>,
        log: impl Fn(&C) -> LogBounds,
        position: impl Fn(&C) -> Option<u64>,
    ) {
        let received = seq.map(|seq| seq.saturating_sub(self.seq()));
        let seq = seq.unwrap_or(self.seq());
        let slots: Vec<u32> = self.existing().filter(|(_, it)| it.live).map(|(slot, _)| slot).collect();
        let starts = slots.iter().filter_map(|slot| {
            let it = self.get(*slot)?;
            let bounds = log(&it.channel);
            let is_whole = !it.gap && it.cursor + 1 >= bounds.first;
            Some((
                it.cursor,
                is_whole.then(|| bounds.last.saturating_sub(it.cursor)),
                bounds,
                position(&it.channel),
            ))
        });
        let starts: Vec<_> = starts.collect();
        // A message that is in several logs has only one seq.
        let unread =
            starts.iter().map(|(_, unread, ..)| *unread).sum::<Option<u64>>().filter(|_| !self.overlaps);
        let has_everything = unread.is_some() && unread == received;
        let received =
            received.filter(|received| slots.len() == 1 && unread.is_some_and(|unread| *received <= unread));

        self.ring = ReplayRing::after(seq, self.ring.capacity());
        (self.sent, self.acknowledged) = (seq, seq);
        self.clear_pending_gaps();
        for slot in 0..self.slots() {
            self.free_if_unused(slot);
        }
        for (slot, (cursor, unread, bounds, position)) in slots.into_iter().zip(starts) {
            let (cursor, gap) = match (position, received) {
                (Some(offset), _) => (offset.min(bounds.last), offset > bounds.last),
                (None, _) if has_everything => (bounds.last, false),
                (None, Some(received)) => (cursor + received, false),
                (None, None) if unread == Some(0) => (cursor, false),
                (None, None) => (bounds.last.max(cursor), true),
            };
            if let Some(it) = self.get_mut(slot) {
                it.restart(cursor, gap);
            }
            self.mark_ready(super::SubscriptionSlot(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SubscriptionSlot, Turn, TurnOutcome, WhenFull};
    use super::*;

    /// A log with the messages 1 to 9, all of which the record has sent up to 4.
    const LOG: LogBounds = LogBounds { first: 1, last: 9 };

    fn recorded(logs: &[char]) -> Outbox<char> {
        let mut outbox = Outbox::new(16);
        for log in logs {
            outbox.subscribe(*log, 0, false);
            let turn = outbox.next_turn().expect("a new subscription has a turn");
            outbox.take(turn, LogBounds { first: 1, last: 4 }, 100, |_| &[]);
        }
        outbox
    }

    /// Returns the first offset that is sent next on each subscription; 0 for a gap.
    fn sent(outbox: &mut Outbox<char>, log: impl Fn(char) -> LogBounds) -> Vec<(char, u64)> {
        let mut sent = Vec::new();
        while let Some(turn @ Turn { slot: SubscriptionSlot(_), .. }) = outbox.next_turn() {
            let channel = *outbox.channel(turn.slot).expect("a turn has a channel");
            match outbox.take(turn, log(channel), 100, |_| &[]) {
                TurnOutcome::Messages { offset, .. } => sent.push((channel, offset)),
                TurnOutcome::Gap { .. } => sent.push((channel, 0)),
                _ => {}
            }
            outbox.check_invariants();
        }
        sent
    }

    #[test]
    fn client_gets_what_it_lacks_or_a_gap() {
        type Case<'a> = (&'a [char], u64, &'a [(char, u64)], &'a [(char, u64)]);
        let table: [Case<'_>; 7] = [
            (&['a'], 2, &[], &[('a', 7)]),
            (&['a'], 5, &[], &[]),
            // More than the log has.
            (&['a'], 6, &[], &[('a', 0)]),
            (&['a', 'b'], 10, &[], &[]),
            (&['a', 'b'], 3, &[], &[('a', 0), ('b', 0)]),
            (&['a', 'b'], 3, &[('a', 6), ('b', 5)], &[('a', 7), ('b', 6)]),
            (&['a', 'b'], 3, &[('b', 5)], &[('a', 0), ('b', 6)]),
        ];
        for (logs, received, positions, expected) in table {
            let mut outbox = recorded(logs);
            let seq = outbox.seq() + received;
            let position = |log: &char| positions.iter().find(|(of, _)| of == log).map(|(_, at)| *at);
            outbox.continue_after_loss(Some(seq), |_| LOG, position);
            outbox.resume(Some(seq), WhenFull::Stop);
            assert_eq!(sent(&mut outbox, |_| LOG), expected, "{logs:?} {received} {positions:?}");
            assert!(outbox.seq() >= seq);
        }
    }

    #[test]
    fn client_without_a_seq_gets_nothing_twice() {
        let mut outbox = recorded(&['a', 'b']);
        let log = |of: char| if of == 'a' { LOG } else { LogBounds { first: 1, last: 4 } };
        outbox.continue_after_loss(None, |of| log(*of), |_| None);
        outbox.resume(None, WhenFull::Stop);
        assert_eq!((sent(&mut outbox, log), outbox.seq()), (vec![('a', 0)], 9));
    }

    #[test]
    fn log_without_new_messages_has_no_gap() {
        let mut outbox = recorded(&['a', 'b']);
        let seq = outbox.seq() + 2;
        let log = |of: char| if of == 'a' { LOG } else { LogBounds { first: 1, last: 4 } };
        outbox.continue_after_loss(Some(seq), |of| log(*of), |_| None);
        outbox.resume(Some(seq), WhenFull::Stop);
        assert_eq!(sent(&mut outbox, log), [('a', 0)]);
    }

    #[test]
    fn log_that_lost_messages_has_a_gap() {
        let mut outbox = recorded(&['a']);
        let seq = outbox.seq() + 1;
        let log = LogBounds { first: 7, last: 9 };
        outbox.continue_after_loss(Some(seq), |_| log, |_| None);
        outbox.resume(Some(seq), WhenFull::Stop);
        assert_eq!(sent(&mut outbox, |_| log), [('a', 0)]);
    }

    #[test]
    fn former_subscriptions_are_freed() {
        let mut outbox = recorded(&['a', 'b']);
        outbox.unsubscribe(SubscriptionSlot(0));
        assert_eq!(outbox.channels().count(), 2);
        let seq = outbox.seq() + 1;
        outbox.continue_after_loss(Some(seq), |_| LOG, |_| None);
        outbox.resume(Some(seq), WhenFull::Stop);
        assert_eq!(outbox.channels().collect::<Vec<_>>(), [&'b']);
        assert_eq!(sent(&mut outbox, |_| LOG), [('b', 6)]);
    }
}
