//! The messages and gaps sent with the latest seqs, until the client is known to have received them.
//!
//! Messages of one subscription usually have consecutive seqs and offsets. Such a sequence is stored as one
//! *run*, regardless of its length. A session with one subscription therefore needs the same memory for a
//! thousand unacknowledged messages as for one, and that memory is part of the ring itself.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// A message or gap that was sent with one seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingEntry {
    pub(super) slot: u32,
    /// 0 for a message. For a gap, the number of missing messages, starting at `offset`, or
    /// [`RingEntry::UNKNOWN`].
    pub(super) span: u32,
    pub(super) offset: u64,
}

pub(super) enum EntryKind {
    Message,
    /// First and last missing offset, if known.
    Gap(Option<(u64, u64)>),
}

impl RingEntry {
    /// Span of a gap whose length is unknown, or too large for a span.
    const UNKNOWN: u32 = u32::MAX;

    pub(super) fn message(slot: u32, offset: u64) -> Self {
        Self { slot, span: 0, offset }
    }

    pub(super) fn gap(slot: u32, missing: RangeInclusive<u64>) -> Self {
        let (from, to) = missing.into_inner();
        match u32::try_from(to - from + 1) {
            Ok(span) => Self { slot, span, offset: from },
            Err(_) => Self::unknown_gap(slot, to),
        }
    }

    /// Creates a gap of unknown length before the message after `cursor`.
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

    /// Returns the offset that a client has reached with this entry.
    pub(super) fn last_offset(self) -> u64 {
        match self.span {
            0 | Self::UNKNOWN => self.offset,
            span => self.offset + u64::from(span) - 1,
        }
    }
}

/// A gap, or messages of one subscription with consecutive seqs and offsets. A run extends to the beginning
/// of the next one.
#[derive(Clone, Copy, Debug)]
struct EntryRun {
    /// First seq. Entries at the beginning of the run may have left the ring.
    seq: u64,
    first: RingEntry,
}

impl EntryRun {
    /// Returns the run's entry for this seq.
    fn at(self, seq: u64) -> RingEntry {
        RingEntry { offset: self.first.offset + (seq - self.seq), ..self.first }
    }

    /// Whether `entry`, sent with `seq`, extends the run.
    fn continues_with(self, seq: u64, entry: RingEntry) -> bool {
        self.first.span == 0 && self.at(seq) == entry
    }
}

/// The runs before the newest one. Boxed, since most rings have a single run.
#[derive(Debug, Default)]
struct EarlierRuns {
    /// The runs, oldest first.
    runs: VecDeque<EntryRun>,
    /// Number of entries in all these runs.
    len: u32,
}

/// The entries of the latest seqs, at most `capacity`. Seqs start at 1 and have no holes.
#[derive(Debug)]
pub(super) struct ReplayRing {
    /// The oldest entry in the ring that belongs to the newest run. Arbitrary if the ring is empty.
    newest: RingEntry,
    /// Total number of entries.
    len: u32,
    capacity: u32,
    last: u64,
    /// The runs before the newest one, if any.
    earlier: Option<Box<EarlierRuns>>,
}

impl ReplayRing {
    pub(super) fn new(capacity: usize) -> Self {
        Self::after(0, capacity)
    }

    /// Creates an empty ring that continues after the seq `dropped`.
    pub(super) fn after(dropped: u64, capacity: usize) -> Self {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
        Self { newest: RingEntry::message(0, 0), len: 0, capacity, last: dropped, earlier: None }
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.last
    }

    /// Last seq that has left the ring.
    pub(super) fn dropped(&self) -> u64 {
        self.last - u64::from(self.len)
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    pub(super) fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    pub(super) fn get(&self, seq: u64) -> Option<RingEntry> {
        Some(self.run_containing(seq)?.0.at(seq))
    }

    /// Returns the entry for `seq`, and the number of entries from it to the end of its run.
    pub(super) fn rest_of_run(&self, seq: u64) -> Option<(RingEntry, u64)> {
        let (run, end) = self.run_containing(seq)?;
        Some((run.at(seq), end - seq))
    }

    /// Iterates over the runs, oldest first: the seq of the first entry, that entry, and the number of
    /// entries.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u64, RingEntry, u64)> {
        let mut next = self.dropped() + 1;
        std::iter::from_fn(move || {
            let (entry, count) = self.rest_of_run(next)?;
            let seq = next;
            next += count;
            Some((seq, entry, count))
        })
    }

    /// Whether the ring contains an entry of this subscription.
    pub(super) fn contains_slot(&self, slot: u32) -> bool {
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.runs).map(|run| run.first.slot);
        let newest = (self.len > 0).then_some(self.newest.slot);
        earlier.chain(newest).any(|other| other == slot)
    }

    /// Adds `count` entries starting with `entry`: messages, or a single gap. The ring must have room for
    /// them.
    pub(super) fn push(&mut self, entry: RingEntry, count: u64) {
        let added = u32::try_from(count).expect("at most the capacity");
        let extends_newest = self.len > 0 && self.newest_run().continues_with(self.last + 1, entry);
        if !extends_newest {
            if self.len > 0 {
                let run = self.newest_run();
                let earlier = self.earlier.get_or_insert_default();
                earlier.runs.push_back(run);
                earlier.len = self.len;
            }
            self.newest = entry;
        }
        self.last += count;
        self.len += added;
    }

    /// Removes the oldest run's entries up to `seq`. Returns the last entry removed, with its seq.
    pub(super) fn pop_up_to(&mut self, seq: u64) -> Option<(u64, RingEntry)> {
        let dropped = self.dropped();
        if seq <= dropped {
            return None;
        }
        let (run, end) = self.run_containing(dropped + 1)?;
        let seq = seq.min(end - 1);
        let removed = u32::try_from(seq - dropped).expect("at most the number of entries");
        self.len -= removed;
        match &mut self.earlier {
            None => self.newest = run.at(seq + 1),
            Some(earlier) => {
                earlier.len -= removed;
                if seq + 1 == end {
                    earlier.runs.pop_front();
                }
                if earlier.runs.is_empty() {
                    self.earlier = None;
                }
            }
        }
        Some((seq, run.at(seq)))
    }

    pub(super) fn clear(&mut self) {
        *self = Self::after(self.last, self.capacity());
    }

    fn newest_run(&self) -> EntryRun {
        let in_newest = self.len - self.earlier.as_ref().map_or(0, |earlier| earlier.len);
        EntryRun { seq: self.last + 1 - u64::from(in_newest), first: self.newest }
    }

    /// Returns the run that contains this seq, and the seq after its end.
    fn run_containing(&self, seq: u64) -> Option<(EntryRun, u64)> {
        if seq <= self.dropped() || seq > self.last {
            return None;
        }
        let newest = self.newest_run();
        if seq >= newest.seq {
            return Some((newest, self.last + 1));
        }
        let earlier = &self.earlier.as_ref()?.runs;
        let next = earlier.partition_point(|run| run.seq <= seq);
        let end = earlier.get(next).map_or(newest.seq, |run| run.seq);
        Some((*earlier.get(next.checked_sub(1)?)?, end))
    }
}

#[cfg(test)]
mod tests;
