//! Skipping revolutions of a wheel in which no timer is due.
//!
//! ```text
//!    start       start + slots                        earliest, or until
//!      |--- revolution ---|..... skipped revolutions ........|
//!         every timer is seen:
//!         the earliest seen is the earliest of all
//! ```
//!
//! | | |
//! |---|---|
//! | source | this crate; the wheels of the paper are driven tick by tick and never skip a revolution |
//! | costs | O(1) per timer examined or scheduled; one revolution without a due timer before any is skipped |
//! | memory | 16 bytes per wheel |
//! | limits | none |

/// The earliest timer that a hashed wheel has seen since a starting position.
///
/// A hashed wheel keeps the timers of all later revolutions in its slots, so it has to go around even if
/// nothing is due. After one revolution, each of its timers has been examined or scheduled since the start.
/// The earliest timer seen is therefore the earliest of all, and the wheel can go straight to it.
///
/// Positions are slot numbers, in the unit that the wheel uses.
#[derive(Debug)]
pub(super) struct Revolution {
    start: u64,
    earliest: u64,
}

impl Revolution {
    pub(super) const fn new(start: u64) -> Self {
        Revolution { start, earliest: u64::MAX }
    }

    pub(super) fn record(&mut self, position: u64) {
        self.earliest = self.earliest.min(position);
    }

    /// Returns the position to continue from if at least one revolution can be skipped on the way to `until`.
    /// Everything up to `position` must have been handled.
    pub(super) fn skip(&mut self, position: u64, until: u64, slots: u64) -> Option<u64> {
        if position - self.start < slots {
            return None;
        }
        let to = self.earliest.min(until);
        *self = Revolution::new(position);
        (to > position.saturating_add(slots)).then(|| {
            self.start = to - 1;
            to
        })
    }
}
