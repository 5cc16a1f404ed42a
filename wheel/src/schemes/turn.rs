//! Leaving out turns of a wheel in which nothing is due.
//!
//! ```text
//!    start       start + slots                        earliest, or until
//!      |----- a turn -----|..... turns left out .............|
//!         all are seen:
//!         the earliest of them is the earliest of all
//! ```
//!
//! | | |
//! |---|---|
//! | source | of this crate: the paper's wheels are driven tick by tick, and go around whatever there is |
//! | costs | O(1) a timer that is looked at or scheduled; a turn in which nothing is due before any is left out |
//! | memory | 16 bytes a wheel |
//! | limits | none |

/// What a hashed wheel has seen since it began to count a turn.
///
/// Such a wheel keeps timers of every later turn in its slots, so it has to go around even where nothing is due. When it
/// has gone around once, each of its timers was either looked at in this turn or scheduled during it, and the earliest of
/// those is the earliest of all: from there on it can go straight to it.
///
/// Positions are whatever the wheel counts its slots in.
#[derive(Debug)]
pub(super) struct Turn {
    start: u64,
    earliest: u64,
}

impl Turn {
    pub(super) const fn new(start: u64) -> Self {
        Turn { start, earliest: u64::MAX }
    }

    /// A timer at `position` was looked at or scheduled.
    pub(super) fn saw(&mut self, position: u64) {
        self.earliest = self.earliest.min(position);
    }

    /// Called at `position`, when all up to it is done: where to go on if there is a turn or more to leave out on the way
    /// to `until`.
    pub(super) fn skip(&mut self, position: u64, until: u64, slots: u64) -> Option<u64> {
        if position - self.start < slots {
            return None;
        }
        let to = self.earliest.min(until);
        *self = Turn::new(position);
        (to > position.saturating_add(slots)).then(|| {
            self.start = to - 1;
            to
        })
    }
}
