//! The name of one scheduled timer, or of one owner of timers.

use core::fmt;
use core::num::NonZeroU32;

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

impl fmt::Debug for TimerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerKey({}v{})", self.index, self.generation)
    }
}
