//! Model of the server around the session: the logs, the subscriptions, and a record of everything that was
//! ever sent.

mod gaps;
mod subscribing;

use std::collections::{BTreeMap, BTreeSet};

use super::coverage::Coverage;
use super::logs::{LogRef, ModelLogs};
use crate::session::Outbox;
use crate::session::outbox::{SubscriptionSlot, TurnOutcome};

/// A frame sent to the client. Subscriptions are identified by their index in [`ServerWorld::subscriptions`],
/// which is never reused.
#[derive(Clone, Copy, Debug)]
pub(super) enum WireFrame {
    Message {
        seq: u64,
        subscription: usize,
        offset: u64,
        /// Whether the subscription was live when the frame was encoded.
        live: bool,
    },
    Gap {
        seq: u64,
        subscription: usize,
        range: Option<(u64, u64)>,
        /// Last offset covered, even if the gap does not report it.
        to: u64,
        live: bool,
    },
    Ping {
        seq: u64,
    },
    /// Notice that a subscription began or ended without the client's request.
    Notice {
        subscription: usize,
        is_end: bool,
    },
    /// Answer to a request held on a stream.
    Reply,
}

#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) log: usize,
    pub(super) start: u64,
    /// Number of subscriptions that had ended when this one began.
    ended_before_start: usize,
    /// Number of subscriptions that had ended before this one did.
    ended: Option<usize>,
    /// Whether the subscription begins with a gap of unknown length.
    pub(super) gap: bool,
    gap_sent: bool,
    /// Last offset that a gap of unknown length may have covered.
    gap_to: u64,
    slot: SubscriptionSlot,
    /// Whether the server began the subscription and notifies the client.
    pub(super) by_server: bool,
    /// Whether the server ended the subscription and notifies the client.
    pub(super) notifies_end: bool,
    pub(super) live: bool,
    pub(super) cursor: u64,
    pub(super) caught_up: bool,
    /// Number of turns that other subscriptions had while this one was ready.
    waited: usize,
}

/// A message or gap as first sent with a seq.
#[derive(Debug)]
struct SentEntry {
    subscription: usize,
    what: SentContent,
}

#[derive(Debug, PartialEq)]
enum SentContent {
    Message(u64),
    Gap { range: Option<(u64, u64)>, to: u64 },
}

impl SentEntry {
    fn last_offset(&self) -> u64 {
        match self.what {
            SentContent::Message(offset) => offset,
            SentContent::Gap { to, .. } => to,
        }
    }
}

#[derive(Debug)]
pub(super) struct ServerWorld {
    pub(super) logs: ModelLogs,
    pub(super) subscriptions: Vec<Subscription>,
    ended: usize,
    /// Subscriptions that have sent each message.
    senders: BTreeMap<usize, Vec<usize>>,
    /// Messages covered by a gap.
    covered_by_gap: BTreeSet<usize>,
    /// Newest message sent from each channel.
    newest: BTreeMap<usize, usize>,
    /// Whether a subscription has started with old messages, which may have been sent before.
    pub(super) asked_for_old: bool,
    /// Sent entries, in the order of their seqs, which start at 1.
    sent: Vec<SentEntry>,
    /// Whether gaps are allowed because of an earlier event.
    pub(super) gaps_allowed: bool,
    /// Whether nothing may be sent twice.
    at_most_once: bool,
    /// Whether messages sent by an ended subscription were lost. The other subscriptions report a gap for
    /// them after the resent messages.
    pub(super) gaps_may_be_late: bool,
    /// Whether the notice of a subscription's beginning may be missing, because an answer that contained only
    /// notices was lost, or because its client cannot report the loss.
    pub(super) begin_notices_may_be_missing: bool,
    /// Whether the notice of a subscription's end may be missing for the same reasons, or because a page has
    /// gone back to a state before the notice.
    pub(super) end_notices_may_be_missing: bool,
}

/// Position of an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutboxPosition {
    pub(super) sent: u64,
    pub(super) seq: u64,
    pub(super) dropped: u64,
}

impl OutboxPosition {
    pub(super) fn of(outbox: &Outbox<LogRef>) -> Self {
        let seq = outbox.seq();
        Self { sent: outbox.sent(), seq, dropped: seq - outbox.unacked() as u64 }
    }
}

impl ServerWorld {
    pub(super) fn new(logs: ModelLogs, at_most_once: bool) -> Self {
        Self {
            logs,
            subscriptions: Vec::new(),
            ended: 0,
            senders: BTreeMap::new(),
            covered_by_gap: BTreeSet::new(),
            newest: BTreeMap::new(),
            asked_for_old: false,
            sent: Vec::new(),
            gaps_allowed: false,
            gaps_may_be_late: false,
            begin_notices_may_be_missing: at_most_once,
            end_notices_may_be_missing: at_most_once,
            at_most_once,
        }
    }

