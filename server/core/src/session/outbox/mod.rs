//! Messages that a session sends, and those it may have to send again.
//!
//! Every message and every gap that a session sends gets the next *seq*. A ring records which message of
//! which channel each seq stands for, until the client is known to have received it. The messages themselves
//! stay in the logs of the channels: the outbox holds one cursor per subscription, and a few bytes for each
//! run of unacknowledged seqs. A seq is never reused for a different message, so a client that reports its
//! last seq receives exactly the messages that follow.
//!
//! The owner pulls messages: it queries which subscription is next ([`Outbox::next_turn`]), reads that
//! channel's log, and takes a run of messages or a gap ([`Outbox::take`]). The outbox produces, in this
//! order: gaps for messages that can no longer be resent, messages to be resent, and new messages. For new
//! messages, channels take turns.
//!
//! All of these are preceded by notices about subscriptions that the client did not request: see `notices`.
//!
//! A message may be in several logs: its channel's, and those of the patterns matching the channel. `overlap`
//! explains how a session that reads several of them receives the message only once.

mod after_loss;
mod log_handle;
mod notice;
mod notices;
mod overlap;
mod rare;
mod rare_state;
mod resend;
mod resume;
mod ring;
mod snapshot;
mod subscription;
mod switch_log;
mod turn;

use std::num::NonZeroU32;

pub use log_handle::{LogHandle, LogPosition};
pub use notice::EndReason;
use notice::Notice;
pub use notices::MAX_END_NOTICES;
use rare_state::RareState;
use resend::ResendMode;
pub use resume::ClientPosition;
use ring::{EntryKind, ReplayRing, RingEntry};
pub use snapshot::MAX_OFFSET;
use subscription::Subscription;
pub use turn::{LogBounds, SubscriptionSlot, SubscriptionView, Turn, TurnOutcome, WhenFull};

/// The outbox of a session; see the [module](self) documentation. `C` is the owner's handle of a channel.
#[derive(Debug)]
pub struct Outbox<C> {
    ring: ReplayRing,
    when_full: WhenFull,
    resend_mode: ResendMode,
    /// Last seq sent on the current connection. Later entries of the ring are to be resent.
    sent: u64,
    /// Last seq that the client has acknowledged.
    acknowledged: u64,
    /// Whether two subscriptions have ever overlapped.
    overlaps: bool,
    /// See [`Outbox::is_catching_up`].
    catching_up: bool,
    /// Slot, plus one, of the subscription whose turn is next. Every subscription whose log may have new
    /// messages has one turn.
    next_ready: Option<NonZeroU32>,
    /// The subscription in slot 0.
    first: Option<Subscription<C>>,
    /// All other subscriptions, and state that is seldom needed.
    rare: Option<Box<RareState<C>>>,
}

impl<C> Outbox<C> {
    /// Creates an outbox without subscriptions. The ring holds at most `max_unacked` seqs.
    #[must_use]
    pub fn new(max_unacked: usize) -> Self {
        Self {
            ring: ReplayRing::new(max_unacked.max(1)),
            when_full: WhenFull::Stop,
            resend_mode: ResendMode::Messages,
            sent: 0,
            acknowledged: 0,
            overlaps: false,
            catching_up: false,
            next_ready: None,
            first: None,
            rare: None,
        }
    }

