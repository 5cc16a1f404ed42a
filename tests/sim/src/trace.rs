//! What happened: a hash of everything, by which a replay is known to be one, and the last lines in words.

use std::collections::VecDeque;
use std::fmt::Arguments;

/// Lines of the trace that are kept.
const TAIL: usize = 120;

#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    /// Kept only when someone will read it.
    tail: Option<VecDeque<String>>,
}

impl Trace {
    pub(crate) fn new(in_words: bool) -> Self {
        // The offset basis of FNV-1a, whose prime is below.
        Self { hash: 0xcbf2_9ce4_8422_2325, tail: in_words.then(VecDeque::new) }
    }

    /// Takes numbers into the hash.
    pub(crate) fn note(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.hash = (self.hash ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }

    /// Says what happened, if anyone will read it.
    pub(crate) fn say(&mut self, now: u64, words: Arguments<'_>) {
        if let Some(tail) = &mut self.tail {
            if tail.len() == TAIL {
                tail.pop_front();
            }
            #[expect(clippy::cast_precision_loss, reason = "for people")]
            let seconds = now as f64 / 1e9;
            tail.push_back(format!("{seconds:14.6} {words}"));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn tail(&self) -> impl Iterator<Item = &str> {
        self.tail.iter().flatten().map(String::as_str)
    }
}
