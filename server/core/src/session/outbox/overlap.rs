//! Messages that are in several logs, and how a session that reads these gets each once and in order.
//!
//! A message of `/a/b` is in that channel's log and in those of the patterns that stand for it, such as `/a/*`, and it knows its
//! [places](Place) there. A session that reads several of these logs goes through what they share in step: a message is sent when
//! every subscription has come to it that has it before it, and then the cursors of all go over it together. So nothing is remembered of
//! what was sent, and a subscription may end at any time: the others have neither less to send nor more.
//!
//! Somebody can always go on, for all logs have what they share in one order: the subscription whose next message is the oldest
//! waits for nobody. Three things remain:
//!
//! - **A subscription that begins in the past** (`since`) comes to messages that others have sent already. It knows how far these were
//!   when it began, and *passes over* what they had sent, until it has caught up.
//! - **A gap sends nothing**: what one subscription has lost another may still have, in a log of its own. So a subscription knows
//!   what its last gap left out.
//! - **A client that goes back** to before the ring is told by each subscription what that had sent. Nobody tells what one that has
//!   ended had sent. So those whose messages were ever sent by another tell of a gap of unknown length then; and so do those that have
//!   [moved on](Outbox::move_on) from another log.
//!
//! The owner sees to two things: a message is in all its logs before anyone sees it in one, and any two messages are in the same order in
//! all logs that have both.

use super::subscription::Subscription;
use super::{Bounds, Outbox, Slot};

/// A log, as its subscriptions know it.
pub trait Source {
    /// Its number, which no other log ever has.
    fn log(&self) -> u64;

    /// Whether a message can be in both logs.
    fn overlaps(&self, other: &Self) -> bool;
}

/// For an outbox with one log.
impl Source for () {
    fn log(&self) -> u64 {
        0
    }

    fn overlaps(&self, (): &Self) -> bool {
        false
    }
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the log.
    pub log: u64,
    /// The message's number in it.
    pub offset: u64,
}

/// Messages that a subscription passes over in one turn.
const PASSED_AT_ONCE: u64 = 256;

/// What a subscription has sent: some messages of its log, one after the other, but for those that a gap left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentRange {
    pub(super) log: u64,
    /// After this one.
    pub(super) after: u64,
    /// Up to this one.
    pub(super) up_to: u64,
    pub(super) missed: Option<(u64, u64)>,
}

impl SentRange {
    fn has(&self, place: &Place) -> bool {
        let is_missed = self.missed.is_some_and(|(from, to)| (from..=to).contains(&place.offset));
        place.log == self.log && self.after < place.offset && place.offset <= self.up_to && !is_missed
    }
}

impl<C> Outbox<C> {
    /// An entry of a subscription that has ended has left the ring.
    pub(super) fn forget(&mut self, seq: u64) {
        if self.overlaps {
            let forgotten = &mut self.rare.get_or_insert_default().forgotten;
            *forgotten = seq.max(*forgotten);
        }
    }

    /// The client may have lost what was sent after `seq` by subscriptions that have ended.
    pub(super) fn tell_what_others_sent(&mut self, seq: u64) {
        if self.forgotten() <= seq {
            return;
        }
        for slot in 0..self.slots() {
            if let Some(subscription) = self.get_mut(slot).filter(|it| it.live && it.relies_on_others()) {
                subscription.gap = true;
                self.mark_ready(Slot(slot));
            }
        }
    }
}

impl<C: Source> Outbox<C> {
    /// The subscription begins.
    pub(super) fn begin(&mut self, slot: u32) {
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

    /// Moves the cursor over messages that others had sent before this subscription began. Returns how many.
    pub(super) fn pass_over<'a>(
        &mut self,
        slot: u32,
        log: Bounds,
        places: &impl Fn(u64) -> &'a [Place],
    ) -> u64 {
        let Some(it) = self.get_mut(slot) else { return 0 };
        let sent = it.sent_before();
        if sent.is_empty() {
            return 0;
        }
        let next = it.cursor + 1..=log.last.min(it.cursor + PASSED_AT_ONCE);
        let passed = next.take_while(|offset| has_any(sent, places(*offset))).count() as u64;
        if passed > 0 {
            it.pass(it.cursor + passed);
        }
        passed
    }

    /// How many of the next `count` messages can be sent now: up to one that another subscription has to come to first. The cursors
    /// of all others go over them.
    pub(super) fn go_together<'a>(
        &mut self,
        slot: u32,
        count: usize,
        places: &impl Fn(u64) -> &'a [Place],
    ) -> usize {
        let Some(it) = self.get(slot).filter(|_| self.overlaps) else { return count };
        let (log, cursor) = (it.channel.log(), it.cursor);
        for (index, offset) in (cursor + 1..).take(count).enumerate() {
            let places = places(offset);
            let sent = self.get(slot).map_or(&[][..], Subscription::sent_before);
            if has_any(sent, places) || !self.has_all_come(log, places) {
                return index;
            }
            for place in places.iter().filter(|place| place.log != log) {
                for other in self.existing_mut().filter(|it| it.is_before(place)) {
                    other.pass(place.offset);
                }
            }
        }
        count
    }

    /// Whether no other subscription has something before this message. One that has gets a turn.
    fn has_all_come(&mut self, log: u64, places: &[Place]) -> bool {
        let mut have_come = true;
        for place in places.iter().filter(|place| place.log != log) {
            let behind = self.existing().find(|(_, it)| it.is_far_before(place)).map(|(slot, _)| slot);
            if let Some(behind) = behind {
                self.mark_ready(Slot(behind));
                have_come = false;
            }
        }
        have_come
    }
}

fn has_any(sent: &[SentRange], places: &[Place]) -> bool {
    places.iter().any(|place| sent.iter().any(|range| range.has(place)))
}
