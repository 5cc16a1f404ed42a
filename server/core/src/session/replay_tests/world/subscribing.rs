//! Subscriptions that begin and end, and what a client is told of those that it has not asked for.

use super::{Coverage, Frame, LogRef, Outbox, Run, Subscription, World};

impl World {
    pub(in crate::session::replay_tests) fn subscribe(
        &mut self,
        outbox: &mut Outbox<LogRef>,
        log: usize,
        (begun, gap): (u64, bool),
        by_server: bool,
    ) {
        self.asked_for_old |= begun < self.logs.bounds(log).last;
        let channel = self.logs.get(log);
        outbox.forget_ends(|ended| *ended == channel);
        self.subscriptions.iter_mut().filter(|it| it.log == log).for_each(|it| it.tells_end = false);
        let slot = if by_server {
            outbox.subscribe_and_tell(|_| channel, begun, gap, false)
        } else {
            outbox.subscribe(channel, begun, gap)
        };
        assert!(!self.live().any(|(_, it)| it.slot == slot), "a slot has one subscription");
        self.subscriptions.push(Subscription {
            log,
            begun,
            born: self.ended,
            ended: None,
            gap,
            gap_sent: false,
            told_to: 0,
            slot,
            by_server,
            tells_end: false,
            live: true,
            cursor: begun,
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
        it.tells_end = by_server;
        if by_server {
            outbox.unsubscribe_and_tell(it.slot);
        } else {
            outbox.unsubscribe(it.slot);
        }
    }

    pub(super) fn notice(&self, subscription: usize, run: Run, coverage: &mut Coverage) -> Frame {
        let it = &self.subscriptions[subscription];
        let is_end = matches!(run, Run::Ended(_));
        if is_end {
            assert!(!it.live && it.tells_end, "it has ended by the server's will: {it:?}");
            coverage.met("told of an end");
        } else {
            assert_eq!(run, Run::Begun { offset: it.begun });
            assert!(it.live && it.by_server, "it goes on by the server's will: {it:?}");
            coverage.met("told of a beginning");
        }
        Frame::Notice { subscription, is_end }
    }
}
