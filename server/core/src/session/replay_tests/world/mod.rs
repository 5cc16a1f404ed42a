//! What the server has besides the session: the logs, their subscribers, and, for comparison, a record of everything that
//! was ever sent.

mod gaps;
mod subscribing;

use std::collections::{BTreeMap, BTreeSet};

use super::coverage::Coverage;
use super::logs::{LogRef, Logs};
use crate::session::Outbox;
use crate::session::outbox::{Run, Slot};

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
    /// A subscription has begun, or ended, by the server's will.
    Notice {
        subscription: usize,
        is_end: bool,
    },
    /// To a request that a stream held.
    Reply,
}

#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) log: usize,
    pub(super) begun: u64,
    /// How many had ended by then.
    born: usize,
    /// How many had ended before it did.
    ended: Option<usize>,
    /// It begins with a gap of unknown length.
    pub(super) gap: bool,
    gap_sent: bool,
    /// A gap has said that anything up to here may be missing.
    told_to: u64,
    slot: Slot,
    /// Its client has not asked for it, and is told.
    pub(super) by_server: bool,
    /// It has ended by the server's will, and its client is to know.
    pub(super) tells_end: bool,
    pub(super) live: bool,
    pub(super) cursor: u64,
    pub(super) caught_up: bool,
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
    pub(super) logs: Logs,
    pub(super) subscriptions: Vec<Subscription>,
    ended: usize,
    /// By message, the subscriptions that have sent it.
    senders: BTreeMap<usize, Vec<usize>>,
    /// Messages that a gap has left out.
    told: BTreeSet<usize>,
    /// By channel, the newest message that was sent.
    newest: BTreeMap<usize, usize>,
    /// Somebody has asked for what may have been sent already.
    pub(super) asked_for_old: bool,
    /// The first is seq 1.
    sent: Vec<Sent>,
    /// Something has happened after which gaps are allowed.
    pub(super) gaps_allowed: bool,
    /// Nothing is sent twice.
    at_most_once: bool,
    /// What one that has ended had sent was lost: the others tell of it after what is sent again.
    pub(super) gaps_may_be_late: bool,
    /// An answer is lost that told of a beginning and had nothing else, or its client cannot say so.
    pub(super) begins_may_be_missing: bool,
    /// The same of an end, or a page has gone back to before it.
    pub(super) ends_may_be_missing: bool,
}

/// Where an outbox is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) sent: u64,
    pub(super) seq: u64,
    pub(super) dropped: u64,
}

impl Position {
    pub(super) fn of(outbox: &Outbox<LogRef>) -> Self {
        let seq = outbox.seq();
        Self { sent: outbox.sent(), seq, dropped: seq - outbox.unacked() as u64 }
    }
}

impl World {
    pub(super) fn new(logs: Logs, at_most_once: bool) -> Self {
        Self {
            logs,
            subscriptions: Vec::new(),
            ended: 0,
            senders: BTreeMap::new(),
            told: BTreeSet::new(),
            newest: BTreeMap::new(),
            asked_for_old: false,
            sent: Vec::new(),
            gaps_allowed: false,
            gaps_may_be_late: false,
            begins_may_be_missing: at_most_once,
            ends_may_be_missing: at_most_once,
            at_most_once,
        }
    }

    /// The message that a subscription has at this offset of its log.
    pub(super) fn message(&self, subscription: usize, offset: u64) -> usize {
        self.logs.message(self.subscriptions[subscription].log, offset)
    }

    pub(super) fn live(&self) -> impl Iterator<Item = (usize, &Subscription)> {
        self.subscriptions.iter().enumerate().filter(|(_, it)| it.live)
    }

    /// Those that wait for more are told now, or later.
    pub(super) fn publish(&mut self, outbox: &mut Outbox<LogRef>, channel: usize, count: u64, tell: bool) {
        for _ in 0..count {
            self.logs.publish(channel);
        }
        if tell {
            self.tell(outbox);
        }
    }

    pub(super) fn tell(&mut self, outbox: &mut Outbox<LogRef>) {
        for it in self.subscriptions.iter_mut().filter(|it| it.live) {
            if it.caught_up && it.cursor < self.logs.bounds(it.log).last {
                it.caught_up = false;
                outbox.mark_ready(it.slot);
            }
        }
    }

    /// Also without need, and for subscriptions that have ended.
    pub(super) fn mark_all(&mut self, outbox: &mut Outbox<LogRef>) {
        for it in &mut self.subscriptions {
            it.caught_up = false;
            outbox.mark_ready(it.slot);
        }
    }

