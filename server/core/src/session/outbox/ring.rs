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

/// In a box, since most rings have none.
#[derive(Debug, Default)]
struct Earlier {
    /// Oldest first.
    runs: VecDeque<EntryRun>,
    /// How many entries these are.
    len: u32,
}

/// The entries of the last seqs, at most `capacity`. Seqs count from 1 without holes.
#[derive(Debug)]
pub(super) struct Ring {
    /// Of the newest run what was sent first, and has not left the ring. Anything in an empty ring.
    newest: Entry,
    /// All entries.
    len: u32,
    capacity: u32,
    last: u64,
    /// The runs before it, if there are any.
    earlier: Option<Box<Earlier>>,
}

impl Ring {
    pub(super) fn new(capacity: usize) -> Self {
        Self::after(0, capacity)
    }

    /// An empty ring, which goes on after the seq `dropped`.
    pub(super) fn after(dropped: u64, capacity: usize) -> Self {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
        Self { newest: Entry::message(0, 0), len: 0, capacity, last: dropped, earlier: None }
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.last
    }

    /// The last seq that has left the ring.
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
        let mut next = self.dropped() + 1;
        std::iter::from_fn(move || {
            let (entry, count) = self.rest_of_run(next)?;
            let seq = next;
            next += count;
            Some((seq, entry, count))
        })
    }

    /// Whether there is an entry of this subscription.
    pub(super) fn has_any_of(&self, slot: u32) -> bool {
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.runs).map(|run| run.first.slot);
        let newest = (self.len > 0).then_some(self.newest.slot);
        earlier.chain(newest).any(|other| other == slot)
    }

    /// `count` entries from this one on: messages, or a single gap. There is room for them.
    pub(super) fn push(&mut self, entry: Entry, count: u64) {
        let added = u32::try_from(count).expect("no more than the capacity");
        let goes_on = self.len > 0 && self.newest_run().goes_on(self.last + 1, entry);
        if !goes_on {
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

    /// Removes what is up to `seq` of the oldest run. Returns the last of that, and its seq.
    pub(super) fn pop_up_to(&mut self, seq: u64) -> Option<(u64, Entry)> {
        let dropped = self.dropped();
        if seq <= dropped {
            return None;
        }
        let (run, end) = self.run_with(dropped + 1)?;
        let seq = seq.min(end - 1);
        let removed = u32::try_from(seq - dropped).expect("no more than there are");
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

    /// The run that this seq is in, and the seq after it.
    fn run_with(&self, seq: u64) -> Option<(EntryRun, u64)> {
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
