//! The seeds of random tests.

/// Runs a test with each of these seeds and with a fresh one, or with that of `ENCKE_SEED` alone. The last that it prints is the one that fails.
pub(crate) fn with_seeds(fixed: std::ops::Range<u64>, mut run: impl FnMut(u64)) {
    let seeds = match std::env::var("ENCKE_SEED") {
        Ok(seed) => vec![seed.parse().expect("ENCKE_SEED is a number")],
        Err(_) => fixed.chain([rand::random()]).collect(),
    };
    for seed in seeds {
        println!("ENCKE_SEED={seed}");
        run(seed);
    }
}
