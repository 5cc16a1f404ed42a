//! What a session sends, and what it may have to send again.
//!
//! Every message and every gap that a session sends gets the next *seq*. A ring records which message of which channel
//! each seq was, until the client is known to have it. The messages themselves stay in the logs of the channels: the
//! outbox holds one cursor per subscription, and a few bytes for each run of seqs that is not acknowledged. What was sent under one
//! seq is never sent under another, so a client that says the last seq it has gets exactly what follows.
//!
//! The owner pulls. It asks which subscription is next ([`Outbox::next_turn`]), reads that channel's log, and takes a run
//! of messages, or a gap ([`Outbox::take`]). Three things come out, in this order: gaps for what can no longer be
//! resent, what is to be resent, and what is new. Among what is new, channels take turns.
//!
//! Before all of these comes what the client is told of subscriptions that it has not asked for: see `notices`.
//!
//! A message may be in several logs, of a channel and of patterns that stand for it: `overlap` says how a session
//! that reads them gets it once.

mod move_on;
mod notices;
mod overlap;
mod rare;
mod resume;
mod ring;
mod snapshot;
mod subscription;
mod turn;

use std::num::NonZeroU32;

use notices::Notice;
pub use notices::{MOST_ENDS, WhyEnded};
pub use overlap::{Place, Source};
use rare::Rare;
use ring::{Entry, EntryKind, Ring};
pub use snapshot::MOST_OFFSETS;
use subscription::Subscription;
pub use turn::{Bounds, Run, Slot, SubscriptionView, Turn, WhenFull};

/// See the [module](self). `C` is the owner's handle of a channel.
#[derive(Debug)]
pub struct Outbox<C> {
    ring: Ring,
    when_full: WhenFull,
    /// What is to be resent is told as missing instead: the client gets nothing twice.
    tells_gaps: bool,
    /// The last seq sent on the current connection. What the ring has after it is to be resent.
    sent: u64,
    /// The client has everything up to here.
    acknowledged: u64,
    /// Two subscriptions have overlapped.
    overlaps: bool,
    /// One more than the slot of the subscription whose turn is next, among those whose log may have something new; each of these has one turn.
    next_ready: Option<NonZeroU32>,
    /// The subscription with the slot 0.
    first: Option<Subscription<C>>,
    /// All others, and what else is seldom there.
    rare: Option<Box<Rare<C>>>,
}

impl<C> Outbox<C> {
    /// Nothing sent, nothing subscribed. The ring holds at most `max_unacked` seqs.
    #[must_use]
    pub fn new(max_unacked: usize) -> Self {
        Self {
            ring: Ring::new(max_unacked.max(1)),
            when_full: WhenFull::Stop,
            tells_gaps: false,
            sent: 0,
            acknowledged: 0,
            overlaps: false,
            next_ready: None,
            first: None,
            rare: None,
        }
    }

