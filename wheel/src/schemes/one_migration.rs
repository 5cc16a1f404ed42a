//! Scheme 7 with one migration: a compromise between cascading and non-cascading wheels.
//!
//! ```text
//!   now = 1000         the timer for 1010     for 1300              for 70,000
//!
//!   level 2, slots                                                  65,536 .. 131,071
//!    of 65,536 ticks                                                   | at 65,536
//!                                                                      v
//!   level 1, slots                            1280 .. 1535          70,144 .. 70,399
//!    of 256 ticks                                | at 1280             | at 70,144
//!                                                v                     |
//!   level 0, slots     1010                   1300                     |
//!    of 1 tick           | at 1010               | at 1300             |
//!                        v                       v                     v
//!                       due                     due              due, 144 late
//!
//!   8 levels of 256 slots: all of u64
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, end of section VI-B, which allows "just one migration between adjacent lists" |
//! | start | O(1) |
//! | stop | O(1) |
//! | per tick | O(1) on average, because a timer moves at most once; O(n) when a slot with all timers begins |
//! | memory | 24 bytes and an `Option<T>` per timer; 8.3 KiB |
//! | horizon | none |
//! | precision | exact up to 65,279 ticks ahead, then late by less than 1/255 of the ticks ahead |
//! | wakes | at every occupied slot of any level |
//! | bad when | distant timers must be exact |

use super::hierarchical::{Wheels, place};
use super::list::{ListLink, ListNode};
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{SlotRing, Tick, WorkBudget};

/// Scheme 7 with a single migration: the wheels of [`HierarchicalWheel`](super::HierarchicalWheel), in which
/// a timer moves down only once and expires when the slot that it moved to begins. See the [module
/// documentation](self).
///
/// When the slot of a timer begins, the timer moves to the first slot that begins at or after its deadline,
/// on the lowest level that reaches the deadline, which is at least one level down. The timer therefore never
/// expires early.
pub struct OneMigrationWheel<T>(pub(super) SchemeTimers<OneMigration, T>);

impl<T> OneMigrationWheel<T> {
    /// Creates an empty wheel at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        OneMigrationWheel(SchemeTimers::new(now, OneMigration { wheels: Wheels::new() }))
    }
}

timer_queue!(OneMigrationWheel);

/// Wheels whose slots hold both timers that move when their slot begins, because they are due later, and
/// timers that expire when it begins.
pub(super) struct OneMigration {
    wheels: Wheels,
}

/// Returns the level and number of the slot from which a timer expires after its migration.
fn last_place(now: Tick, due: Tick) -> (u32, u64) {
    let level = (due.0 - now.0).ilog2() / 8;
    let number = Wheels::number_from(level, due);
    // Use the next level for a slot that is a whole revolution ahead, because it has the same index as the
    // current slot.
    if number - Wheels::number(level, now) < Wheels::SLOTS {
        return (level, number);
    }
    (level + 1, Wheels::number_from(level + 1, due))
}

impl TimerScheme for OneMigration {
    type Link = ListLink;

    fn precision(&self, ahead: u64) -> u64 {
        let level = ahead.max(1).ilog2() / 8;
        // Use the next level if a timer scheduled in the middle of a slot may span a whole revolution.
        let next = Wheels::number(level, Tick(ahead)) + 1 >= Wheels::SLOTS;
        match (level + u32::from(next)).min(7) {
            0 => 0,
            level => (1 << ((level - 1) * 8)) - 1,
        }
    }

    fn link(&mut self, nodes: &mut [ListNode], now: Tick, index: u32) {
        let (level, number) = place(now, nodes[index as usize].due);
        self.wheels.link(nodes, index, level, number);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.wheels.unlink(nodes, index);
    }

    fn advance(
        &mut self,
        nodes: &mut [ListNode],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep {
        self.wheels.advance(nodes, now, until, work, last_place)
    }

    fn next_wakeup(&self, _nodes: &[ListNode], now: Tick) -> Option<Tick> {
        self.wheels.next_event(now).map(|event| event.tick)
    }

    fn levels(&self) -> usize {
        self.wheels.lens.len()
    }

    fn occupancy(&self, level: usize) -> Option<usize> {
        Some(self.wheels.lens[level])
    }

    fn ring(&self, now: Tick, ring: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.wheels.ring(now, ring, counts)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        self.wheels.check(nodes, now, |_, _| true)
    }
}
