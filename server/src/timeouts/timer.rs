use std::sync::Arc;

use super::TimerCell;

/// A timer: that of a session, which lies in a [table](super::slots::SlotTimers) by the session's slot, or one that its owner has by itself, as `T`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer<T = Arc<TimerCell>> {
    /// Of whichever session is in this slot. It has several deadlines; the timer is for the earliest.
    OfSlot(u32),
    Own(T),
}

/// A timer, for a look.
pub(crate) type TimerRef<'a> = Timer<&'a Arc<TimerCell>>;

impl TimerRef<'_> {
    /// To pass it on.
    pub(super) fn to_timer(self) -> Timer {
        match self {
            Self::OfSlot(slot) => Timer::OfSlot(slot),
            Self::Own(timer) => Timer::Own(Arc::clone(timer)),
        }
    }
}

impl<'a> From<&'a Arc<TimerCell>> for TimerRef<'a> {
    fn from(timer: &'a Arc<TimerCell>) -> Self {
        Self::Own(timer)
    }
}

impl<'a> From<&'a Timer> for TimerRef<'a> {
    fn from(timer: &'a Timer) -> Self {
        match timer {
            Timer::OfSlot(slot) => Self::OfSlot(*slot),
            Timer::Own(timer) => Self::Own(timer),
        }
    }
}

#[cfg(test)]
impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OfSlot(one), Self::OfSlot(other)) => one == other,
            (Self::Own(one), Self::Own(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}
