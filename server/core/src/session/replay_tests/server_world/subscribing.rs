//! Beginning and ending subscriptions, with the notices that the client receives about them.

use super::{Coverage, LogRef, Outbox, ServerWorld, Subscription, TurnOutcome, WireFrame};

impl ServerWorld {
    pub(in crate::session::replay_tests) fn subscribe(
        &mut self,
        outbox: &mut Outbox<LogRef>,
        log: usize,
        (start, gap): (u64, bool),
        by_server: bool,
    ) {
        self.asked_for_old |= start < self.logs.bounds(log).last;
        let channel = self.logs.get(log);
        outbox.remove_end_notices(|ended| *ended == channel);
        self.subscriptions.iter_mut().filter(|it| it.log == log).for_each(|it| it.notifies_end = false);
        let slot = if by_server {
            outbox.subscribe_with_notice(|_| channel, start, gap, false)
        } else {
            outbox.subscribe(channel, start, gap)
        };
        assert!(!self.live().any(|(_, it)| it.slot == slot), "a slot has one subscription");
        self.subscriptions.push(Subscription {
            log,
            start,
            ended_before_start: self.ended,
            ended: None,
            gap,
            gap_sent: false,
            gap_to: 0,
            slot,
            by_server,
            notifies_end: false,
            live: true,
            cursor: start,
            caught_up: false,
            waited: 0,
        });
    }

    pub(in crate::session::replay_tests) fn unsubscribe(
        &mut self,
        outbox: &mut Outbox<LogRef>,
        subscription: usize,
        by_server: bool,
    ) {
        let it = &mut self.subscriptions[subscription];
        it.live = false;
        it.ended = Some(self.ended);
        self.ended += 1;
        it.notifies_end = by_server;
        if by_server {
            outbox.unsubscribe_with_notice(it.slot);
        } else {
            outbox.unsubscribe(it.slot);
        }
    }

    pub(super) fn notice(&self, subscription: usize, run: TurnOutcome, coverage: &mut Coverage) -> WireFrame {
        let it = &self.subscriptions[subscription];
        let is_end = matches!(run, TurnOutcome::Ended(_));
        if is_end {
            assert!(!it.live && it.notifies_end, "the server ended the subscription: {it:?}");
            coverage.record("notice of an end");
        } else {
            assert_eq!(run, TurnOutcome::Begun { offset: it.start });
            assert!(it.live && it.by_server, "the server began the subscription: {it:?}");
            coverage.record("notice of a beginning");
        }
        WireFrame::Notice { subscription, is_end }
    }
}
