//! Trace of a run: a hash of every event, which identifies a replay, and the last events as text.

use std::collections::VecDeque;
use std::fmt::Arguments;

/// Number of lines kept.
const TAIL: usize = 120;

#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    /// The last events as text. `None` if the text is not needed.
    tail: Option<VecDeque<String>>,
}

impl Trace {
    pub(crate) fn new(in_words: bool) -> Self {
        // The offset basis of FNV-1a; its prime is below.
        Self { hash: 0xcbf2_9ce4_8422_2325, tail: in_words.then(VecDeque::new) }
    }

    /// Mixes numbers into the hash.
    pub(crate) fn mix(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.hash = (self.hash ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }

    /// Records an event as text, if the text is kept.
    pub(crate) fn log(&mut self, now: u64, words: Arguments<'_>) {
        if let Some(tail) = &mut self.tail {
            if tail.len() == TAIL {
                tail.pop_front();
            }
            #[expect(clippy::cast_precision_loss, reason = "for display only")]
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