    /// The last seq that was assigned.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.ring.last_seq()
    }

    /// The last seq sent on the current connection: pings carry it, and the stream continues after it.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// How many seqs the client may not have yet.
    #[must_use]
    pub fn unacked(&self) -> usize {
        self.ring.len()
    }

    /// Whether the ring is so full that the client should be asked for an acknowledgement, if it can give one.
    #[must_use]
    pub fn needs_acknowledgement(&self) -> bool {
        self.when_full == WhenFull::Stop && self.ring.len() * 2 >= self.ring.capacity()
    }

    /// There may be something new for this subscription. Harmless if there is not, or if it has ended.
    pub fn mark_ready(&mut self, slot: Slot) {
        if let Some(subscription) = self.get_mut(slot.0)
            && subscription.live
            && !std::mem::replace(&mut subscription.ready, true)
        {
            self.await_turn(slot.0);
        }
    }

    /// The client has everything up to `seq`. What was not sent on this connection yet is not acknowledged by it.
    pub fn acknowledge(&mut self, seq: u64) {
        let seq = seq.min(self.sent);
        self.acknowledged = self.acknowledged.max(seq);
        self.pop_up_to(seq);
    }

    /// The subscription to serve next, if any.
    #[must_use]
    pub fn next_turn(&self) -> Option<Turn> {
        if let Some(slot) = self.next_notice() {
            return Some(Turn { slot: Slot(slot), from: self.get(slot)?.cursor + 1 });
        }
        if let Some(slot) = self.next_pending_gap() {
            return Some(Turn { slot: Slot(slot), from: 1 });
        }
        if let Some(entry) = self.ring.get(self.sent + 1) {
            return Some(Turn { slot: Slot(entry.slot), from: entry.offset });
        }
        if self.is_stopped() {
            return None;
        }
        let slot = self.next_ready()?;
        Some(Turn { slot: Slot(slot), from: self.get(slot)?.cursor + 1 })
    }

    /// Whether a message is next that was sent before, and is to be read again.
    #[must_use]
    pub fn needs_log(&self) -> bool {
        let next = self.ring.get(self.sent + 1).filter(|_| {
            self.next_notice().is_none() && self.next_pending_gap().is_none() && !self.tells_gaps
        });
        next.is_some_and(|entry| matches!(entry.kind(), EntryKind::Message))
    }

    /// The channel of a subscription.
    #[must_use]
    pub fn channel(&self, slot: Slot) -> Option<&C> {
        self.get(slot.0).map(|subscription| &subscription.channel)
    }

    /// Whether there may be something new that has to wait for an acknowledgement.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.when_full == WhenFull::Stop
            && self.ring.is_full()
            && self.sent == self.seq()
            && self.next_ready().is_some()
    }

    /// Every live subscription.
    pub fn subscriptions(&self) -> impl Iterator<Item = SubscriptionView<'_, C>> {
        let live = self.existing().filter(|(_, it)| it.live);
        live.map(|(slot, it)| SubscriptionView {
            slot: Slot(slot),
            channel: &it.channel,
            cursor: it.cursor,
            granted: it.notice().is_some_and(Notice::is_granted),
        })
    }

    /// The channels of all subscriptions, also of those that have ended and may be sent again.
    pub fn channels(&self) -> impl Iterator<Item = &C> {
        self.existing().map(|(_, subscription)| &subscription.channel)
    }

    /// Drops everything. Returns the channels that were subscribed.
    pub fn clear(&mut self) -> impl Iterator<Item = C> + use<C> {
        self.ring.clear();
        self.sent = self.seq();
        self.take_all().filter(|subscription| subscription.live).map(|subscription| subscription.channel)
    }

    fn take_pending_gap(&mut self, slot: u32) -> Run {
        self.remove_pending_gap(slot);
        let (seq, range) = self
            .get(slot)
            .and_then(Subscription::evicted_gap)
            .expect("pending only while it exists and has lost entries");
        self.sent = seq;
        self.skip_to_ring();
        Run::Gap { seq, range }
    }

    /// Once no gap is pending, what the ring still holds comes next.
    fn skip_to_ring(&mut self) {
        if self.next_pending_gap().is_none() {
            self.sent = self.sent.max(self.ring.dropped());
        }
    }

    /// Resends from the ring. Consecutive messages of one channel go out together.
    fn take_resend(&mut self, log: Bounds, at_most: usize) -> Run {
        let seq = self.sent + 1;
        let (entry, in_run) =
            self.ring.rest_of_run(seq).expect("the ring holds everything up to its last seq");
        match entry.kind() {
            EntryKind::Gap(range) => {
                self.sent = seq;
                Run::Gap { seq, range }
            }
            EntryKind::Message if entry.offset >= log.first && !self.tells_gaps => {
                let count = usize::try_from(in_run).unwrap_or(usize::MAX).min(at_most);
                self.sent += count as u64;
                // Not caught up: that depends on new messages.
                Run::Messages { seq, offset: entry.offset, count, caught_up: false }
            }
            EntryKind::Message => {
                let gone = if self.tells_gaps { in_run } else { in_run.min(log.first - entry.offset) };
                self.sent += gone;
                Run::Gap { seq: self.sent, range: Some((entry.offset, entry.offset + gone - 1)) }
            }
        }
    }

    fn send_gap(&mut self, entry: Entry) -> Run {
        let EntryKind::Gap(range) = entry.kind() else { unreachable!("called with a gap") };
        self.send(entry, 1);
        Run::Gap { seq: self.sent, range }
    }

    /// Sends a gap, or `count` messages from this one on, no more than fit into an empty ring.
    fn send(&mut self, entry: Entry, count: u64) {
        let excess = (self.ring.len() as u64 + count).saturating_sub(self.ring.capacity() as u64);
        self.pop_up_to(self.ring.dropped() + excess);
        self.ring.push(entry, count);
        self.sent = self.ring.last_seq();
    }

    fn pop_up_to(&mut self, seq: u64) {
        while let Some((seq, entry)) = self.ring.pop_up_to(seq) {
            self.evicted(seq, entry);
        }
    }

    /// A run has left the ring, up to this entry.
    fn evicted(&mut self, seq: u64, entry: Entry) {
        if let Some(subscription) = self.get_mut(entry.slot) {
            subscription.evict(seq, entry);
            let has_ended = !subscription.live;
            if has_ended {
                self.forget(seq);
            }
            self.free_if_unused(entry.slot);
        }
    }

    fn free_if_unused(&mut self, slot: u32) {
        let is_over = self.get(slot).is_some_and(|it| !it.live && it.notice().is_none());
        if is_over && !self.ring.has_any_of(slot) {
            self.set(slot, None);
        }
    }
}

