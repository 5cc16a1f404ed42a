//! Runs against what they stand for: a list with an entry for each seq.
//!
//! `ENCKE_SEED=<n>` runs one seed; without it, a fixed range and one fresh seed.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

const STEPS: usize = 300;

/// The slow way.
struct Plain {
    entries: VecDeque<Entry>,
    dropped: u64,
}

impl Plain {
    fn last(&self) -> u64 {
        self.dropped + self.entries.len() as u64
    }

    fn get(&self, seq: u64) -> Option<Entry> {
        let index = usize::try_from(seq.checked_sub(self.dropped + 1)?).expect("small");
        self.entries.get(index).copied()
    }

    /// How many entries there are from `seq` on, of messages that follow each other in one subscription.
    fn rest_of_run(&self, seq: u64) -> Option<(Entry, u64)> {
        let first = self.get(seq)?;
        let follows = |count: &u64| {
            let next = Entry { offset: first.offset + count, ..first };
            first.span == 0 && self.get(seq + count) == Some(next)
        };
        Some((first, 1 + (1..).take_while(follows).count() as u64))
    }

    fn pop(&mut self) -> Option<(u64, Entry)> {
        let entry = self.entries.pop_front()?;
        self.dropped += 1;
        Some((self.dropped, entry))
    }
}

fn random_entry(rng: &mut SmallRng, newest: Option<Entry>) -> (Entry, u64) {
    let offset = newest.map_or(1, |newest| newest.last_offset() + 1);
    let slot = newest.map_or(0, |newest| newest.slot);
    match rng.random_range(0..10) {
        0 => (Entry::gap(slot, offset, offset + rng.random_range(0..3)), 1),
        1 => (Entry::unknown_gap(slot, offset), 1),
        2 => (Entry::message(rng.random_range(0..3), offset), rng.random_range(1..4)),
        3 => (Entry::message(slot, offset + 1), 1),
        _ => (Entry::message(slot, offset), rng.random_range(1..4)),
    }
}

fn run(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let dropped = rng.random_range(0..3);
    let mut ring = Ring::after(dropped, 32);
    let mut plain = Plain { entries: VecDeque::new(), dropped };
    for _ in 0..STEPS {
        match rng.random_range(0..10) {
            0..6 => {
                let (entry, count) = random_entry(&mut rng, plain.entries.back().copied());
                if ring.len() as u64 + count <= 32 {
                    ring.push(entry, count);
                    plain.entries.extend((0..count).map(|n| Entry { offset: entry.offset + n, ..entry }));
                }
            }
            6..9 => {
                let up_to = plain.dropped + rng.random_range(0..6);
                while let Some((seq, entry)) = ring.pop_up_to(up_to) {
                    let mut last = None;
                    while plain.dropped < seq {
                        last = plain.pop();
                    }
                    assert_eq!(last, Some((seq, entry)));
                }
                assert_eq!(plain.dropped, plain.last().min(up_to).max(plain.dropped));
            }
            _ if rng.random_bool(0.1) => {
                ring.clear();
                plain = Plain { entries: VecDeque::new(), dropped: plain.last() };
            }
            _ => {}
        }
        check(&ring, &plain);
    }
}

fn check(ring: &Ring, plain: &Plain) {
    assert_eq!((ring.dropped(), ring.last_seq()), (plain.dropped, plain.last()));
    assert_eq!((ring.len(), ring.is_full()), (plain.entries.len(), plain.entries.len() == 32));
    for seq in 0..=plain.last() + 1 {
        assert_eq!(ring.get(seq), plain.get(seq), "{seq}");
        assert_eq!(ring.rest_of_run(seq), plain.rest_of_run(seq), "{seq}");
    }
    for slot in 0..4 {
        assert_eq!(ring.has_any_of(slot), plain.entries.iter().any(|entry| entry.slot == slot));
    }
    let mut next = plain.dropped + 1;
    for (seq, entry, count) in ring.runs() {
        assert_eq!((seq, Some((entry, count))), (next, plain.rest_of_run(next)), "none can be longer");
        next += count;
    }
    assert_eq!(next, plain.last() + 1, "together they are all");
    let runs = ring.runs().count().saturating_sub(1);
    assert_eq!(
        ring.earlier.as_ref().map_or(0, |earlier| earlier.runs.len()),
        runs,
        "nothing is kept of what has gone"
    );
    assert!(ring.earlier.as_ref().is_none_or(|earlier| !earlier.runs.is_empty()));
}

#[test]
fn runs_say_what_a_list_of_all_entries_says() {
    let seeds = match std::env::var("ENCKE_SEED") {
        Ok(seed) => vec![seed.parse().expect("ENCKE_SEED is a number")],
        Err(_) => (0..500).chain([rand::random()]).collect(),
    };
    for seed in seeds {
        println!("ENCKE_SEED={seed}");
        run(seed);
    }
}

#[test]
fn a_stream_of_one_channel_is_one_run() {
    let mut ring = Ring::new(1024);
    for offset in 8..1000 {
        ring.push(Entry::message(2, offset), 1);
    }
    ring.pop_up_to(400);
    assert_eq!(ring.runs().collect::<Vec<_>>(), [(401, Entry::message(2, 408), 592)]);
    assert!(ring.earlier.is_none());
}
