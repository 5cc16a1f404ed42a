//! Scheme 7 with one migration: between exact and non-cascading.
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
//! | per tick | O(1) on average, a timer moves once at most; O(n) if a slot with all of them begins |
//! | memory | 24 bytes a timer and an `Option<T>`; 8.3 KiB |
//! | horizon | none |
//! | precision | exact up to 65,279 ticks ahead, then late by less than 1/255 of the ticks ahead |
//! | wakes | at every slot that is not empty, of any level |
//! | bad when | what is far ahead must be exact |

use super::hierarchical::{Wheels, place};
use super::list::{Link, ListNode};
use super::timers::{Scheme, Step, Timers, timer_queue};
use crate::{Ring, Tick, Work};

/// Scheme 7 with a single migration: the wheels of [`HierarchicalWheel`](super::HierarchicalWheel), in which a timer moves down
/// once, and then comes out when the slot that it moved to begins. [The module](self) has its picture, source, costs and
/// limits.
///
/// When the slot of a timer begins, it moves to the first slot that begins at its deadline or later, on the lowest level
/// that reaches so far: at least one level down. So it never is early.
pub struct OneMigrationWheel<T>(pub(super) Timers<OneMigration, T>);

impl<T> OneMigrationWheel<T> {
    /// An empty wheel that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        OneMigrationWheel(Timers::new(now, OneMigration { wheels: Wheels::new() }))
    }
}

timer_queue!(OneMigrationWheel);

/// A slot holds both those timers that move on when it begins, because they are due later, and those that come out then.
pub(super) struct OneMigration {
    wheels: Wheels,
}

/// The level and the slot from which a timer that has moved comes out.
fn last_place(now: Tick, due: Tick) -> (u32, u64) {
    let level = (due.0 - now.0).ilog2() / 8;
    let number = Wheels::number_from(level, due);
    // A whole turn ahead is the slot where the wheel stands.
    if number - Wheels::number(level, now) < Wheels::SLOTS {
        return (level, number);
    }
    (level + 1, Wheels::number_from(level + 1, due))
}

impl Scheme for OneMigration {
    type Link = Link;

    fn precision(&self, ahead: u64) -> u64 {
        let level = ahead.max(1).ilog2() / 8;
        // Starting in the middle of a slot, it may reach over a turn of them.
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

    fn advance(&mut self, nodes: &mut [ListNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
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

    fn ring(&self, now: Tick, ring: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        self.wheels.ring(now, ring, held)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        self.wheels.check(nodes, now, |_, _| true)
    }
}
