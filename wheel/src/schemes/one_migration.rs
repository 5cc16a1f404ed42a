//! Scheme 7 with one migration: between exact and non-cascading.

use super::hierarchical::{Wheels, place};
use super::list::{Link, ListNode};
use super::timers::{Scheme, Step, Timers, timer_queue};
use crate::{Tick, Work};

/// Scheme 7 of Varghese & Lauck with a single migration (end of section VI-B): the wheels of
/// [`HierarchicalWheel`](super::HierarchicalWheel), in which a timer moves down once, and then comes out when the slot that
/// it moved to begins.
///
/// | | worst | mean |
/// |---|---|---|
/// | START | O(1) | O(1) |
/// | STOP | O(1) | O(1) |
/// | PER_TICK | O(n) | O(1); a timer moves once at most |
///
/// 24 bytes a timer and an `Option<T>`, and 8.3 KiB.
///
/// When the slot of a timer begins, it moves to the first slot that begins at its deadline or later, on the lowest level
/// that reaches so far: at least one level down. So it never is early; up to 65,279 ticks ahead it is exact; and further
/// ahead it is late by less than 1/255 of the ticks it was scheduled ahead. It wants to be woken at every slot that is not
/// empty, of any level.
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

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        self.wheels.check(nodes, now, |_, _| true)
    }
}
