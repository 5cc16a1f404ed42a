//! The wheel of logic simulators: the present cycle in slots, the rest in a list.
//!
//! ```text
//!   cycle 3, of 8 slots; now = 26
//!
//!     24   25   26   27   28   29   30   31         overflow list: all later cycles, in no order
//!    [  ] [  ] [  ] [  ] [  ] [  ] [  ] [  ]        first --> [ 40 ] <--> [ 33 ] <--> [ 97 ]
//!                ^    |              |
//!               now   v              v              searched at 32: 33 is in the cycle that begins
//!                   [27]           [30]             then, and moves to its slot
//! ```
//!
//! | | |
//! |---|---|
//! | source | E. Ulrich 1965; S. Szygenda, C. Hemming and J. Hemphill 1971 (TEGAS-2); Varghese & Lauck 1997, section IV-B, figure 4 |
//! | start | O(1) |
//! | stop | O(1) |
//! | per tick | O(1) and a `slots`-th of the overflow list; O(n) where a cycle begins |
//! | memory | 24 bytes a timer and an `Option<T>`; 4 bytes and a bit a slot |
//! | horizon | none |
//! | precision | exact |
//! | wakes | at the next slot that is not empty, or else for the next cycle, while there is an overflow list |
//! | bad when | timers run for longer than a cycle; the later in the cycle, the more of them end up in the list, however near |

use super::arena::NIL;
use super::list::{Link, List, ListNode};
use super::slots::Slots;
use super::timers::{Scheme, Step, Timers, timer_queue};
use crate::{Ring, Tick, Work};

/// The timing wheel of logic simulation, from which the others grew: time goes in cycles; timers of the present cycle are in
/// slots of one tick, all others in one overflow list, which is searched at the beginning of each cycle for those that it
/// brings. [The module](self) has its picture, source, costs and limits.
///
/// This is TEGAS's wheel, which turns once a cycle; DECSIM's turns every half. That what is near may yet end up in the overflow
/// list is the weakness that led to Scheme 4.
///
/// Empty slots are skipped by a bitmap. Driven over several cycles at once, the wheel leaves out those that nothing was
/// scheduled for.
pub struct LogicSimulationWheel<T>(pub(super) Timers<LogicSimulation, T>);

impl<T> LogicSimulationWheel<T> {
    /// An empty wheel that stands at `now`, with cycles of `slots` ticks, rounded up to a power of two.
    ///
    /// # Panics
    ///
    /// If there are to be more than 2^31 slots.
    #[must_use]
    pub fn new(now: Tick, slots: usize) -> Self {
        let slots = Slots::new(slots.next_power_of_two());
        let shift = slots.lists.len().ilog2();
        LogicSimulationWheel(Timers::new(
            now,
            LogicSimulation {
                slots,
                shift,
                overflow: List::EMPTY,
                overflow_len: 0,
                len: 0,
                cursor: NIL,
                earliest: Tick::MAX,
            },
        ))
    }
}

timer_queue!(LogicSimulationWheel);

/// In the `list` of a node: it is in the overflow list.
const OVERFLOW: u32 = u32::MAX;

pub(super) struct LogicSimulation {
    /// The present cycle.
    slots: Slots,
    /// A cycle is `2^shift` ticks.
    shift: u32,
    overflow: List,
    overflow_len: usize,
    len: usize,
    /// At the beginning of a cycle, the node of the overflow list to look at next. What is scheduled meanwhile goes to the
    /// front, out of its way.
    cursor: u32,
    /// Nothing in the overflow list that was looked at or scheduled since the cycle began is due before.
    earliest: Tick,
}

impl LogicSimulation {
    fn cycle(&self, tick: Tick) -> u64 {
        tick.0 >> self.shift
    }

    fn unlink_overflow(&mut self, nodes: &mut [ListNode], index: u32) {
        if self.cursor == index {
            self.cursor = nodes[index as usize].link.next;
        }
        self.overflow.unlink(nodes, index);
        self.overflow_len -= 1;
    }