    /// Returns the last assigned seq.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.ring.last_seq()
    }

    /// Returns the last seq sent on the current connection. Pings contain this seq, and the next message gets
    /// the one after it.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether messages from before the connection or a subscription began may still have to be sent.
    #[must_use]
    pub fn is_catching_up(&self) -> bool {
        self.catching_up
    }

    /// Records whether there is more to send. If not, the client has caught up.
    pub fn continue_catching_up(&mut self, has_more: bool) {
        self.catching_up &= has_more;
    }

    /// Returns the subscription and the offset of the message with this seq. `None` if the seq belongs to a
    /// gap, or has left the ring.
    #[must_use]
    pub fn message_at(&self, seq: u64) -> Option<(SubscriptionSlot, u64)> {
        let entry = self.ring.get(seq)?;
        matches!(entry.kind(), EntryKind::Message).then_some((SubscriptionSlot(entry.slot), entry.offset))
    }

    /// Number of seqs that the client may not have received yet.
    #[must_use]
    pub fn unacked(&self) -> usize {
        self.ring.len()
    }

    /// Whether the ring is full enough to request an acknowledgement, provided that the client can send one. False
    /// while gaps are held, because there is nothing that the client could acknowledge.
    #[must_use]
    pub fn needs_acknowledgement(&self) -> bool {
        self.when_full == WhenFull::Stop
            && self.resend_mode != ResendMode::HeldGaps
            && self.ring.len() * 2 >= self.ring.capacity()
    }

    /// Records that the subscription's log may have new messages. The call is harmless if there are none, or
    /// if the subscription has ended.
    pub fn mark_ready(&mut self, slot: SubscriptionSlot) {
        if let Some(subscription) = self.get_mut(slot.0)
            && subscription.live
            && !std::mem::replace(&mut subscription.ready, true)
        {
            self.queue_turn(slot.0);
        }
    }

    /// Records that the client has everything up to `seq`. Does not acknowledge seqs that have not been sent
    /// on this connection.
    pub fn acknowledge(&mut self, seq: u64) {
        let seq = seq.min(self.sent);
        self.acknowledged = self.acknowledged.max(seq);
        self.pop_up_to(seq);
    }

    /// Returns the subscription to serve next, if any.
    #[must_use]
    pub fn next_turn(&self) -> Option<Turn> {
        if self.resend_mode == ResendMode::HeldGaps && self.next_ready().is_none() {
            return None;
        }
        if let Some(slot) = self.next_notice() {
            return Some(Turn { slot: SubscriptionSlot(slot), from: self.get(slot)?.cursor + 1 });
        }
        if let Some(slot) = self.next_pending_gap() {
            return Some(Turn { slot: SubscriptionSlot(slot), from: 1 });
        }
        if let Some(entry) = self.ring.get(self.sent + 1) {
            return Some(Turn { slot: SubscriptionSlot(entry.slot), from: entry.offset });
        }
        if self.is_stopped() {
            return None;
        }
        let slot = self.next_ready()?;
        Some(Turn { slot: SubscriptionSlot(slot), from: self.get(slot)?.cursor + 1 })
    }

    /// Returns the channel of a subscription.
    #[must_use]
    pub fn channel(&self, slot: SubscriptionSlot) -> Option<&C> {
        self.get(slot.0).map(|subscription| &subscription.channel)
    }

    /// Whether sending is stopped until the client acknowledges something, although there may be new
    /// messages.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.when_full == WhenFull::Stop
            && self.ring.is_full()
            && self.sent == self.seq()
            && self.next_ready().is_some()
    }

    /// Iterates over the live subscriptions.
    pub fn subscriptions(&self) -> impl Iterator<Item = SubscriptionView<'_, C>> {
        let live = self.existing().filter(|(_, it)| it.live);
        live.map(|(slot, it)| SubscriptionView {
            slot: SubscriptionSlot(slot),
            channel: &it.channel,
            cursor: it.cursor,
            granted: it.notice().is_some_and(Notice::is_granted),
        })
    }

    /// Iterates over the channels of all subscriptions, including ended ones whose messages may be resent.
    pub fn channels(&self) -> impl Iterator<Item = &C> {
        self.existing().map(|(_, subscription)| &subscription.channel)
    }

    /// Removes everything, and returns the channels that were subscribed to.
    pub fn clear(&mut self) -> impl Iterator<Item = C> + use<C> {
        self.ring.clear();
        self.sent = self.seq();
        self.take_all().filter(|subscription| subscription.live).map(|subscription| subscription.channel)
    }

    fn send_gap(&mut self, entry: RingEntry) -> TurnOutcome {
        let EntryKind::Gap(range) = entry.kind() else { unreachable!("only called with a gap") };
        self.send(entry, 1);
        TurnOutcome::Gap { seq: self.sent, range }
    }

    /// Sends a gap, or `count` messages starting with `entry`. `count` must not exceed the ring's capacity.
    fn send(&mut self, entry: RingEntry, count: u64) {
        let excess = (self.ring.len() as u64 + count).saturating_sub(self.ring.capacity() as u64);
        self.pop_up_to(self.ring.dropped() + excess);
        self.ring.push(entry, count);
        self.sent = self.ring.last_seq();
        self.resend_mode = ResendMode::Messages;
    }

    fn pop_up_to(&mut self, seq: u64) {
        while let Some((seq, entry)) = self.ring.pop_up_to(seq) {
            self.evicted(seq, entry);
        }
    }

    /// Handles the eviction of a run of entries that ends with `entry`.
    fn evicted(&mut self, seq: u64, entry: RingEntry) {
        if let Some(subscription) = self.get_mut(entry.slot) {
            subscription.evict(seq, entry);
            if !subscription.reports_evicted() {
                self.note_orphan_eviction(seq);
            }
            self.free_if_unused(entry.slot);
        }
    }

    fn free_if_unused(&mut self, slot: u32) {
        let is_over = self.get(slot).is_some_and(|it| !it.live && it.notice().is_none());
        if is_over && !self.ring.contains_slot(slot) {
            self.hand_over_evicted(slot);
            self.set(slot, None);
        }
    }
}

