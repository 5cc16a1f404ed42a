//! The seeds of random tests.

use std::ops::Range;

/// Runs a test with each of these seeds and with a fresh one, or with that of `ENCKE_SEED` alone. The last that it prints is the one that fails. Returns how many these were.
pub(super) fn with_seeds(fixed: Range<u64>, mut run: impl FnMut(u64)) -> usize {
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
