//! What the server has besides the session: the logs, their subscribers, and, for comparison, a record of everything that
//! was ever sent.

use super::coverage::Coverage;
use crate::session::Outbox;
use crate::session::outbox::{Bounds, Run, Slot, Turn};

/// What goes to the client. A subscription is its index in [`World::subscriptions`], which never comes twice.
#[derive(Clone, Copy, Debug)]
pub(super) enum Frame {
    Message {
        seq: u64,
        subscription: usize,
        offset: u64,
        /// As it was when this was encoded.
        live: bool,
    },
    Gap {
        seq: u64,
        subscription: usize,
        range: Option<(u64, u64)>,
        /// How far it goes, also when it does not say so.
        to: u64,
        live: bool,
    },
    Ping {
        seq: u64,
    },
}

#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) channel: usize,
    pub(super) begun: u64,
    /// It begins with a gap of unknown length.
    pub(super) gap: bool,
    gap_sent: bool,
    slot: Slot,
    pub(super) live: bool,
    pub(super) cursor: u64,
    caught_up: bool,
    /// How many turns others have had since it was ready.
    waited: usize,
}

/// What was sent under a seq for the first time.
#[derive(Debug)]
struct Sent {
    subscription: usize,
    what: What,
}

#[derive(Debug, PartialEq)]
enum What {
    Message(u64),
    Gap { range: Option<(u64, u64)>, to: u64 },
}

impl Sent {
    fn last_offset(&self) -> u64 {
        match self.what {
            What::Message(offset) => offset,
            What::Gap { to, .. } => to,
        }
    }
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) logs: Vec<Bounds>,
    pub(super) subscriptions: Vec<Subscription>,
    /// The first is seq 1.
    sent: Vec<Sent>,
    /// Something has happened after which gaps are allowed.
    pub(super) gaps_allowed: bool,
}

/// Where an outbox is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) sent: u64,
    pub(super) seq: u64,
    pub(super) dropped: u64,
}

impl Position {
    pub(super) fn of(outbox: &Outbox<usize>) -> Self {
        let seq = outbox.seq();
        Self { sent: outbox.sent(), seq, dropped: seq - outbox.unacked() as u64 }
    }
}

impl World {
    pub(super) fn new(channels: usize) -> Self {
        let logs = vec![Bounds { first: 1, last: 0 }; channels];
        Self { logs, subscriptions: Vec::new(), sent: Vec::new(), gaps_allowed: false }
    }

    pub(super) fn live(&self) -> impl Iterator<Item = (usize, &Subscription)> {
        self.subscriptions.iter().enumerate().filter(|(_, it)| it.live)
    }

    pub(super) fn publish(&mut self, outbox: &mut Outbox<usize>, channel: usize, count: u64) {
        self.logs[channel].last += count;
        for it in self.subscriptions.iter_mut().filter(|it| it.live && it.channel == channel) {
            if std::mem::take(&mut it.caught_up) {
                outbox.mark_ready(it.slot);
            }
        }
    }

    /// Also without need, and for subscriptions that have ended.
    pub(super) fn mark_all(&mut self, outbox: &mut Outbox<usize>) {
        for it in &mut self.subscriptions {
            it.caught_up = false;
            outbox.mark_ready(it.slot);
        }
    }

    pub(super) fn subscribe(&mut self, outbox: &mut Outbox<usize>, channel: usize, begun: u64, gap: bool) {
        let slot = outbox.subscribe(channel, begun, gap);
        assert!(!self.live().any(|(_, it)| it.slot == slot), "a slot has one subscription");
        self.subscriptions.push(Subscription {
            channel,
            begun,
            gap,
            gap_sent: false,
            slot,
            live: true,
            cursor: begun,
            caught_up: false,
            waited: 0,
        });
    }

    pub(super) fn unsubscribe(&mut self, outbox: &mut Outbox<usize>, subscription: usize) {
        let it = &mut self.subscriptions[subscription];
        it.live = false;
        outbox.unsubscribe(it.slot);
    }

    /// One turn, as the server does it, if there is any. `wraps` is whether the ring may.
    pub(super) fn take(
        &mut self,
        outbox: &mut Outbox<usize>,
        at_most: usize,
        wraps: bool,
        coverage: &mut Coverage,
    ) -> Option<Vec<Frame>> {
        let turn = outbox.next_turn()?;
        let subscription = self.holder(turn.slot);
        let channel = self.subscriptions[subscription].channel;
        assert_eq!(outbox.channel(turn.slot), Some(&channel));
        let before = Position::of(outbox);
        let run = outbox.take(turn, self.logs[channel], at_most);
        let after = Position::of(outbox);
        if after.dropped > before.dropped {
            assert!(wraps, "what is not acknowledged is not forgotten");
            assert!(after.dropped <= before.seq, "nor what this very turn brought");
            coverage.met("ring wrapped");
            self.gaps_allowed = true;
        }
        Some(match run {
            Run::Messages { seq, offset, count, caught_up } => {
                assert_eq!(offset, turn.from);
                assert!((1..=at_most).contains(&count), "{count} messages, where {at_most} are wanted");
                assert_eq!((seq, after.sent), (before.sent + 1, before.sent + count as u64));
                let log = self.logs[channel];
                assert!(log.first <= offset && offset + count as u64 - 1 <= log.last, "the log has them");
                self.messages(subscription, before, offset, count, caught_up)
            }
            Run::Gap { seq, range } => {
                assert!(after.sent == seq || after.sent == after.dropped, "there, or where the ring begins");
                vec![self.gap(turn, subscription, before, seq, range, coverage)]
            }
            Run::CaughtUp => {
                assert_eq!((before, before.sent), (after, before.seq), "nothing is sent");
                self.had_its_turn(subscription);
                let it = &mut self.subscriptions[subscription];
                it.caught_up = true;
                assert_eq!(it.cursor, self.logs[channel].last);
                Vec::new()
            }
        })
    }

