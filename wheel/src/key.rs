//! Keys of timers and owners.

use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};

/// Identifies one timer of a [`TimingWheel`](crate::TimingWheel), from scheduling until it expires or is
/// cancelled, or one owner of [`Owners`](crate::Owners) with all its timers, until it is removed.
///
/// After that the key is stale, and no call with it finds a timer. A key is never reassigned: its memory
/// carries a generation that increases with each reuse, and the memory is retired when the generations run
/// out. A key is only valid for the wheel that returned it.
///
/// A key takes 8 bytes, and so does an `Option<TimerKey>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerKey {
    pub(crate) index: u32,
    pub(crate) generation: NonZeroU32,
}

impl TimerKey {
    /// Converts the key to a number below 2^63, which leaves one bit of a `u64` for the caller's use.
    #[must_use]
    pub fn to_bits(self) -> NonZeroU64 {
        // The generation of a key is odd, so its low bit can be dropped. The largest index is never used, so
        // adding 1 keeps the number below 2^63.
        let number = u64::from(self.generation.get() >> 1) << 32 | u64::from(self.index);
        NonZeroU64::MIN.saturating_add(number)
    }

    /// Recreates a key from its [number](Self::to_bits). Made-up numbers yield stale keys.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the halves are separated")]
    pub fn from_bits(number: NonZeroU64) -> Self {
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
