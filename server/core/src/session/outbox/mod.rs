//! What a session is sent, and what may have to be sent again.
//!
//! Every message and every gap that a session is sent gets the next *seq*. The outbox remembers which message of which
//! channel each seq was, in a ring, until the client is known to have it. The messages themselves stay in the logs of the
//! channels: the outbox holds a cursor a subscription and 16 bytes for each seq that is not acknowledged. What was sent
//! under a seq is never sent under another, so a client that says the last seq it has gets exactly what follows.
//!
//! The owner pulls. It asks whose turn it is ([`Outbox::next_turn`]), looks at that channel's log, and takes a run of
//! messages, or a gap ([`Outbox::take`]). Three things come out, in this order: gaps for what can no longer be sent
//! again, what is to be sent again, and what is new. In the last, channels take turns.

mod ring;
mod subscription;
mod turn;

use std::collections::VecDeque;

use ring::{Entry, Ring, What};
use subscription::Subscription;
pub use turn::{Bounds, Run, Slot, SubscriptionView, Turn, WhenFull};

/// See the [module](self). `C` is what the owner knows a channel by.
#[derive(Debug)]
pub struct Outbox<C> {
    ring: Ring,
    when_full: WhenFull,
    /// The last seq sent on the current connection; up to the ring's last, the rest is to be sent again.
    sent: u64,
    /// The client has everything up to here.
    acknowledged: u64,
    subscriptions: Vec<Option<Subscription<C>>>,
    /// Whose log may have something new, in the order of their turns; each at most once.
    ready: VecDeque<u32>,
    /// Subscriptions that are owed a gap before anything is sent again, by the seq that the gap will have.
    owed: VecDeque<u32>,
}

impl<C> Outbox<C> {
    /// Nothing sent, nothing subscribed. At most `max_unacked` seqs are remembered.
    #[must_use]
    pub fn new(max_unacked: usize) -> Self {
        Self {
            ring: Ring::new(max_unacked.max(1)),
            when_full: WhenFull::Stop,
            sent: 0,
            acknowledged: 0,
            subscriptions: Vec::new(),
            ready: VecDeque::new(),
            owed: VecDeque::new(),
        }
    }

