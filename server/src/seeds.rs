//! Seeds of randomized tests.

/// Runs a test with each of these seeds and with a random one, or only with the seed in `ENCKE_SEED`. The
/// last seed printed is the one that failed.
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
