//! Seeds of randomized tests.

use std::ops::Range;

/// Runs a test with each of the fixed seeds and one random seed, or only with the seed in `ENCKE_SEED`.
/// Prints each seed before running it, so the last one printed is the one that failed. Returns the number of
/// seeds.
pub fn with_seeds(fixed: Range<u64>, mut run: impl FnMut(u64)) -> usize {
    let seeds = from_environment().map_or_else(|| fixed.chain([rand::random()]).collect(), |seed| vec![seed]);
    for &seed in &seeds {
        print(seed);
        run(seed);
    }
    seeds.len()
}

/// Returns the seed in `ENCKE_SEED`, or else a random one, for a test that runs once. Prints the seed.
pub fn seed() -> u64 {
    let seed = from_environment().unwrap_or_else(rand::random);
    print(seed);
    seed
}

fn from_environment() -> Option<u64> {
    let seed = std::env::var("ENCKE_SEED").ok()?;
    Some(seed.parse().expect("ENCKE_SEED is a number"))
}

#[expect(clippy::print_stdout, reason = "shown when a test fails")]
fn print(seed: u64) {
    println!("ENCKE_SEED={seed}");
}
