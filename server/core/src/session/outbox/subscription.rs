use super::ring::{Entry, EntryKind};

/// One session's position in one channel.
#[derive(Debug)]
pub(super) struct Subscription<C> {
    pub(super) channel: C,
    /// The cursor at the start: messages up to here were never to be sent.
    start: u64,
    /// The last offset that was sent, or reported as missing.
    pub(super) cursor: u64,
    /// The last entry that has left the ring, acknowledged or not.
    evicted: Option<Evicted>,
    /// Entries in the ring.
    pub(super) in_ring: u32,
    /// A gap of unknown length is to be reported before anything else.
    pub(super) gap: bool,
    /// A gap of unknown length has left the ring.
    evicted_unknown_gap: bool,
    /// In the queue of those whose log may have something new.
    pub(super) ready: bool,
    /// Not unsubscribed.
    pub(super) live: bool,
}

#[derive(Clone, Copy, Debug)]
struct Evicted {
    seq: u64,
    offset: u64,
}

impl<C> Subscription<C> {
    pub(super) fn new(channel: C, cursor: u64, gap: bool) -> Self {
        Self {
            channel,
            start: cursor,
            cursor,
            evicted: None,
            in_ring: 0,
            gap,
            evicted_unknown_gap: false,
            ready: false,
            live: true,
        }
    }

    /// An entry of this subscription has left the ring.
    pub(super) fn evict(&mut self, seq: u64, entry: Entry) {
        self.in_ring -= 1;
        self.evicted = Some(Evicted { seq, offset: entry.last_offset() });
        self.evicted_unknown_gap |= matches!(entry.kind(), EntryKind::Gap(None));
    }

    /// For a client that has everything up to `seq`: the seq of the gap to send it, if messages after `seq` have left the
    /// ring. None after an unsubscribe.
    pub(super) fn gap_needed_after(&self, seq: u64) -> Option<u64> {
        self.evicted.map(|evicted| evicted.seq).filter(|evicted| self.live && *evicted > seq)
    }

    /// The seq and the range of that gap. The range may be too wide: of what left the ring, only the last offset is known.
    pub(super) fn evicted_gap(&self) -> Option<(u64, Option<(u64, u64)>)> {
        let Evicted { seq, offset } = self.evicted?;
        Some((seq, (!self.evicted_unknown_gap).then_some((self.start + 1, offset))))
    }
}
