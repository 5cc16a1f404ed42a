//! Seeds of randomized tests.

use std::ops::Range;

/// Runs a test with each of the fixed seeds and one random seed, or only with the seed in `ENCKE_SEED`.
/// Prints each seed before running it, so the last one printed is the one that failed. Returns the number of
/// seeds.
#[expect(clippy::print_stdout, reason = "shown when a test fails")]
pub fn with_seeds(fixed: Range<u64>, mut run: impl FnMut(u64)) -> usize {
    let seeds = match std::env::var("ENCKE_SEED") {
        Ok(seed) => vec![seed.parse().expect("ENCKE_SEED is a number")],
        Err(_) => fixed.chain([rand::random()]).collect(),
    };
    for &seed in &seeds {
        println!("ENCKE_SEED={seed}");
        run(seed);
    }
    seeds.len()
}