    /// Returns the message at this offset of the subscription's log.
    pub(super) fn message(&self, subscription: usize, offset: u64) -> usize {
        self.logs.message(self.subscriptions[subscription].log, offset)
    }

    pub(super) fn live(&self) -> impl Iterator<Item = (usize, &Subscription)> {
        self.subscriptions.iter().enumerate().filter(|(_, it)| it.live)
    }

    /// Publishes messages. Notifies waiting subscriptions now if `notify` is set, otherwise later.
    pub(super) fn publish(&mut self, outbox: &mut Outbox<LogRef>, channel: usize, count: u64, notify: bool) {
        for _ in 0..count {
            self.logs.publish(channel);
        }
        if notify {
            self.notify(outbox);
        }
    }

    pub(super) fn notify(&mut self, outbox: &mut Outbox<LogRef>) {
        for it in self.subscriptions.iter_mut().filter(|it| it.live) {
            if it.caught_up && it.cursor < self.logs.bounds(it.log).last {
                it.caught_up = false;
                outbox.mark_ready(it.slot);
            }
        }
    }

    /// Marks all subscriptions ready, including ended ones and those without new messages.
    pub(super) fn mark_all(&mut self, outbox: &mut Outbox<LogRef>) {
        for it in &mut self.subscriptions {
            it.caught_up = false;
            outbox.mark_ready(it.slot);
        }
    }

    /// Takes one turn as the server does, if there is one. `wraps` states whether the ring may wrap.
    pub(super) fn take(
        &mut self,
        outbox: &mut Outbox<LogRef>,
        at_most: usize,
        wraps: bool,
        coverage: &mut Coverage,
    ) -> Option<Vec<WireFrame>> {
        let turn = outbox.next_turn()?;
        let subscription = self.subscription_in(turn.slot);
        let log = self.subscriptions[subscription].log;
        assert_eq!(outbox.channel(turn.slot), Some(&self.logs.get(log)));
        let before = OutboxPosition::of(outbox);
        let run = outbox.take(turn, self.logs.bounds(log), at_most, |offset| self.logs.places(log, offset));
        if matches!(run, TurnOutcome::Skipped | TurnOutcome::CaughtUp) {
            let mut views = outbox.subscriptions();
            let cursor = views.find(|it| it.slot == turn.slot).expect("the subscription is live").cursor;
            self.pass_over(subscription, cursor, coverage);
        }
        let after = OutboxPosition::of(outbox);
        if after.dropped > before.dropped {
            assert!(wraps, "unacknowledged entries are dropped only by wrapping");
            assert!(after.dropped <= before.seq, "a turn does not drop its own entries");
            coverage.record("ring wrapped");
            self.gaps_allowed = true;
        }
        Some(match run {
            TurnOutcome::Messages { seq, offset, count, caught_up } => {
                assert_eq!(offset, turn.from);
                assert!(
                    (1..=at_most).contains(&count),
                    "{count} messages, but at most {at_most} were requested"
                );
                assert_eq!((seq, after.sent), (before.sent + 1, before.sent + count as u64));
                let log = self.logs.bounds(log);
                assert!(log.first <= offset && offset + count as u64 - 1 <= log.last, "the log has them");
                self.messages(subscription, before, offset, count, caught_up)
            }
            TurnOutcome::Gap { seq, range } => {
                assert!(
                    after.sent == seq || after.sent == after.dropped,
                    "the position is the gap's seq or the beginning of the ring"
                );
                vec![self.gap(turn, subscription, before, seq, range, coverage)]
            }
            TurnOutcome::Begun { .. } | TurnOutcome::Ended(_) => {
                assert_eq!(before, after, "a notice has no seq");
                vec![self.notice(subscription, run, coverage)]
            }
            TurnOutcome::Blocked => {
                assert_eq!((before, before.sent), (after, before.seq), "nothing is sent");
                coverage.record("waited for another subscription");
                Vec::new()
            }
            TurnOutcome::Skipped => {
                assert_eq!((before, before.sent), (after, before.seq), "nothing is sent");
                assert!(
                    self.subscriptions[subscription].cursor < self.logs.bounds(log).last,
                    "there are more messages"
                );
                Vec::new()
            }
            TurnOutcome::CaughtUp => {
                assert_eq!((before, before.sent), (after, before.seq), "nothing is sent");
                self.count_turn(subscription);
                let it = &mut self.subscriptions[subscription];
                it.caught_up = true;
                assert_eq!(it.cursor, self.logs.bounds(log).last);
                Vec::new()
            }
        })
    }

