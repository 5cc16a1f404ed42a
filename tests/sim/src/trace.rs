//! Trace of a run: a hash of every event, which identifies a replay, and the last events as text.

use std::collections::VecDeque;
use std::fmt::Arguments;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of lines kept.
const TAIL: usize = 120;

#[derive(Debug)]
pub(crate) struct Trace {
    hasher: DefaultHasher,
    /// The last events as text. `None` if the text is not needed.
    tail: Option<VecDeque<String>>,
}

impl Trace {
    pub(crate) fn new(in_words: bool) -> Self {
        Self { hasher: DefaultHasher::new(), tail: in_words.then(VecDeque::new) }
    }

    pub(crate) fn mix(&mut self, event: impl Hash) {
        event.hash(&mut self.hasher);
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

    pub(crate) fn finish(self) -> (u64, Vec<String>) {
        (self.hasher.finish(), self.tail.into_iter().flatten().collect())
    }
}
