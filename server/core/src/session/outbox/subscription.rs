use std::num::NonZeroU64;

use super::notices::Notice;
use super::overlap::{Place, SentRange, Source};
use super::ring::{Entry, EntryKind};

/// One session's position in one channel.
#[derive(Debug)]
pub(super) struct Subscription<C> {
    pub(super) channel: C,
    /// The cursor at the start: messages up to here were never to be sent.
    pub(super) start: u64,
    /// The last offset that was sent, or reported as missing.
    pub(super) cursor: u64,
    /// The last entry that has left the ring, acknowledged or not.
    pub(super) evicted: Option<Evicted>,
    /// A gap of unknown length is to be reported before anything else.
    pub(super) gap: bool,
    /// A gap of unknown length has left the ring.
    pub(super) evicted_unknown_gap: bool,
    /// In the queue of those whose log may have something new.
    pub(super) ready: bool,
    /// Not unsubscribed.
    pub(super) live: bool,
    /// What few subscriptions have.
    pub(super) rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
pub(super) struct Rare {
    /// What the last gap left out.
    pub(super) missed: Option<(u64, u64)>,
    /// What others that overlap with it had sent when it began, until it has caught up.
    pub(super) sent_before: Vec<SentRange>,
    /// Another has sent a message of its log.
    pub(super) sent_by_others: bool,
    /// What the client is told of it, or was.
    pub(super) notice: Option<Notice>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Evicted {
    /// Seqs count from 1.
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
            rare: None,
        }
    }

    /// What the client is told of it, or was.
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

    /// The last seq there was when the client was told something of it.
    pub(super) fn told_after(&self) -> Option<u64> {
        self.notice()?.told_after
    }

    /// The cursor moves over what the log no longer has.
    pub(super) fn miss(&mut self, missing: (u64, u64)) {
        self.cursor = missing.1;
        self.rare.get_or_insert_default().missed = Some(missing);
    }

    /// Others have sent messages of its log, or had sent some that it will pass over.
    pub(super) fn relies_on_others(&self) -> bool {
        self.is_sent_by_others() || !self.sent_before().is_empty()
    }

    /// Whether another has sent a message of its log.
    pub(super) fn is_sent_by_others(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.sent_by_others)
    }

    /// Others have sent what is up to here.
    pub(super) fn pass(&mut self, up_to: u64) {
        self.cursor = up_to;
        self.rare.get_or_insert_default().sent_by_others = true;
    }

    /// What others that overlap with it had sent when it began; nothing once it has caught up.
    pub(super) fn sent_before(&self) -> &[SentRange] {
        self.rare.as_ref().map_or(&[], |rare| &rare.sent_before)
    }

    pub(super) fn set_sent_before(&mut self, sent: Vec<SentRange>) {
        if self.rare.is_some() || !sent.is_empty() {
            self.rare.get_or_insert_default().sent_before = sent;
        }
    }

    /// What was sent up to this entry of the subscription has left the ring.
    pub(super) fn evict(&mut self, seq: u64, entry: Entry) {
        self.evicted = NonZeroU64::new(seq).map(|seq| Evicted { seq, offset: entry.last_offset() });
        self.evicted_unknown_gap |= matches!(entry.kind(), EntryKind::Gap(None));
    }

    /// For a client that has everything up to `seq`: the seq of the gap to send it, if messages after `seq` have left the
    /// ring. None after an unsubscribe.
    pub(super) fn gap_needed_after(&self, seq: u64) -> Option<u64> {
        self.last_evicted().filter(|evicted| self.live && *evicted > seq)
    }

    /// The seq of the last entry that has left the ring.
    pub(super) fn last_evicted(&self) -> Option<u64> {
        self.evicted.map(|evicted| evicted.seq.get())
    }

    /// The seq and the range of that gap. The range may be too wide: of what left the ring, only the last offset is known.
    pub(super) fn evicted_gap(&self) -> Option<(u64, Option<(u64, u64)>)> {
        let Evicted { seq, offset } = self.evicted?;
        Some((seq.get(), (!self.evicted_unknown_gap).then_some((self.start + 1, offset))))
    }
}

impl<C: Source> Subscription<C> {
    pub(super) fn sent_range(&self) -> SentRange {
        let missed = self.rare.as_ref().and_then(|rare| rare.missed);
        SentRange { log: self.channel.log(), after: self.start, up_to: self.cursor, missed }
    }

    /// Whether the message there is its next.
    pub(super) fn is_before(&self, place: &Place) -> bool {
        self.live && self.channel.log() == place.log && self.cursor + 1 == place.offset
    }

    /// Whether it has another before the message there.
    pub(super) fn is_far_before(&self, place: &Place) -> bool {
        self.live && self.channel.log() == place.log && self.cursor + 1 < place.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server holds millions.
    #[test]
    fn a_subscription_is_small() {
        assert_eq!(size_of::<Subscription<[u64; 2]>>(), 64);
    }
}