impl<C: LogHandle> Outbox<C> {
    /// Subscribes to `channel`, starting after offset `cursor`. If `gap` is set, a gap of unknown length is
    /// reported first.
    pub fn subscribe(&mut self, channel: C, cursor: u64, gap: bool) -> SubscriptionSlot {
        self.subscribe_with(|_| channel, cursor, gap)
    }

    /// Like [`Self::subscribe`], but for an owner whose channel handle depends on the slot.
    pub fn subscribe_with(
        &mut self,
        channel: impl FnOnce(SubscriptionSlot) -> C,
        cursor: u64,
        gap: bool,
    ) -> SubscriptionSlot {
        let slot = SubscriptionSlot(self.first_free_slot());
        self.catching_up = true;
        self.set(slot.0, Some(Subscription::new(channel(slot), cursor, gap)));
        self.mark_ready(slot);
        self.record_overlaps(slot.0);
        slot
    }

    /// Ends the subscription. Messages already sent may still be resent, so the channel handle is kept until
    /// they are acknowledged.
    pub fn unsubscribe(&mut self, slot: SubscriptionSlot) {
        self.drop_notice(slot.0);
        self.forget_predecessors(slot.0);
        self.end_subscription(slot.0);
    }

    fn end_subscription(&mut self, slot: u32) {
        self.remove_turn(slot);
        let sent = self.sent;
        let has_pending_gap = self.remove_pending_gap(slot);
        self.skip_to_ring();
        if let Some(subscription) = self.get_mut(slot) {
            subscription.live = false;
            if let Some(seq) = subscription.last_evicted() {
                self.note_orphan_eviction(seq);
            }
            if has_pending_gap {
                self.report_gaps_of_ended(sent);
            }
            self.free_if_unused(slot);
        }
    }

    /// Takes what this turn sends, given the bounds of its log: at most `at_most` messages, but at least one.
    /// The taken seqs count as sent. `places` returns the positions in all logs of the message with the given
    /// offset.
    pub fn take<'a>(
        &mut self,
        turn: Turn,
        log: LogBounds,
        at_most: usize,
        places: impl Fn(u64) -> &'a [LogPosition],
    ) -> TurnOutcome {
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
        log: LogBounds,
        at_most: usize,
        places: &impl Fn(u64) -> &'a [LogPosition],
    ) -> TurnOutcome {
        let room = match self.when_full {
            WhenFull::Stop => self.ring.capacity() - self.ring.len(),
            // Limit the run to the capacity, because a larger run would evict its own messages.
            WhenFull::Wrap => self.ring.capacity(),
        };
        let Some(subscription) = self.get_mut(slot) else { return TurnOutcome::CaughtUp };
        let cursor = subscription.cursor;
        if std::mem::take(&mut subscription.gap) {
            return self.send_gap(RingEntry::unknown_gap(slot, cursor));
        }
        if cursor + 1 < log.first {
            let missing = (cursor + 1, log.first - 1);
            subscription.skip_missing(missing);
            return self.send_gap(RingEntry::gap(slot, missing.0..=missing.1));
        }
        let passed = self.skip_already_sent(slot, log, places);
        let unread = usize::try_from(log.last.saturating_sub(cursor + passed)).unwrap_or(usize::MAX);
        if passed > 0 && unread > 0 {
            return TurnOutcome::Skipped;
        }
        let wanted = unread.min(at_most).min(room);
        let count = self.advance_together(slot, wanted, places);
        let caught_up = count == unread;
        if let Some(subscription) = self.get_mut(slot) {
            subscription.cursor += count as u64;
            subscription.ready = !caught_up;
            if caught_up && !subscription.sent_before().is_empty() {
                subscription.set_sent_before(Vec::new());
            }
        }
        // Move the turn to the back of the queue, or remove it.
        self.remove_turn(slot);
        if !caught_up {
            self.queue_turn(slot);
        }
        if count == 0 && wanted > 0 {
            return TurnOutcome::Blocked;
        }
        if count == 0 {
            return TurnOutcome::CaughtUp;
        }
        let seq = self.seq() + 1;
        self.send(RingEntry::message(slot, cursor + 1), count as u64);
        TurnOutcome::Messages { seq, offset: cursor + 1, count, caught_up }
    }
}

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod tests;