    /// The last seq there is.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.ring.last_seq()
    }

    /// The last seq sent on the current connection: what a ping carries, and where the stream goes on from.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// How many seqs are remembered because the client may not have them.
    #[must_use]
    pub fn unacked(&self) -> usize {
        self.ring.len()
    }

    /// Whether the ring is so full that the client should be asked how far it is. Asking helps only if it can answer.
    #[must_use]
    pub fn wants_acknowledgement(&self) -> bool {
        self.when_full == WhenFull::Stop && self.ring.len() * 2 >= self.ring.capacity()
    }

    /// Begins to follow `channel` after the message `cursor`. With `gap`, the client is first told that something is
    /// missing of which nobody knows how much.
    pub fn subscribe(&mut self, channel: C, cursor: u64, gap: bool) -> Slot {
        self.subscribe_with(|_| channel, cursor, gap)
    }

    /// The same, for an owner that must know the slot to make the channel.
    pub fn subscribe_with(&mut self, channel: impl FnOnce(Slot) -> C, cursor: u64, gap: bool) -> Slot {
        let free = self.subscriptions.iter().position(Option::is_none);
        let index = free.unwrap_or(self.subscriptions.len());
        let slot = Slot(u32::try_from(index).expect("subscriptions are limited, far below 2^32"));
        let subscription = Some(Subscription::new(channel(slot), cursor, gap));
        if index < self.subscriptions.len() {
            self.subscriptions[index] = subscription;
        } else {
            if self.subscriptions.is_empty() {
                // Most sessions follow one channel; a vector would begin with room for four.
                self.subscriptions.reserve_exact(1);
            }
            self.subscriptions.push(subscription);
        }
        self.mark_ready(slot);
        slot
    }

    /// Nothing new comes from this subscription. What it was sent already can still be sent again, and its channel
    /// is held as long as that is so.
    pub fn unsubscribe(&mut self, slot: Slot) {
        self.ready.retain(|ready| *ready != slot.0);
        self.owed.retain(|owed| *owed != slot.0);
        self.skip_to_ring();
        if let Some(subscription) = self.get_mut(slot.0) {
            subscription.live = false;
            self.free_if_done(slot.0);
        }
    }

    /// There may be something new for this subscription. Harmless if there is not, or if it is gone.
    pub fn mark_ready(&mut self, slot: Slot) {
        if let Some(subscription) = self.get_mut(slot.0)
            && subscription.live
            && !std::mem::replace(&mut subscription.ready, true)
        {
            self.ready.push_back(slot.0);
        }
    }

    /// A connection whose client has everything up to `seq`; without one, up to what is acknowledged.
    ///
    /// `seq` is at most [`Outbox::seq`]: the owner has refused anything else.
    pub fn resume(&mut self, seq: Option<u64>, when_full: WhenFull) {
        let seq = seq.unwrap_or(self.acknowledged).min(self.seq());
        self.when_full = when_full;
        self.sent = seq;
        // Also when it says less than it did: what it has lost since then is not to be taken for had the next time.
        self.acknowledged = seq;
        self.owed.clear();
        if seq >= self.ring.dropped() {
            self.acknowledge(seq);
            return;
        }
        // By the seq that was the last to be forgotten of each: the gap gets that seq. So a client that is cut between two
        // gaps and comes back with the seq of the first is owed the second still.
        let mut owed: Vec<(u64, u32)> = (0..)
            .zip(&self.subscriptions)
            .filter_map(|(index, subscription)| Some((subscription.as_ref()?.owes_since(seq)?, index)))
            .collect();
        owed.sort_unstable();
        self.owed.extend(owed.into_iter().map(|(_, index)| index));
        self.skip_to_ring();
    }

    /// The client has everything up to `seq`. What was not yet sent on this connection is not taken for had.
    pub fn acknowledge(&mut self, seq: u64) {
        let seq = seq.min(self.sent);
        self.acknowledged = self.acknowledged.max(seq);
        while let Some((seq, entry)) = self.ring.pop_up_to(seq) {
            self.forget(seq, entry);
        }
    }

    /// Whose turn it is, if anyone's.
    #[must_use]
    pub fn next_turn(&self) -> Option<Turn> {
        if let Some(owed) = self.owed.front() {
            return Some(Turn { slot: Slot(*owed), from: 1 });
        }
        if let Some(entry) = self.ring.get(self.sent + 1) {
            return Some(Turn { slot: Slot(entry.slot), from: entry.offset });
        }
        if self.is_stopped() {
            return None;
        }
        let slot = *self.ready.front()?;
        Some(Turn { slot: Slot(slot), from: self.get(slot)?.cursor + 1 })
    }

    /// What a turn brings, given what its channel's log holds: at most `at_most` messages, at least one. Every seq of it
    /// counts as sent from here on.
    pub fn take(&mut self, turn: Turn, log: Bounds, at_most: usize) -> Run {
        if self.owed.front() == Some(&turn.slot.0) {
            self.take_owed(turn.slot.0)
        } else if self.sent < self.seq() {
            self.take_again(log, at_most.max(1))
        } else {
            self.take_new(turn.slot.0, log, at_most.max(1))
        }
    }

    /// The channel of a subscription.
    #[must_use]
    pub fn channel(&self, slot: Slot) -> Option<&C> {
        self.get(slot.0).map(|subscription| &subscription.channel)
    }

    /// Whether there may be something new that is not sent until something is acknowledged.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.when_full == WhenFull::Stop
            && self.ring.is_full()
            && self.sent == self.seq()
            && !self.ready.is_empty()
    }

    /// Every subscription that stands.
    pub fn subscriptions(&self) -> impl Iterator<Item = SubscriptionView<'_, C>> {
        (0..).zip(&self.subscriptions).filter_map(|(index, subscription)| {
            let Subscription { channel, cursor, .. } = subscription.as_ref().filter(|it| it.live)?;
            Some(SubscriptionView { slot: Slot(index), channel, cursor: *cursor })
        })
    }

    /// Lets go of everything. Returns the channels that were subscribed.
    pub fn clear(&mut self) -> impl Iterator<Item = C> + use<C> {
        self.ready = VecDeque::new();
        self.owed = VecDeque::new();
        self.ring.clear();
        self.sent = self.seq();
        std::mem::take(&mut self.subscriptions)
            .into_iter()
            .flatten()
            .filter(|subscription| subscription.live)
            .map(|subscription| subscription.channel)
    }

    fn take_owed(&mut self, slot: u32) -> Run {
        self.owed.pop_front();
        let (seq, range) =
            self.get(slot).and_then(Subscription::owed).expect("owed only while it stands and has forgotten");
        self.sent = seq;
        self.skip_to_ring();
        Run::Gap { seq, range }
    }

    /// When no gap is owed any more, what the ring still has comes next.
    fn skip_to_ring(&mut self) {
        if self.owed.is_empty() {
            self.sent = self.sent.max(self.ring.dropped());
        }
    }

    /// What stands in the ring, once more. Neighbours in one channel go out together.
    fn take_again(&mut self, log: Bounds, at_most: usize) -> Run {
        let seq = self.sent + 1;
        let entry = *self.ring.get(seq).expect("the ring holds all that was not sent on this connection");
        match entry.what() {
            What::Gap(range) => {
                self.sent = seq;
                Run::Gap { seq, range }
            }
            What::Message if entry.offset >= log.first => {
                let count = self.ring.neighbours(seq).take(at_most).count();
                self.sent += count as u64;
                // Not caught up: that is for what is new to say.
                Run::Messages { seq, offset: entry.offset, count, caught_up: false }
            }
            What::Message => {
                let gone = self.ring.neighbours(seq).take_while(|offset| *offset < log.first).count() as u64;
                self.sent += gone;
                Run::Gap { seq: self.sent, range: Some((entry.offset, entry.offset + gone - 1)) }
            }
        }
    }

    fn take_new(&mut self, slot: u32, log: Bounds, at_most: usize) -> Run {
        let room = match self.when_full {
            WhenFull::Stop => self.ring.capacity() - self.ring.len(),
            // More would wrap away what this very run sends.
            WhenFull::Wrap => self.ring.capacity(),
        };
        let Some(subscription) = self.get_mut(slot) else { return Run::CaughtUp };
        let cursor = subscription.cursor;
        if std::mem::take(&mut subscription.gap) {
            return self.send_gap(Entry::unknown_gap(slot, cursor));
        }
        if cursor + 1 < log.first {
            subscription.cursor = log.first - 1;
            return self.send_gap(Entry::gap(slot, cursor + 1, log.first - 1));
        }
        let unread = usize::try_from(log.last.saturating_sub(cursor)).unwrap_or(usize::MAX);
        let count = unread.min(at_most).min(room);
        let caught_up = count == unread;
        subscription.cursor += count as u64;
        subscription.ready = !caught_up;
        // To the back of the queue, or out of it.
        self.ready.retain(|ready| *ready != slot);
        if !caught_up {
            self.ready.push_back(slot);
        }
        if count == 0 {
            return Run::CaughtUp;
        }
        let seq = self.seq() + 1;
        for offset in cursor + 1..=cursor + count as u64 {
            self.send(Entry::message(slot, offset));
        }
        Run::Messages { seq, offset: cursor + 1, count, caught_up }
    }

    fn send_gap(&mut self, entry: Entry) -> Run {
        let What::Gap(range) = entry.what() else { unreachable!("made as a gap") };
        self.send(entry);
        Run::Gap { seq: self.sent, range }
    }

    fn send(&mut self, entry: Entry) {
        if self.ring.is_full()
            && let Some((seq, oldest)) = self.ring.pop()
        {
            self.forget(seq, oldest);
        }
        if let Some(subscription) = self.get_mut(entry.slot) {
            subscription.remembered += 1;
        }
        self.ring.push(entry);
        self.sent = self.ring.last_seq();
    }

    /// An entry has left the ring.
    fn forget(&mut self, seq: u64, entry: Entry) {
        if let Some(subscription) = self.get_mut(entry.slot) {
            subscription.forget(seq, entry);
            self.free_if_done(entry.slot);
        }
    }

    fn free_if_done(&mut self, slot: u32) {
        if self.get(slot).is_some_and(|it| !it.live && it.remembered == 0) {
            self.subscriptions[slot as usize] = None;
        }
    }

    fn get(&self, slot: u32) -> Option<&Subscription<C>> {
        self.subscriptions.get(slot as usize)?.as_ref()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut Subscription<C>> {
        self.subscriptions.get_mut(slot as usize)?.as_mut()
    }
}

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod tests;