    /// A turn for what is new.
    fn had_its_turn(&mut self, subscription: usize) {
        let others = self.logs.len() - 1;
        for (index, it) in self.subscriptions.iter_mut().enumerate() {
            let waits = index != subscription && it.live && !it.caught_up;
            it.waited = if waits { it.waited + 1 } else { 0 };
            assert!(it.waited <= others, "channels take turns");
        }
    }

    /// The subscription that has the slot, which may have ended.
    fn holder(&self, slot: Slot) -> usize {
        self.subscriptions.iter().rposition(|it| it.slot == slot).expect("only slots that were given")
    }

    fn messages(
        &mut self,
        subscription: usize,
        before: Position,
        offset: u64,
        count: usize,
        caught_up: bool,
    ) -> Vec<Frame> {
        let again = before.sent < before.seq;
        if !again {
            self.had_its_turn(subscription);
        }
        let it = &mut self.subscriptions[subscription];
        let frames = (before.sent + 1..).zip(offset..).take(count).map(|(seq, offset)| {
            if again {
                let sent = &self.sent[usize::try_from(seq).expect("small") - 1];
                assert_eq!((sent.subscription, &sent.what), (subscription, &What::Message(offset)), "{seq}");
            } else {
                assert!(it.live, "nothing new after an unsubscribe");
                assert_eq!(it.cursor + 1, offset);
                it.cursor = offset;
                self.sent.push(Sent { subscription, what: What::Message(offset) });
            }
            Frame::Message { seq, subscription, offset, live: it.live }
        });
        let frames = frames.collect();
        let all = !again && it.cursor == self.logs[it.channel].last;
        assert_eq!(caught_up, all, "caught up means having all");
        it.caught_up |= caught_up;
        frames
    }

    fn gap(
        &mut self,
        turn: Turn,
        subscription: usize,
        before: Position,
        seq: u64,
        range: Option<(u64, u64)>,
        coverage: &mut Coverage,
    ) -> Frame {
        let it = &mut self.subscriptions[subscription];
        if seq > before.seq {
            assert_eq!((seq, it.live), (before.seq + 1, true));
            match range {
                None => assert!(it.gap && !std::mem::replace(&mut it.gap_sent, true), "once, if asked for"),
                Some(range) => {
                    assert_eq!(range, (it.cursor + 1, self.logs[it.channel].first - 1));
                    it.cursor = range.1;
                    coverage.met("cursor fell off the log");
                }
            }
            self.sent.push(Sent { subscription, what: What::Gap { range, to: it.cursor } });
        } else if seq <= before.dropped {
            assert!(it.live, "no gap for one that has unsubscribed");
            assert_eq!(turn.from, 1);
            assert_eq!(range.is_none(), it.gap_sent, "a gap of unknown length was told: {range:?}");
            coverage.met("pending gap");
        } else {
            self.gap_again(subscription, before.sent, seq, range, coverage);
        }
        let sent = &self.sent[usize::try_from(seq).expect("small") - 1];
        assert_eq!(sent.subscription, subscription, "seq {seq} stays in its channel");
        let to = sent.last_offset();
        if let Some(range) = range {
            assert!(
                range.0 <= range.1 && range.1 == to,
                "{range:?} stands for seq {seq}, which was {sent:?}"
            );
        }
        Frame::Gap { seq, subscription, range, to, live: self.subscriptions[subscription].live }
    }

    /// Instead of what was sent under the seqs after `sent`.
    fn gap_again(
        &self,
        subscription: usize,
        sent: u64,
        seq: u64,
        range: Option<(u64, u64)>,
        coverage: &mut Coverage,
    ) {
        let [sent, seq] = [sent, seq].map(|it| usize::try_from(it).expect("small"));
        let replaced = &self.sent[sent..seq];
        if let [Sent { what: What::Gap { range: first, .. }, .. }] = replaced {
            assert_eq!(range, *first, "the same seq, the same gap");
            coverage.met("gap resent");
            return;
        }
        let first = self.logs[self.subscriptions[subscription].channel].first;
        let offsets: Vec<u64> = replaced.iter().map(Sent::last_offset).collect();
        let (from, to) = range.expect("it is known what the log has lost");
        assert!(replaced.iter().all(|it| it.subscription == subscription), "no other channel's");
        assert!(replaced.iter().all(|it| matches!(it.what, What::Message(_))), "no other gap");
        assert_eq!(offsets, (from..=to).collect::<Vec<_>>());
        assert!(to < first, "the log has lost them all");
        coverage.met("message to be resent was trimmed");
    }

    /// What the outbox says of its subscriptions.
    pub(super) fn check(&self, outbox: &Outbox<usize>) {
        let mut seen = 0;
        for view in outbox.subscriptions() {
            let it = &self.subscriptions[self.holder(view.slot)];
            assert_eq!((it.live, it.channel, it.cursor), (true, *view.channel, view.cursor));
            seen += 1;
        }
        assert_eq!(seen, self.live().count());
        assert_eq!(outbox.seq(), self.sent.len() as u64);
    }
}
