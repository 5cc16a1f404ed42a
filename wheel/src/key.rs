//! The name of one scheduled timer, or of one owner of timers.

use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};

/// Names one timer of one [`TimingWheel`](crate::TimingWheel), from the moment it is scheduled until it
/// expires or is cancelled; or one owner of one [`Owners`](crate::Owners), with all its timers, until it is removed.
///
/// After that the key is stale: every call with it finds nothing. It never comes to name anything else,
/// because the memory it points at carries a generation that grows with each reuse, and is given up for good
/// when the generations run out. Keys of different wheels must not be mixed.
///
/// A key is 8 bytes, and so is an `Option<TimerKey>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerKey {
    pub(crate) index: u32,
    pub(crate) generation: NonZeroU32,
}

impl TimerKey {
    /// The key as a number below 2^63: it leaves a bit to whoever keeps it in a word.
    #[must_use]
    pub fn number(self) -> NonZeroU64 {
        // The generation of a key is odd, and no index is the largest.
        let number = u64::from(self.generation.get() >> 1) << 32 | u64::from(self.index);
        NonZeroU64::MIN.saturating_add(number)
    }

    /// The key with this [number](Self::number). A number that is no key's makes one that is stale.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it is taken apart")]
    pub fn of_number(number: NonZeroU64) -> Self {
        let number = number.get() - 1;
        let generation = NonZeroU32::MIN | ((number >> 32) as u32) << 1;
        Self { index: number as u32, generation }
    }
}

impl fmt::Debug for TimerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerKey({}v{})", self.index, self.generation)
    }
}