    /// The first tick of the cycle that has timers, from now on. The slots before are empty.
    fn next_in_cycle(&self, now: Tick) -> Option<Tick> {
        let slot = self.slots.next_occupied(self.slots.hash(now))?;
        Some(Tick((self.cycle(now) << self.shift) + slot as u64))
    }
}

impl Scheme for LogicSimulation {
    type Link = Link;

    fn link(&mut self, nodes: &mut [ListNode], now: Tick, index: u32) {
        let due = nodes[index as usize].due;
        self.len += 1;
        if self.cycle(due) == self.cycle(now) {
            self.slots.push_front(nodes, self.slots.hash(due), index);
        } else {
            nodes[index as usize].link.list = OVERFLOW;
            self.overflow.push_front(nodes, index);
            self.overflow_len += 1;
            self.earliest = self.earliest.min(due);
        }
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.len -= 1;
        if nodes[index as usize].link.list == OVERFLOW {
            self.unlink_overflow(nodes, index);
        } else {
            self.slots.unlink(nodes, index);
        }
    }

    fn advance(&mut self, nodes: &mut [ListNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
        loop {
            while self.cursor != NIL {
                if !work.spend() {
                    return Step::OutOfWork;
                }
                let index = self.cursor;
                let node = &nodes[index as usize];
                let due = node.due;
                if self.cycle(due) == self.cycle(*now) {
                    self.unlink_overflow(nodes, index);
                    self.slots.push_front(nodes, self.slots.hash(due), index);
                } else {
                    self.cursor = node.link.next;
                    self.earliest = self.earliest.min(due);
                }
            }
            if let Some(tick) = self.next_in_cycle(*now) {
                if tick > until {
                    return Step::UpToDate;
                }
                if !work.spend() {
                    return Step::OutOfWork;
                }
                *now = tick;
                let index = self.slots.lists[self.slots.hash(tick)].first;
                self.unlink(nodes, tick, index);
                return Step::Due(index);
            }
            let (cycle, last) = (self.cycle(*now), self.cycle(until));
            if cycle == last || self.overflow.is_empty() {
                return Step::UpToDate;
            }
            // One cycle after the other, if that is how it is driven.
            let next = self.cycle(self.earliest).clamp(cycle + 1, last);
            *now = Tick(next << self.shift);
            self.cursor = self.overflow.first;
            self.earliest = Tick::MAX;
        }
    }

    fn next_wakeup(&self, _nodes: &[ListNode], now: Tick) -> Option<Tick> {
        if self.cursor != NIL {
            return Some(now);
        }
        let next_cycle = || (!self.overflow.is_empty()).then(|| Tick((self.cycle(now) + 1) << self.shift));
        self.next_in_cycle(now).or_else(next_cycle)
    }

    fn levels(&self) -> usize {
        2
    }

    /// The slots, and the overflow list.
    fn occupancy(&self, level: usize) -> Option<usize> {
        Some([self.len - self.overflow_len, self.overflow_len][level])
    }

    /// The present cycle.
    fn ring(&self, now: Tick, ring: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        self.slots.ring(ring, self.slots.hash(now), 1, held)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let mut all = self.overflow.check(nodes);
        assert_eq!(all.len(), self.overflow_len);
        assert!(self.cursor == NIL || all.contains(&self.cursor), "the search goes on within the list");
        let seen = all.iter().take_while(|&&index| index != self.cursor).count();
        for (position, &index) in all.iter().enumerate() {
            let (due, list) = (nodes[index as usize].due, nodes[index as usize].link.list);
            assert_eq!(list, OVERFLOW, "node {index} knows where it is");
            assert!(self.cycle(due) > self.cycle(now) || due >= now && position >= seen, "{due} at {now}");
            assert!(position >= seen || self.earliest <= due, "{due} is before {}", self.earliest);
        }
        for (slot, held) in self.slots.check(nodes) {
            for &index in &held {
                let due = nodes[index as usize].due;
                assert!(due >= now && self.cycle(due) == self.cycle(now), "{due} at {now}");
                assert_eq!(self.slots.hash(due), slot, "slot of {due}");
            }
            all.extend(held);
        }
        all
    }
}
