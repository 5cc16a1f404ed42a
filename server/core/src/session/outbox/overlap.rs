//! Messages that are in several logs, and how a session that reads these logs receives each message once and
//! in order.
//!
//! A message of `/a/b` is in the log of that channel and in the logs of the patterns that match it, such as
//! `/a/*`. It records its [positions](LogPosition) in all of them. A session that subscribes to several of
//! these logs reads their shared messages in step: a message is sent once it is next in every subscription
//! whose log contains it, and then all their cursors move past it together. No record of sent messages is
//! needed, and a subscription may end at any time without changing what the others send.
//!
//! There is no deadlock: all logs contain their shared messages in the same order, so the subscription whose
//! next message is the oldest never has to wait. Three cases need special treatment:
//!
//! - **A subscription that begins in the past** (`since`) reaches messages that others have already sent.
//!   When it begins, it records the positions of the others. It *skips* what they had sent, until it has
//!   caught up.
//! - **A gap sends nothing.** Messages that one subscription has lost may still be in the log of another.
//!   Therefore each subscription remembers the offsets covered by its last gap.
//! - **A client may resume** from before the ring. Each subscription then reports its own sent messages as a
//!   gap, but ended subscriptions cannot, except those that have [switched](Outbox::switch_log) to another log.
//!   Therefore a gap of unknown length is reported by every subscription whose messages were ever sent by
//!   another subscription.
//!
//! The owner must ensure two things: a message is in all its logs before it becomes visible in any, and any
//! two messages have the same order in all logs that contain both.

use super::log_handle::{LogHandle, LogPosition};
use super::subscription::Subscription;
use super::{LogBounds, Outbox, SubscriptionSlot};
use crate::session::record::SentRange;

/// Maximum number of messages that a subscription skips in one turn.
const MAX_SKIPPED_PER_TURN: u64 = 256;

impl SentRange {
    fn contains(&self, place: &LogPosition) -> bool {
        let is_missed = self.missed.is_some_and(|(from, to)| (from..=to).contains(&place.offset));
        place.log == self.log && self.after < place.offset && place.offset <= self.up_to && !is_missed
    }
}

impl<C> Outbox<C> {
    /// Records that an entry of an ended subscription has left the ring.
    pub(super) fn note_orphan_eviction(&mut self, seq: u64) {
        if self.overlaps {
            let last_orphan_evicted = &mut self.rare.get_or_insert_default().last_orphan_evicted;
            *last_orphan_evicted = seq.max(*last_orphan_evicted);
        }
    }

    /// Reports gaps because the client may have lost messages that ended subscriptions sent after `seq`.
    pub(super) fn report_gaps_of_ended(&mut self, seq: u64) {
        if self.last_orphan_evicted() <= seq {
            return;
        }
        for slot in 0..self.slots() {
            if let Some(subscription) = self.get_mut(slot).filter(|it| it.live && it.relies_on_others()) {
                subscription.gap = true;
                self.mark_ready(SubscriptionSlot(slot));
            }
        }
    }
}

impl<C: LogHandle> Outbox<C> {
    /// Records what overlapping subscriptions have sent before this one begins.
    pub(super) fn record_overlaps(&mut self, slot: u32) {
        let Some(it) = self.get(slot) else { return };
        let others = self.existing().map(|(_, other)| other).filter(|other| {
            other.live && other.channel.log() != it.channel.log() && other.channel.overlaps(&it.channel)
        });
        let sent: Vec<SentRange> = others.map(Subscription::sent_range).collect();
        self.overlaps |= !sent.is_empty();
        if let Some(it) = self.get_mut(slot) {
            it.set_sent_before(sent);
        }
    }

    /// Moves the cursor past messages that others had sent before this subscription began. Returns their
    /// number.
    pub(super) fn skip_already_sent<'a>(
        &mut self,
        slot: u32,
        log: LogBounds,
        places: &impl Fn(u64) -> &'a [LogPosition],
    ) -> u64 {
        let Some(it) = self.get_mut(slot) else { return 0 };
        let sent = it.sent_before();
        if sent.is_empty() {
            return 0;
        }
        let next = it.cursor + 1..=log.last.min(it.cursor + MAX_SKIPPED_PER_TURN);
        let passed = next.take_while(|offset| contains_any(sent, places(*offset))).count() as u64;
        if passed > 0 {
            it.advance_past(it.cursor + passed);
        }
        passed
    }

    /// Returns how many of the next `count` messages can be sent now: the ones before the first that must
    /// wait for another subscription. Moves the cursors of all other subscriptions past them.
    pub(super) fn advance_together<'a>(
        &mut self,
        slot: u32,
        count: usize,
        places: &impl Fn(u64) -> &'a [LogPosition],
    ) -> usize {
        let Some(it) = self.get(slot).filter(|_| self.overlaps) else { return count };
        let (log, cursor) = (it.channel.log(), it.cursor);
        for (index, offset) in (cursor + 1..).take(count).enumerate() {
            let places = places(offset);
            let sent = self.get(slot).map_or(&[][..], Subscription::sent_before);
            if contains_any(sent, places) || !self.is_next_for_all(log, places) {
                return index;
            }
            for place in places.iter().filter(|place| place.log != log) {
                for other in self.existing_mut().filter(|it| it.is_next_at(place)) {
                    other.advance_past(place.offset);
                }
            }
        }
        count
    }

    /// Whether this message is next in all other subscriptions whose logs contain it. Gives a turn to each
    /// subscription that has earlier messages to send.
    fn is_next_for_all(&mut self, log: u64, places: &[LogPosition]) -> bool {
        let mut can_send = true;
        for place in places.iter().filter(|place| place.log != log) {
            let behind = self.existing().find(|(_, it)| it.is_behind(place)).map(|(slot, _)| slot);
            if let Some(behind) = behind {
                self.mark_ready(SubscriptionSlot(behind));
                can_send = false;
            }
        }
        can_send
    }
}

fn contains_any(sent: &[SentRange], places: &[LogPosition]) -> bool {
    places.iter().any(|place| sent.iter().any(|range| range.contains(place)))
}
