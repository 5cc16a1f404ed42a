//! Reproducible random numbers.

use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;
use std::{env, eprintln};

/// Runs `test` with several fixed seeds and a random one, or only with `ENCKE_SEED` if that is set.
///
/// Prints each seed before its run, so the last one printed is the one that failed.
pub(super) fn with_seeds(test: impl Fn(&mut Random)) {
    let run = |seed: u64| {
        eprintln!("reproduce with ENCKE_SEED={seed}");
        test(&mut Random(seed));
    };
    if let Ok(seed) = env::var("ENCKE_SEED") {
        run(seed.parse().expect("ENCKE_SEED is a number"));
        return;
    }
    for seed in 0..super::size(2, 1) as u64 {
        run(seed);
    }
    run(RandomState::new().build_hasher().finish());
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a random number of ticks: often near the reach of a level, otherwise of any magnitude below
    /// `2^bits`.
    pub(super) fn ticks(&mut self, bits: u32) -> u64 {
        match self.below(4) {
            0 => self.below(4),
            1 => {
                let reach = 1 << (8 * (1 + self.below(u64::from(bits / 8).clamp(1, 7))));
                (reach + self.below(5)) - 2
            }
            _ => {
                let magnitude = self.below(u64::from(bits));
                self.below(1 << magnitude)
            }
        }
    }
}
