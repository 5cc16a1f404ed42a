//! What was sent under the last seqs, until the client is known to have it.
//!
//! Messages of one subscription mostly follow each other, in seq and in offset: they are one *run*, however many they are. So a session that
//! follows one channel takes as much for a thousand unacknowledged messages as for one, and what it takes is in the ring itself.

use std::collections::VecDeque;

/// What was sent under one seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A gap, or messages of one subscription that follow each other without a hole, in seq and in offset. It ends where the next begins.
#[derive(Clone, Copy, Debug)]
struct EntryRun {
    /// The first seq. What came first of it may have left the ring.
    seq: u64,
    first: Entry,
}

impl EntryRun {
    /// What was sent under this seq of the run.
    fn at(self, seq: u64) -> Entry {
        Entry { offset: self.first.offset + (seq - self.seq), ..self.first }
    }

    /// Whether `entry`, under `seq`, goes on with it.
    fn goes_on(self, seq: u64, entry: Entry) -> bool {
        self.first.span == 0 && self.at(seq) == entry
    }
}

/// Oldest first. In a box, since most rings have none.
#[derive(Debug, Default)]
struct Earlier {
    runs: VecDeque<EntryRun>,
}

/// The entries of the last seqs, at most `capacity`. Seqs count from 1 without holes.
#[derive(Debug)]
pub(super) struct Ring {
    /// Means nothing in an empty ring.
    newest: EntryRun,
    /// The runs before it, if there are any.
    earlier: Option<Box<Earlier>>,
    last: u64,
    /// The last seq that has left the ring.
    dropped: u64,
    capacity: u32,
}

impl Ring {
    pub(super) fn new(capacity: usize) -> Self {
        Self::after(0, capacity)
    }

    /// An empty ring, which goes on after the seq `dropped`.
    pub(super) fn after(dropped: u64, capacity: usize) -> Self {
        let newest = EntryRun { seq: dropped, first: Entry::message(0, 0) };
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
        Self { newest, earlier: None, last: dropped, dropped, capacity }
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.last
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn len(&self) -> usize {
        usize::try_from(self.last - self.dropped).expect("at most the capacity")
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.capacity()
    }

    pub(super) fn get(&self, seq: u64) -> Option<Entry> {
        Some(self.run_with(seq)?.0.at(seq))
    }

    /// What was sent under `seq`, and how many entries of its run there are from there on.
    pub(super) fn rest_of_run(&self, seq: u64) -> Option<(Entry, u64)> {
        let (run, end) = self.run_with(seq)?;
        Some((run.at(seq), end - seq))
    }

    /// The runs, oldest first: the seq of the first entry, that entry, and how many there are.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u64, Entry, u64)> {
        let mut next = self.dropped + 1;
        std::iter::from_fn(move || {
            let (entry, count) = self.rest_of_run(next)?;
            let seq = next;
            next += count;
            Some((seq, entry, count))
        })
    }

    /// Whether there is an entry of this subscription.
    pub(super) fn has_any_of(&self, slot: u32) -> bool {
        let newest = (self.last > self.dropped).then_some(&self.newest);
        self.earlier.iter().flat_map(|earlier| &earlier.runs).chain(newest).any(|run| run.first.slot == slot)
    }

    /// `count` entries from this one on: messages, or a single gap. There is room for them.
    pub(super) fn push(&mut self, entry: Entry, count: u64) {
        let seq = self.last + 1;
        let is_empty = self.last == self.dropped;
        if is_empty || !self.newest.goes_on(seq, entry) {
            if !is_empty {
                self.earlier.get_or_insert_default().runs.push_back(self.newest);
            }
            self.newest = EntryRun { seq, first: entry };
        }
        self.last += count;
    }

    /// Removes what is up to `seq` of the oldest run. Returns the last of that, and its seq.
    pub(super) fn pop_up_to(&mut self, seq: u64) -> Option<(u64, Entry)> {
        let (run, end) = self.run_with(self.dropped + 1).filter(|_| self.dropped < seq)?;
        let seq = seq.min(end - 1);
        self.dropped = seq;
        if let Some(earlier) = &mut self.earlier
            && self.dropped + 1 == end
        {
            earlier.runs.pop_front();
            if earlier.runs.is_empty() {
                self.earlier = None;
            }
        }
        Some((seq, run.at(seq)))
    }

    pub(super) fn clear(&mut self) {
        *self = Self::after(self.last, self.capacity());
    }

    /// The run that this seq is in, and the seq after it.
    fn run_with(&self, seq: u64) -> Option<(EntryRun, u64)> {
        if seq <= self.dropped || seq > self.last {
            return None;
        }
        if seq >= self.newest.seq {
            return Some((self.newest, self.last + 1));
        }
        let earlier = &self.earlier.as_ref()?.runs;
        let next = earlier.partition_point(|run| run.seq <= seq);
        let end = earlier.get(next).map_or(self.newest.seq, |run| run.seq);
        Some((*earlier.get(next.checked_sub(1)?)?, end))
    }
}

#[cfg(test)]
mod tests;