    /// Moves the subscription to `cursor` without sending anything.
    fn pass_over(&mut self, subscription: usize, cursor: u64, coverage: &mut Coverage) {
        let it = &mut self.subscriptions[subscription];
        let passed = it.cursor + 1..=cursor;
        it.cursor = cursor;
        for offset in passed {
            let message = self.message(subscription, offset);
            let senders = self.senders.get(&message).into_iter().flatten();
            let mut others = senders.map(|it| &self.subscriptions[*it]).peekable();
            assert!(
                others.peek().is_some() || self.covered_by_gap.contains(&message),
                "{message} was skipped but never sent"
            );
            coverage.record("skipped");
            if others.all(|it| !it.live) {
                coverage.record("skipped message sent by an ended subscription");
            }
        }
    }

    /// Records a message that is sent for the first time, with a new seq.
    fn send_new(&mut self, subscription: usize, offset: u64) {
        let message = self.message(subscription, offset);
        let it = &self.subscriptions[subscription];
        for sender in self.senders.get(&message).into_iter().flatten().map(|it| &self.subscriptions[*it]) {
            let had_ended = sender.ended.is_some_and(|ended| ended < it.ended_before_start);
            assert!(had_ended || sender.log == it.log, "{message} is sent twice, by {sender:?} and {it:?}");
        }
        self.senders.entry(message).or_default().push(subscription);
        let newest = self.newest.entry(self.logs.channel(message)).or_default();
        assert!(self.asked_for_old || message >= *newest, "a channel's messages come in order");
        *newest = message.max(*newest);
        let own = self.subscriptions[subscription].log;
        for place in self.logs.places(own, offset).iter().filter(|place| place.log != own as u64) {
            for it in self.subscriptions.iter_mut().filter(|it| it.live && it.log as u64 == place.log) {
                assert!(
                    it.cursor + 1 >= place.offset,
                    "{message} was sent before an earlier message of {it:?}"
                );
                it.cursor = it.cursor.max(place.offset);
            }
        }
        self.sent.push(SentEntry { subscription, what: SentContent::Message(offset) });
    }

    /// Counts a turn for new messages, and checks that no subscription waits too long.
    fn count_turn(&mut self, subscription: usize) {
        if self.logs.has_patterns() {
            // With patterns, newer messages wait for older ones, so the bound does not apply.
            return;
        }
        let others = self.logs.len() - 1;
        for (index, it) in self.subscriptions.iter_mut().enumerate() {
            let waits = index != subscription && it.live && !it.caught_up;
            it.waited = if waits { it.waited + 1 } else { 0 };
            assert!(it.waited <= others, "channels take turns");
        }
    }

    /// Returns the last subscription that was assigned this slot. It may have ended.
    fn subscription_in(&self, slot: SubscriptionSlot) -> usize {
        self.subscriptions.iter().rposition(|it| it.slot == slot).expect("the slot was assigned")
    }

    fn messages(
        &mut self,
        subscription: usize,
        before: OutboxPosition,
        offset: u64,
        count: usize,
        caught_up: bool,
    ) -> Vec<WireFrame> {
        let again = before.sent < before.seq;
        if !again {
            self.count_turn(subscription);
        }
        let live = self.subscriptions[subscription].live;
        for (seq, offset) in (before.sent + 1..).zip(offset..).take(count) {
            if again {
                assert!(!self.at_most_once, "nothing is sent twice");
                let sent = &self.sent[usize::try_from(seq).expect("small") - 1];
                assert_eq!(
                    (sent.subscription, &sent.what),
                    (subscription, &SentContent::Message(offset)),
                    "{seq}"
                );
            } else {
                assert!(live, "nothing new after an unsubscribe");
                assert_eq!(self.subscriptions[subscription].cursor + 1, offset);
                self.subscriptions[subscription].cursor = offset;
                self.send_new(subscription, offset);
            }
        }
        let it = &mut self.subscriptions[subscription];
        let all = !again && it.cursor == self.logs.bounds(it.log).last;
        assert_eq!(caught_up, all, "caught up exactly at the end of the log");
        it.caught_up |= caught_up;
        let numbered = (before.sent + 1..).zip(offset..).take(count);
        numbered.map(|(seq, offset)| WireFrame::Message { seq, subscription, offset, live }).collect()
    }

    /// Compares the outbox's subscriptions with the model.
    pub(super) fn check(&self, outbox: &Outbox<LogRef>) {
        let mut seen = 0;
        for view in outbox.subscriptions() {
            let it = &self.subscriptions[self.subscription_in(view.slot)];
            assert_eq!((it.live, self.logs.get(it.log), it.cursor), (true, *view.channel, view.cursor));
            seen += 1;
        }
        assert_eq!(seen, self.live().count());
        assert_eq!(outbox.seq(), self.sent.len() as u64);
    }
}
