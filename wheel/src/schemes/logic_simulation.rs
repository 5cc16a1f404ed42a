//! The wheel of logic simulators: the current cycle in slots, later cycles in a list.
//!
//! ```text
//!   cycle 3, of 8 slots; now = 26
//!
//!     24   25   26   27   28   29   30   31         overflow list: all later cycles, unordered
//!    [  ] [  ] [  ] [  ] [  ] [  ] [  ] [  ]        first --> [ 40 ] <--> [ 33 ] <--> [ 97 ]
//!                ^    |              |
//!               now   v              v              searched at 32: 33 is in the cycle that
//!                   [27]           [30]             begins, and moves to its slot
//! ```
//!
//! | | |
//! |---|---|
//! | source | E. Ulrich 1965; S. Szygenda, C. Hemming and J. Hemphill 1971 (TEGAS-2); Varghese & Lauck 1997, section IV-B, figure 4 |
//! | start | O(1) |
//! | stop | O(1) |
//! | per tick | O(1), plus 1/`slots` of the overflow list on average; O(n) where a cycle begins |
//! | memory | 24 bytes and an `Option<T>` per timer; 4 bytes and one bit per slot |
//! | horizon | none |
//! | precision | exact |
//! | wakes | at the next occupied slot; if all slots are empty, at the beginning of the next cycle while the overflow list is not empty |
//! | bad when | timers are longer than a cycle; late in a cycle, even near timers end up in the list |

use super::arena::NIL;
use super::list::{List, ListLink, ListNode};
use super::slots::Slots;
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{SlotRing, Tick, WorkBudget};

/// The timing wheel of logic simulation, the ancestor of the others. Time is divided into cycles. Timers of
/// the current cycle are in slots of one tick; all others are in one overflow list, which is searched at the
/// beginning of each cycle. See the [module documentation](self).
///
/// This is the wheel of TEGAS, which rotates once per cycle; the wheel of DECSIM rotates every half cycle.
/// Even near timers may end up in the overflow list, a weakness that led to Scheme 4.
///
/// A bitmap skips empty slots. If the wheel is driven over several cycles in a single call, it skips cycles
/// without timers.
pub struct LogicSimulationWheel<T>(pub(super) SchemeTimers<LogicSimulation, T>);

impl<T> LogicSimulationWheel<T> {
    /// Creates an empty wheel at tick `now` with cycles of `slots` ticks, rounded up to a power of two.
    ///
    /// # Panics
    ///
    /// Panics if the result is more than 2^31 slots.
    #[must_use]
    pub fn new(now: Tick, slots: usize) -> Self {
        let slots = Slots::new(slots.next_power_of_two());
        let shift = slots.lists.len().ilog2();
        LogicSimulationWheel(SchemeTimers::new(
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

/// Value of a node's `list` while it is in the overflow list.
const OVERFLOW: u32 = u32::MAX;

pub(super) struct LogicSimulation {
    slots: Slots,
    /// Binary logarithm of the length of a cycle in ticks.
    shift: u32,
    overflow: List,
    overflow_len: usize,
    len: usize,
    /// At the beginning of a cycle, the next node of the overflow list to be examined. A timer scheduled
    /// during the search is added at the front, which the search has already passed.
    cursor: u32,
    /// Lower bound on the deadlines of the timers in the overflow list that were examined or added since the
    /// cycle began.
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

    /// Returns the tick of the first occupied slot of the cycle at or after `now`. The slots before `now` are
    /// empty.
    fn next_in_cycle(&self, now: Tick) -> Option<Tick> {
        let slot = self.slots.next_occupied(self.slots.hash(now))?;
        Some(Tick((self.cycle(now) << self.shift) + slot as u64))
    }
}

impl TimerScheme for LogicSimulation {
    type Link = ListLink;

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

    fn advance(
        &mut self,
        nodes: &mut [ListNode],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep {
        loop {
            while self.cursor != NIL {
                if !work.spend() {
                    return AdvanceStep::OutOfBudget;
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
                    return AdvanceStep::UpToDate;
                }
                if !work.spend() {
                    return AdvanceStep::OutOfBudget;
                }
                *now = tick;
                let index = self.slots.lists[self.slots.hash(tick)].first;
                self.unlink(nodes, tick, index);
                return AdvanceStep::Due(index);
            }
            let (cycle, last) = (self.cycle(*now), self.cycle(until));
            if cycle == last || self.overflow.is_empty() {
                return AdvanceStep::UpToDate;
            }
            // Skip to the cycle of the earliest known timer, but not beyond `until`: if the caller drives one
            // cycle at a time, this advances one cycle at a time.
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

    /// Returns the number of timers in the slots (0) or in the overflow list (1).
    fn occupancy(&self, level: usize) -> Option<usize> {
        Some([self.len - self.overflow_len, self.overflow_len][level])
    }

    fn ring(&self, now: Tick, ring: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.slots.ring(ring, self.slots.hash(now), 1, counts)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let mut all = self.overflow.check(nodes);
        assert_eq!(all.len(), self.overflow_len);
        assert!(self.cursor == NIL || all.contains(&self.cursor), "the cursor is not in the list");
        let seen = all.iter().take_while(|&&index| index != self.cursor).count();
        for (position, &index) in all.iter().enumerate() {
            let (due, list) = (nodes[index as usize].due, nodes[index as usize].link.list);
            assert_eq!(list, OVERFLOW, "node {index} is not marked as in the overflow list");
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
