//! Scheme 7: wheels above wheels.
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
//! | per tick | O(1) on average, a timer moves 7 times at most; O(n) if a slot with all of them begins |
//! | memory | 24 bytes a timer and an `Option<T>`; 8.3 KiB |
//! | horizon | none |
//! | precision | exact |
//! | wakes | at every slot that is not empty, of any level |
//! | bad when | the host should sleep while timers run for long: it is woken to move them |

use super::hierarchy::Hierarchy;
use super::list::{Link, ListNode};
use super::timers::{Scheme, Step, Timers, timer_queue};
use crate::{Ring, Tick, Work};

/// Scheme 7: 8 wheels of 256 slots, a slot of each as long as a turn of the one below. When the wheels come to the beginning of
/// a slot, the timers in it that are not due move down. [The module](self) has its picture, source, costs and limits.
///
/// The slots are doubly linked lists, as everybody has them; [`TimingWheel`](crate::TimingWheel) is the same scheme made for
/// the caches of today.
///
/// The level is found from the number of ticks ahead, in constant time. Empty slots are skipped by bitmaps.
pub struct HierarchicalWheel<T>(pub(super) Timers<Hierarchical, T>);

impl<T> HierarchicalWheel<T> {
    /// An empty wheel that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        HierarchicalWheel(Timers::new(now, Hierarchical { wheels: Wheels::new() }))
    }
}

timer_queue!(HierarchicalWheel);

/// A level for each byte of a tick.
pub(super) type Wheels = Hierarchy<8, 8, 8>;

pub(super) struct Hierarchical {
    wheels: Wheels,
}

/// The slot of `due` on the lowest level on which it is less than a turn ahead: the level, and its number there.
pub(super) fn place(now: Tick, due: Tick) -> (u32, u64) {
    let level = (due.0 - now.0).ilog2() / 8;
    // Fewer than 256^(level+1) ticks can still reach over 256 slot boundaries, when they start in the middle of a slot.
    // That would be the slot in which `now` lies, one turn too early.
    let slots = Wheels::number(level, due) - Wheels::number(level, now);
    let level = level + u32::from(slots >= Wheels::SLOTS);
    (level, Wheels::number(level, due))
}

impl Scheme for Hierarchical {
    type Link = Link;

    fn link(&mut self, nodes: &mut [ListNode], now: Tick, index: u32) {
        let (level, number) = place(now, nodes[index as usize].due);
        self.wheels.link(nodes, index, level, number);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.wheels.unlink(nodes, index);
    }

    fn advance(&mut self, nodes: &mut [ListNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
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

    fn ring(&self, now: Tick, ring: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        self.wheels.ring(now, ring, held)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        self.wheels.check(nodes, now, |due, begin| begin <= due)
    }
}
