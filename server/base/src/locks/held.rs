//! The locks that each thread holds, recorded in builds with debug assertions.

#[cfg(debug_assertions)]
use std::{cell::RefCell, panic::Location};

use super::level::Level;

#[cfg(debug_assertions)]
thread_local! {
    static HELD: RefCell<Vec<HeldLock>> = const { RefCell::new(Vec::new()) };
}

/// A held lock, and the code that took it.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct HeldLock {
    level: Level,
    taken_at: &'static Location<'static>,
}

/// Marks a lock as held by this thread until dropped. Empty in builds without debug assertions.
#[derive(Debug)]
pub(super) struct Held(#[cfg(debug_assertions)] HeldLock);

impl Held {
    /// Records a lock that the thread is about to take.
    ///
    /// # Panics
    /// If the order forbids it: `is_before` is false for a level that the thread holds and the new one.
    #[cfg(debug_assertions)]
    #[track_caller]
    pub(super) fn new(level: Level, is_before: fn(&Level, &Level) -> bool) -> Self {
        let new = HeldLock { level, taken_at: Location::caller() };
        let outer =
            HELD.with_borrow(|held| held.iter().copied().find(|lock| !is_before(&lock.level, &level)));
        if let Some(HeldLock { level: outer, taken_at }) = outer {
            panic!("takes {level:?} while holding {outer:?}, taken at {taken_at}");
        }
        HELD.with_borrow_mut(|held| held.push(new));
        Self(new)
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    pub(super) fn new(_: Level, _: fn(&Level, &Level) -> bool) -> Self {
        Self()
    }
}

#[cfg(debug_assertions)]
impl Drop for Held {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| {
            let index = held.iter().rposition(|lock| *lock == self.0).expect("the lock is held");
            held.swap_remove(index);
        });
    }
}
