use std::collections::VecDeque;

/// What was sent under one seq.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) slot: u32,
    /// 0: the message `offset`. Otherwise a gap: this many messages from `offset` on, or [`Entry::UNKNOWN`].
    pub(super) span: u32,
    pub(super) offset: u64,
}

pub(super) enum EntryKind {
    Message,
    /// The first and the last missing message, if known.
    Gap(Option<(u64, u64)>),
}

impl Entry {
    /// A gap of unknown length, or one too long for a span.
    const UNKNOWN: u32 = u32::MAX;

    pub(super) fn message(slot: u32, offset: u64) -> Self {
        Self { slot, span: 0, offset }
    }

    pub(super) fn gap(slot: u32, from: u64, to: u64) -> Self {
        match u32::try_from(to - from + 1) {
            Ok(span) => Self { slot, span, offset: from },
            Err(_) => Self::unknown_gap(slot, to),
        }
    }

    /// A gap before the message after `cursor`.
    pub(super) fn unknown_gap(slot: u32, cursor: u64) -> Self {
        Self { slot, span: Self::UNKNOWN, offset: cursor }
    }

    pub(super) fn kind(self) -> EntryKind {
        match self.span {
            0 => EntryKind::Message,
            Self::UNKNOWN => EntryKind::Gap(None),
            _ => EntryKind::Gap(Some((self.offset, self.last_offset()))),
        }
    }

    /// The offset that a client with this entry has reached.
    pub(super) fn last_offset(self) -> u64 {
        match self.span {
            0 | Self::UNKNOWN => self.offset,
            span => self.offset + u64::from(span) - 1,
        }
    }
}

/// The entries of the last seqs, at most `capacity`. Seqs count from 1 without holes.
#[derive(Debug)]
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    capacity: usize,
    /// The last seq that has left the ring.
    dropped: u64,
}

/// The capacity that an empty ring keeps, so that one message and its acknowledgement do not allocate.
const KEPT_WHEN_EMPTY: usize = 8;

impl Ring {
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: VecDeque::new(), capacity, dropped: 0 }
    }

    /// An empty ring, which goes on after the seq `dropped`.
    pub(super) fn after(dropped: u64, capacity: usize) -> Self {
        Self { dropped, ..Self::new(capacity) }
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.dropped + self.entries.len() as u64
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    pub(super) fn get(&self, seq: u64) -> Option<&Entry> {
        self.entries.get(self.index(seq)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Entry)> {
        let oldest = self.entries.pop_front()?;
        self.dropped += 1;
        if self.entries.is_empty() {
            self.entries.shrink_to(KEPT_WHEN_EMPTY);
        }
        Some((self.dropped, oldest))
    }

    pub(super) fn pop_up_to(&mut self, seq: u64) -> Option<(u64, Entry)> {
        if self.dropped < seq { self.pop() } else { None }
    }

    pub(super) fn clear(&mut self) {
        self.dropped = self.last_seq();
        self.entries = VecDeque::new();
    }

    /// The offset of the message at `seq`, and of those in the same subscription that follow it without a hole, in seq
    /// and in offset.
    pub(super) fn consecutive(&self, seq: u64) -> impl Iterator<Item = u64> + '_ {
        let from = self.index(seq).unwrap_or(self.entries.len());
        let first = self.entries.get(from).copied();
        let rest = self.entries.range(from..).zip(0..);
        rest.map_while(move |(entry, distance)| {
            let first = first?;
            let follows =
                entry.slot == first.slot && entry.span == 0 && entry.offset == first.offset + distance;
            follows.then_some(entry.offset)
        })
    }

    fn index(&self, seq: u64) -> Option<usize> {
        usize::try_from(seq.checked_sub(self.dropped + 1)?).ok()
    }
}