impl<C: Source> Outbox<C> {
    /// Subscribes to `channel`, from after the message `cursor` on. With `gap`, a gap of unknown length is reported first.
    pub fn subscribe(&mut self, channel: C, cursor: u64, gap: bool) -> Slot {
        self.subscribe_with(|_| channel, cursor, gap)
    }

    /// The same, for an owner whose handle of the channel depends on the slot.
    pub fn subscribe_with(&mut self, channel: impl FnOnce(Slot) -> C, cursor: u64, gap: bool) -> Slot {
        let slot = Slot(self.first_free_slot());
        self.set(slot.0, Some(Subscription::new(channel(slot), cursor, gap)));
        self.mark_ready(slot);
        self.begin(slot.0);
        slot
    }

    /// Ends the subscription. What was sent can still be resent, so the channel is held until it is acknowledged.
    pub fn unsubscribe(&mut self, slot: Slot) {
        self.drop_notice(slot.0);
        self.end(slot.0);
    }

    fn end(&mut self, slot: u32) {
        self.leave_turns(slot);
        let sent = self.sent;
        let has_pending_gap = self.remove_pending_gap(slot);
        self.skip_to_ring();
        if let Some(subscription) = self.get_mut(slot) {
            subscription.live = false;
            if let Some(seq) = subscription.last_evicted() {
                self.forget(seq);
            }
            if has_pending_gap {
                self.tell_what_others_sent(sent);
            }
            self.free_if_unused(slot);
        }
    }

    /// Takes what this turn sends, given what its log holds: at most `at_most` messages, at least one. All of its seqs count as
    /// sent. `places` tells where else the message with this offset is.
    pub fn take<'a>(
        &mut self,
        turn: Turn,
        log: Bounds,
        at_most: usize,
        places: impl Fn(u64) -> &'a [Place],
    ) -> Run {
        if self.next_notice() == Some(turn.slot.0) {
            self.take_notice(turn.slot.0)
        } else if self.next_pending_gap() == Some(turn.slot.0) {
            self.take_pending_gap(turn.slot.0)
        } else if self.sent < self.seq() {
            self.take_resend(log, at_most.max(1))
        } else {
            self.take_new(turn.slot.0, log, at_most.max(1), &places)
        }
    }

    fn take_new<'a>(
        &mut self,
        slot: u32,
        log: Bounds,
        at_most: usize,
        places: &impl Fn(u64) -> &'a [Place],
    ) -> Run {
        let room = match self.when_full {
            WhenFull::Stop => self.ring.capacity() - self.ring.len(),
            // More would evict what this very run sends.
            WhenFull::Wrap => self.ring.capacity(),
        };
        let Some(subscription) = self.get_mut(slot) else { return Run::CaughtUp };
        let cursor = subscription.cursor;
        if std::mem::take(&mut subscription.gap) {
            return self.send_gap(Entry::unknown_gap(slot, cursor));
        }
        if cursor + 1 < log.first {
            let missing = (cursor + 1, log.first - 1);
            subscription.miss(missing);
            return self.send_gap(Entry::gap(slot, missing.0, missing.1));
        }
        let passed = self.pass_over(slot, log, places);
        let unread = usize::try_from(log.last.saturating_sub(cursor + passed)).unwrap_or(usize::MAX);
        if passed > 0 && unread > 0 {
            return Run::PassedOver;
        }
        let wanted = unread.min(at_most).min(room);
        let count = self.go_together(slot, wanted, places);
        let caught_up = count == unread;
        if let Some(subscription) = self.get_mut(slot) {
            subscription.cursor += count as u64;
            subscription.ready = !caught_up;
            if caught_up && !subscription.sent_before().is_empty() {
                subscription.set_sent_before(Vec::new());
            }
        }
        // To the back of the queue, or out of it.
        self.leave_turns(slot);
        if !caught_up {
            self.await_turn(slot);
        }
        if count == 0 && wanted > 0 {
            return Run::Waits;
        }
        if count == 0 {
            return Run::CaughtUp;
        }
        let seq = self.seq() + 1;
        self.send(Entry::message(slot, cursor + 1), count as u64);
        Run::Messages { seq, offset: cursor + 1, count, caught_up }
    }
}

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod tests;
