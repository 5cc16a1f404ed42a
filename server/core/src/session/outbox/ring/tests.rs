//! Compares a ring with a simple list that has an entry for each seq.
//!
//! `ENCKE_SEED=<n>` runs one seed; without it, a fixed range and one random seed.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

const STEPS: usize = 300;

/// The reference implementation, a list of all entries.
struct ReferenceRing {
    entries: VecDeque<RingEntry>,
    dropped: u64,
}

impl ReferenceRing {
    fn last(&self) -> u64 {
        self.dropped + self.entries.len() as u64
    }

    fn get(&self, seq: u64) -> Option<RingEntry> {
        let index = usize::try_from(seq.checked_sub(self.dropped + 1)?).expect("small");
        self.entries.get(index).copied()
    }

    /// Returns the entry for `seq`, and the number of consecutive messages of one subscription that begin
    /// with it.
    fn rest_of_run(&self, seq: u64) -> Option<(RingEntry, u64)> {
        let first = self.get(seq)?;
        let follows = |count: &u64| {
            let next = RingEntry { offset: first.offset + count, ..first };
            first.span == 0 && self.get(seq + count) == Some(next)
        };
        Some((first, 1 + (1..).take_while(follows).count() as u64))
    }

    fn pop(&mut self) -> Option<(u64, RingEntry)> {
        let entry = self.entries.pop_front()?;
        self.dropped += 1;
        Some((self.dropped, entry))
    }
}

fn random_entry(rng: &mut SmallRng, newest: Option<RingEntry>) -> (RingEntry, u64) {
    let offset = newest.map_or(1, |newest| newest.last_offset() + 1);
    let slot = newest.map_or(0, |newest| newest.slot);
    match rng.random_range(0..10) {
        0 => (RingEntry::gap(slot, offset..=offset + rng.random_range(0..3)), 1),
        1 => (RingEntry::unknown_gap(slot, offset), 1),
        2 => (RingEntry::message(rng.random_range(0..3), offset), rng.random_range(1..4)),
        3 => (RingEntry::message(slot, offset + 1), 1),
        _ => (RingEntry::message(slot, offset), rng.random_range(1..4)),
    }
}

fn run(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let dropped = rng.random_range(0..3);
    let mut ring = ReplayRing::after(dropped, 32);
    let mut reference = ReferenceRing { entries: VecDeque::new(), dropped };
    for _ in 0..STEPS {
        match rng.random_range(0..10) {
            0..6 => {
                let (entry, count) = random_entry(&mut rng, reference.entries.back().copied());
                if ring.len() as u64 + count <= 32 {
                    ring.push(entry, count);
                    reference
                        .entries
                        .extend((0..count).map(|n| RingEntry { offset: entry.offset + n, ..entry }));
                }
            }
            6..9 => {
                let up_to = reference.dropped + rng.random_range(0..6);
                while let Some((seq, entry)) = ring.pop_up_to(up_to) {
                    let mut last = None;
                    while reference.dropped < seq {
                        last = reference.pop();
                    }
                    assert_eq!(last, Some((seq, entry)));
                }
                assert_eq!(reference.dropped, reference.last().min(up_to).max(reference.dropped));
            }
            _ if rng.random_bool(0.1) => {
                ring.clear();
                reference = ReferenceRing { entries: VecDeque::new(), dropped: reference.last() };
            }
            _ => {}
        }
        check(&ring, &reference);
    }
}

fn check(ring: &ReplayRing, reference: &ReferenceRing) {
    assert_eq!((ring.dropped(), ring.last_seq()), (reference.dropped, reference.last()));
    assert_eq!((ring.len(), ring.is_full()), (reference.entries.len(), reference.entries.len() == 32));
    for seq in 0..=reference.last() + 1 {
        assert_eq!(ring.get(seq), reference.get(seq), "{seq}");
        assert_eq!(ring.rest_of_run(seq), reference.rest_of_run(seq), "{seq}");
    }
    for slot in 0..4 {
        assert_eq!(ring.contains_slot(slot), reference.entries.iter().any(|entry| entry.slot == slot));
    }
    let mut next = reference.dropped + 1;
    for (seq, entry, count) in ring.runs() {
        assert_eq!((seq, Some((entry, count))), (next, reference.rest_of_run(next)), "no run can be longer");
        next += count;
    }
    assert_eq!(next, reference.last() + 1, "the runs cover all entries");
    let runs = ring.runs().count().saturating_sub(1);
    assert_eq!(ring.earlier.as_ref().map_or(0, |earlier| earlier.runs.len()), runs, "removed runs are freed");
    assert!(ring.earlier.as_ref().is_none_or(|earlier| !earlier.runs.is_empty()));
}

#[test]
fn runs_match_a_list_of_all_entries() {
    encke_seeds::with_seeds(0..500, run);
}

#[test]
fn consecutive_messages_are_one_run() {
    let mut ring = ReplayRing::new(1024);
    for offset in 8..1000 {
        ring.push(RingEntry::message(2, offset), 1);
    }
    ring.pop_up_to(400);
    assert_eq!(ring.runs().collect::<Vec<_>>(), [(401, RingEntry::message(2, 408), 592)]);
    assert!(ring.earlier.is_none());
}
