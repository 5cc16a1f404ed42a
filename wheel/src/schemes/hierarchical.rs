//! Scheme 7: a hierarchy of wheels.
//!
//! ```text
//!   now = 1000         the timer for 1010     for 1300              for 70,000
//!
//!   level 2, slots                                                  65,536 .. 131,071
//!    of 65,536 ticks                                                   | at 65,536
//!                                                                      v
//!   level 1, slots                            1280 .. 1535          69,888 .. 70,143
//!    of 256 ticks                                | at 1280             | at 69,888
//!                                                v                     v
//!   level 0, slots     1010                   1300                  70,000
//!    of 1 tick           | at 1010               | at 1300             | at 70,000
//!                        v                       v                     v
//!                       due                     due                   due
//!
//!   8 levels of 256 slots: all of u64
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section VI-B, *Extension 2: Exploiting Hierarchy*, figures 7 and 8 (Scheme 7) |
//! | start | O(1) |
//! | stop | O(1) |
//! | per tick | O(1) on average, because a timer moves at most 7 times; O(n) when a slot with all timers begins |
//! | memory | 24 bytes and an `Option<T>` per timer; 8.3 KiB |
//! | horizon | none |
//! | precision | exact |
//! | wakes | at every occupied slot of any level |
//! | bad when | the host should sleep while long timers run: it is woken to move them |

use super::hierarchy::Hierarchy;
use super::list::{ListLink, ListNode};
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{SlotRing, Tick, WorkBudget};

/// Scheme 7: 8 wheels of 256 slots, in which a slot of each wheel is as long as one revolution of the wheel
/// below. When a slot begins, the timers in it that are not due move down. See the [module
/// documentation](self).
///
/// The slots are doubly linked lists, as in most implementations. [`TimingWheel`](crate::TimingWheel) is the
/// same scheme with a data layout for current caches.
///
/// The level is computed from the number of ticks ahead, in constant time. Bitmaps skip empty slots.
pub struct HierarchicalWheel<T>(pub(super) SchemeTimers<Hierarchical, T>);

impl<T> HierarchicalWheel<T> {
    /// Creates an empty wheel at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        HierarchicalWheel(SchemeTimers::new(now, Hierarchical { wheels: Wheels::new() }))
    }
}

timer_queue!(HierarchicalWheel);

pub(super) type Wheels = Hierarchy<8, 8, 8>;

pub(super) struct Hierarchical {
    wheels: Wheels,
}

/// Returns the lowest level on which the slot of `due` is less than one revolution ahead, and the number of
/// that slot.
pub(super) fn place(now: Tick, due: Tick) -> (u32, u64) {
    let level = (due.0 - now.0).ilog2() / 8;
    // A span of fewer than 256^(level+1) ticks can still cross 256 slot boundaries if it begins in the middle
    // of a slot. It would then end in the slot of `now`, one revolution too early.
    let slots = Wheels::number(level, due) - Wheels::number(level, now);
    let level = level + u32::from(slots >= Wheels::SLOTS);
    (level, Wheels::number(level, due))
}

impl TimerScheme for Hierarchical {
    type Link = ListLink;

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
        self.wheels.advance(nodes, now, until, work, place)
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
        self.wheels.check(nodes, now, |due, begin| begin <= due)
    }
}
