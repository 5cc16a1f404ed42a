use std::num::{NonZeroU32, NonZeroU64};

use super::log_handle::{LogHandle, LogPosition};
use super::notice::Notice;
use super::ring::{EntryKind, RingEntry};
use crate::session::record::SentRange;

/// A session's position in one channel.
#[derive(Debug)]
pub(super) struct Subscription<C> {
    pub(super) channel: C,
    /// Cursor when the subscription began. Messages up to it are never sent.
    pub(super) start: u64,
    /// Last offset that was sent or reported as missing.
    pub(super) cursor: u64,
    /// The last entry that has left the ring, acknowledged or not.
    pub(super) evicted: Option<Evicted>,
    /// Whether a gap of unknown length must be reported before anything else.
    pub(super) gap: bool,
    /// Whether a gap of unknown length has left the ring.
    pub(super) evicted_unknown_gap: bool,
    /// Whether the subscription is queued because its log may have new messages.
    pub(super) ready: bool,
    /// Whether the subscription is active. False after an unsubscribe or a switch to another log.
    pub(super) live: bool,
    /// Slot, plus one, of the subscription that replaced this one after its log ended. As long as the ring has
    /// entries of this subscription, it still reports its evicted entries; after that, the successor reports
    /// them.
    successor: Option<NonZeroU32>,
    /// State that few subscriptions need.
    pub(super) rare: Option<Box<RareSubscriptionState>>,
}

#[derive(Debug, Default)]
pub(super) struct RareSubscriptionState {
    /// Offsets covered by the last gap.
    pub(super) missed: Option<(u64, u64)>,
    /// Messages that overlapping subscriptions had sent when this one began. Empty once this one has caught
    /// up.
    pub(super) sent_before: Vec<SentRange>,
    /// Whether another subscription has sent a message of this log.
    pub(super) sent_by_others: bool,
    /// Notice about this subscription, pending or sent.
    pub(super) notice: Option<Notice>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Evicted {
    /// Seq of the entry. Seqs start at 1.
    pub(super) seq: NonZeroU64,
    pub(super) offset: u64,
}

impl<C> Subscription<C> {
    pub(super) fn new(channel: C, cursor: u64, gap: bool) -> Self {
        Self {
            channel,
            start: cursor,
            cursor,
            evicted: None,
            gap,
            evicted_unknown_gap: false,
            ready: false,
            live: true,
            successor: None,
            rare: None,
        }
    }

    /// Returns the notice about this subscription, pending or sent.
    pub(super) fn notice(&self) -> Option<Notice> {
        self.rare.as_ref()?.notice
    }

    pub(super) fn notice_mut(&mut self) -> Option<&mut Notice> {
        self.rare.as_mut()?.notice.as_mut()
    }

    pub(super) fn set_notice(&mut self, notice: Option<Notice>) {
        if self.rare.is_some() || notice.is_some() {
            self.rare.get_or_insert_default().notice = notice;
        }
    }

    /// Last assigned seq when the notice was sent.
    pub(super) fn notice_sent_after(&self) -> Option<u64> {
        self.notice()?.sent_after
    }

    /// Continues at `cursor`, as if the subscription began there. Forgets everything that was sent, except for a
    /// notice.
    pub(super) fn restart(&mut self, cursor: u64, gap: bool) {
        (self.start, self.cursor, self.gap) = (cursor, cursor, gap);
        (self.evicted, self.evicted_unknown_gap, self.successor) = (None, false, None);
        let notice = self.notice();
        self.rare = None;
        self.set_notice(notice);
    }

    /// Moves the cursor past messages that the log no longer has.
    pub(super) fn skip_missing(&mut self, missing: (u64, u64)) {
        self.cursor = missing.1;
        self.rare.get_or_insert_default().missed = Some(missing);
    }

    /// Whether other subscriptions have sent messages of this log, including messages that this subscription
    /// will skip.
    pub(super) fn relies_on_others(&self) -> bool {
        self.is_sent_by_others() || !self.sent_before().is_empty()
    }