    /// One turn, as the server does it, if there is any. `wraps` is whether the ring may.
    pub(super) fn take(
        &mut self,
        outbox: &mut Outbox<LogRef>,
        at_most: usize,
        wraps: bool,
        coverage: &mut Coverage,
    ) -> Option<Vec<Frame>> {
        let turn = outbox.next_turn()?;
        let subscription = self.holder(turn.slot);
        let log = self.subscriptions[subscription].log;
        assert_eq!(outbox.channel(turn.slot), Some(&self.logs.get(log)));
        let before = Position::of(outbox);
        let run = outbox.take(turn, self.logs.bounds(log), at_most, |offset| self.logs.places(log, offset));
        if matches!(run, Run::PassedOver | Run::CaughtUp) {
            let mut views = outbox.subscriptions();
            let cursor = views.find(|it| it.slot == turn.slot).expect("it is live").cursor;
            self.pass_over(subscription, cursor, coverage);
        }
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
                let log = self.logs.bounds(log);
                assert!(log.first <= offset && offset + count as u64 - 1 <= log.last, "the log has them");
                self.messages(subscription, before, offset, count, caught_up)
            }
            Run::Gap { seq, range } => {
                assert!(after.sent == seq || after.sent == after.dropped, "there, or where the ring begins");
                vec![self.gap(turn, subscription, before, seq, range, coverage)]
            }
            Run::Begun { .. } | Run::Ended(_) => {
                assert_eq!(before, after, "nothing is sent under a seq");
                vec![self.notice(subscription, run, coverage)]
            }
            Run::Waits => {
                assert_eq!((before, before.sent), (after, before.seq), "nothing is sent");
                coverage.met("waited for another");
                Vec::new()
            }
            Run::PassedOver => {
                assert_eq!((before, before.sent), (after, before.seq), "nothing is sent");
                assert!(
                    self.subscriptions[subscription].cursor < self.logs.bounds(log).last,
                    "there is more"
                );
                Vec::new()
            }
            Run::CaughtUp => {
                assert_eq!((before, before.sent), (after, before.seq), "nothing is sent");
                self.had_its_turn(subscription);
                let it = &mut self.subscriptions[subscription];
                it.caught_up = true;
                assert_eq!(it.cursor, self.logs.bounds(log).last);
                Vec::new()
            }
        })
    }

    /// The subscription goes on to `cursor` without a word.
    fn pass_over(&mut self, subscription: usize, cursor: u64, coverage: &mut Coverage) {
        let it = &mut self.subscriptions[subscription];
        let passed = it.cursor + 1..=cursor;
        it.cursor = cursor;
        for offset in passed {
            let message = self.message(subscription, offset);
            let senders = self.senders.get(&message).into_iter().flatten();
            let mut others = senders.map(|it| &self.subscriptions[*it]).peekable();
            assert!(others.peek().is_some() || self.told.contains(&message), "{message} has not been sent");
            coverage.met("passed over");
            if others.all(|it| !it.live) {
                coverage.met("passed over what one had sent that has ended");
            }
        }
    }

    /// A message is sent for the first time under a new seq.
    fn send_new(&mut self, subscription: usize, offset: u64) {
        let message = self.message(subscription, offset);
        let it = &self.subscriptions[subscription];
        for sender in self.senders.get(&message).into_iter().flatten().map(|it| &self.subscriptions[*it]) {
            let had_ended = sender.ended.is_some_and(|ended| ended < it.born);
            assert!(had_ended || sender.log == it.log, "{message} is sent twice, by {sender:?} and {it:?}");
        }
        self.senders.entry(message).or_default().push(subscription);
        let newest = self.newest.entry(self.logs.channel(message)).or_default();
        assert!(self.asked_for_old || message >= *newest, "a channel's messages come in order");
        *newest = message.max(*newest);
        let own = self.subscriptions[subscription].log;
        for place in self.logs.places(own, offset).iter().filter(|place| place.log != own as u64) {
            for it in self.subscriptions.iter_mut().filter(|it| it.live && it.log as u64 == place.log) {
                assert!(it.cursor + 1 >= place.offset, "{message} before what {it:?} has before it");
                it.cursor = it.cursor.max(place.offset);
            }
        }
        self.sent.push(Sent { subscription, what: What::Message(offset) });
    }

    /// A turn for what is new.
    fn had_its_turn(&mut self, subscription: usize) {
        if self.logs.has_patterns() {
            // The younger wait.
            return;
        }
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
        let live = self.subscriptions[subscription].live;
        for (seq, offset) in (before.sent + 1..).zip(offset..).take(count) {
            if again {
                assert!(!self.at_most_once, "nothing twice");
                let sent = &self.sent[usize::try_from(seq).expect("small") - 1];
                assert_eq!((sent.subscription, &sent.what), (subscription, &What::Message(offset)), "{seq}");
            } else {
                assert!(live, "nothing new after an unsubscribe");
                assert_eq!(self.subscriptions[subscription].cursor + 1, offset);
                self.subscriptions[subscription].cursor = offset;
                self.send_new(subscription, offset);
            }
        }
        let it = &mut self.subscriptions[subscription];
        let all = !again && it.cursor == self.logs.bounds(it.log).last;
        assert_eq!(caught_up, all, "caught up means having all");
        it.caught_up |= caught_up;
        let numbered = (before.sent + 1..).zip(offset..).take(count);
        numbered.map(|(seq, offset)| Frame::Message { seq, subscription, offset, live }).collect()
    }

    /// What the outbox says of its subscriptions.
    pub(super) fn check(&self, outbox: &Outbox<LogRef>) {
        let mut seen = 0;
        for view in outbox.subscriptions() {
            let it = &self.subscriptions[self.holder(view.slot)];
            assert_eq!((it.live, self.logs.get(it.log), it.cursor), (true, *view.channel, view.cursor));
            seen += 1;
        }
        assert_eq!(seen, self.live().count());
        assert_eq!(outbox.seq(), self.sent.len() as u64);
    }
}
