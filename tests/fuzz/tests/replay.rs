//! Runs every target on its corpus, and on random mutations of it.

use std::fs;
use std::path::Path;

use encke_seeds::with_seeds;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// Number of mutations per seed.
const MUTATIONS: usize = 300;
/// Maximum length of a range that a mutation replaces, and of the bytes that replace it.
const MAX_PIECE: usize = 24;

/// Runs a target. Prints each input before the run: the last one printed is the one that failed.
#[expect(clippy::print_stdout, reason = "shown when a test fails")]
fn replay(name: &str) {
    let target = encke_fuzz::target(name);
    let run = |input: &[u8]| {
        println!("b\"{}\"", input.escape_ascii());
        target(input);
    };
    let corpus = corpus(name);
    corpus.iter().for_each(|input| run(input));
    with_seeds(0..1, |seed| {
        let mut random = SmallRng::seed_from_u64(seed);
        for _ in 0..MUTATIONS {
            run(&mutated(&corpus, &mut random));
        }
    });
}

/// Reads all inputs of a target, in a fixed order.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = fs::read_dir(directory).expect("each target has a corpus");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable directory entry").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("a readable file")).collect()
}

/// Returns an input in which some ranges are replaced by parts of other inputs or by random bytes.
fn mutated(corpus: &[Vec<u8>], random: &mut SmallRng) -> Vec<u8> {
    let mut input = corpus.choose(random).expect("the corpus is not empty").clone();
    for _ in 0..random.random_range(1..=4) {
        let piece = if random.random() {
            let other = corpus.choose(random).expect("the corpus is not empty");
            other[random_range(other, random)].to_vec()
        } else {
            vec![random.random()]
        };
        input.splice(random_range(&input, random), piece);
    }
    input
}

fn random_range(bytes: &[u8], random: &mut SmallRng) -> std::ops::Range<usize> {
    let begin = random.random_range(0..=bytes.len());
    let longest = MAX_PIECE.min(bytes.len() - begin);
    begin..begin + random.random_range(0..=longest)
}

macro_rules! tests {
    ($($target:ident)*) => {$(
        #[test]
        fn $target() {
            replay(stringify!($target));
        }
    )*};
}

tests! { bayeux config frames headers http json jwt proxies snapshot tokens }
