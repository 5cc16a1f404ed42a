//! Scheme 7: wheels above wheels.

use super::hierarchy::Hierarchy;
use super::list::{Link, ListNode};
use super::timers::{Scheme, Step, Timers, timer_queue};
use crate::{Tick, Work};

/// Scheme 7 of Varghese & Lauck (section VI-B, *Exploiting Hierarchy*): 8 wheels of 256 slots, a slot of each as long as a
/// turn of the one below. When the wheels come to the beginning of a slot, the timers in it that are not due move down.
///
/// | | worst | mean |
/// |---|---|---|
/// | START | O(1) | O(1) |
/// | STOP | O(1) | O(1) |
/// | PER_TICK | O(n) | O(1); a timer moves 7 times at most |
///
/// 24 bytes a timer and an `Option<T>`, and 8.3 KiB. The slots are doubly linked lists, as everybody has them;
/// [`TimingWheel`](crate::TimingWheel) is the same scheme made for the caches of today.
///
/// The level is found from the number of ticks ahead, in constant time. Empty slots are skipped by bitmaps. It wants to be
/// woken at every slot that is not empty, of any level.
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

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        self.wheels.check(nodes, now, |due, begin| begin <= due)
    }
}
