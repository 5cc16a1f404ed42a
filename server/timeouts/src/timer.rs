use std::sync::Arc;

use crate::timer_cell::TimerCell;

/// A timer: either a session's, stored by slot, or a standalone timer `T`.
#[derive(Clone, Copy, Debug)]
pub enum Timer<T = Arc<TimerCell>> {
    /// Timer of the session that occupies this slot. A session has several deadlines; its timer is armed for
    /// the earliest.
    Slot(u32),
    /// Timer of any other owner.
    Standalone(T),
}

/// Borrowed [`Timer`].
pub type TimerRef<'a> = Timer<&'a Arc<TimerCell>>;

impl TimerRef<'_> {
    /// Converts to an owned timer.
    pub(crate) fn to_timer(self) -> Timer {
        match self {
            Self::Slot(slot) => Timer::Slot(slot),
            Self::Standalone(timer) => Timer::Standalone(Arc::clone(timer)),
        }
    }
}

impl<'a> From<&'a Arc<TimerCell>> for TimerRef<'a> {
    fn from(timer: &'a Arc<TimerCell>) -> Self {
        Self::Standalone(timer)
    }
}

impl<'a> From<&'a Timer> for TimerRef<'a> {
    fn from(timer: &'a Timer) -> Self {
        match timer {
            Timer::Slot(slot) => Self::Slot(*slot),
            Timer::Standalone(timer) => Self::Standalone(timer),
        }
    }
}

#[cfg(test)]
impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Slot(one), Self::Slot(other)) => one == other,
            (Self::Standalone(one), Self::Standalone(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}