    /// Whether another subscription has sent a message of this log.
    pub(super) fn is_sent_by_others(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.sent_by_others)
    }

    /// Moves the cursor past messages that other subscriptions have sent.
    pub(super) fn advance_past(&mut self, up_to: u64) {
        self.cursor = up_to;
        self.rare.get_or_insert_default().sent_by_others = true;
    }

    /// Returns the messages that overlapping subscriptions had sent when this one began; empty once this one
    /// has caught up.
    pub(super) fn sent_before(&self) -> &[SentRange] {
        self.rare.as_ref().map_or(&[], |rare| &rare.sent_before)
    }

    pub(super) fn set_sent_before(&mut self, sent: Vec<SentRange>) {
        if self.rare.is_some() || !sent.is_empty() {
            self.rare.get_or_insert_default().sent_before = sent;
        }
    }

    /// Records that the subscription's entries up to this one have left the ring.
    pub(super) fn evict(&mut self, seq: u64, entry: RingEntry) {
        self.evicted = NonZeroU64::new(seq).map(|seq| Evicted { seq, offset: entry.last_offset() });
        self.evicted_unknown_gap |= matches!(entry.kind(), EntryKind::Gap(None));
    }

    /// Slot of the subscription that replaced this one after its log ended.
    pub(super) fn successor(&self) -> Option<u32> {
        self.successor.map(|after| after.get() - 1)
    }

    pub(super) fn set_successor(&mut self, slot: Option<u32>) {
        self.successor = slot.and_then(|slot| NonZeroU32::new(slot.wrapping_add(1)));
    }

    /// Whether the subscription reports entries that have left the ring. False after an unsubscribe.
    pub(super) fn reports_evicted(&self) -> bool {
        self.live || self.successor.is_some()
    }

    /// Takes over the evicted entries of a predecessor, to report them as a gap. Its range is unknown, because
    /// the predecessor's offsets belong to another log.
    pub(super) fn inherit_evicted(&mut self, seq: NonZeroU64) {
        self.evicted_unknown_gap = true;
        if self.evicted.is_none() {
            self.evicted = Some(Evicted { seq, offset: self.start });
        }
    }

    /// Returns the seq of the gap that must be sent to a client with everything up to `seq`, because later
    /// entries have left the ring. `None` after an unsubscribe.
    pub(super) fn gap_seq_after(&self, seq: u64) -> Option<u64> {
        self.last_evicted().filter(|evicted| self.reports_evicted() && *evicted > seq)
    }

    /// Seq of the last entry that has left the ring.
    pub(super) fn last_evicted(&self) -> Option<u64> {
        self.evicted.map(|evicted| evicted.seq.get())
    }

    /// Returns the seq and range of the gap for evicted entries. The range may be too wide, because only the
    /// last evicted offset is known.
    pub(super) fn evicted_gap(&self) -> Option<(u64, Option<(u64, u64)>)> {
        let Evicted { seq, offset } = self.evicted?;
        Some((seq.get(), (!self.evicted_unknown_gap).then_some((self.start + 1, offset))))
    }
}

impl<C: LogHandle> Subscription<C> {
    pub(super) fn sent_range(&self) -> SentRange {
        let missed = self.rare.as_ref().and_then(|rare| rare.missed);
        SentRange { log: self.channel.log(), after: self.start, up_to: self.cursor, missed }
    }

    /// Whether the message at this position is the subscription's next one.
    pub(super) fn is_next_at(&self, place: &LogPosition) -> bool {
        self.live && self.channel.log() == place.log && self.cursor + 1 == place.offset
    }

    /// Whether the subscription has earlier messages to send before the one at this position.
    pub(super) fn is_behind(&self, place: &LogPosition) -> bool {
        self.live && self.channel.log() == place.log && self.cursor + 1 < place.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size matters because a server holds millions of subscriptions.
    #[test]
    fn a_subscription_is_small() {
        assert_eq!(size_of::<Subscription<[u64; 2]>>(), 64);
    }
}
