//! Scheme 1: one unordered list, scanned on every tick.
//!
//! ```text
//!    a new timer
//!         |
//!         v
//!  first --> [ 31 ] <--> [ 70 ] <--> [ 12 ] <--> [ 31 ]
//!               ^           ^           ^           ^
//!               +-----------+-----+-----+-----------+
//!                                 |
//!                     every tick: is it due by now?
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section III-A, *Scheme 1: Straightforward* |
//! | start | O(1) |
//! | stop | O(1) |
//! | per tick | O(n) |
//! | memory | 24 bytes and an `Option<T>` per timer |
//! | horizon | none |
//! | precision | exact |
//! | wakes | at every tick |
//! | bad when | timers are long: each costs work on every tick until it expires |

use super::arena::NIL;
use super::list::{List, ListLink, ListNode, pass};
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{Tick, WorkBudget};

/// Scheme 1: every timer is examined on every tick. See the [module documentation](self).
///
/// The scheme itself needs 16 of the 24 bytes per timer. The others make keys reliable and allow STOP without
/// a search. Timers are compared with the clock rather than counted down.
///
/// Driven tick by tick, this is exactly the scheme of the paper. Driven over many ticks in a single call, it
/// makes one pass over the list at each tick for which a timer was scheduled, and one at the last tick: each
/// pass finds the earliest remaining timer.
pub struct UnorderedList<T>(pub(super) SchemeTimers<Unordered, T>);

impl<T> UnorderedList<T> {
    /// Creates an empty list at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        UnorderedList(SchemeTimers::new(
            now,
            Unordered { list: List::EMPTY, cursor: NIL, earliest: Tick::MAX },
        ))
    }
}

timer_queue!(UnorderedList);

pub(super) struct Unordered {
    list: List,
    /// Next node to be examined by the current pass. A timer scheduled during the pass is added at the front,
    /// which the pass has left behind.
    cursor: u32,
    /// Lower bound on the deadlines of the timers examined or scheduled since the last pass began.
    earliest: Tick,
}

impl TimerScheme for Unordered {
    type Link = ListLink;

    fn link(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.earliest = self.earliest.min(nodes[index as usize].due);
        self.list.push_front(nodes, index);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        if self.cursor == index {
            self.cursor = nodes[index as usize].link.next;
        }
        self.list.unlink(nodes, index);
    }

    fn advance(
        &mut self,
        nodes: &mut [ListNode],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep {
        loop {
            let record = |due| self.earliest = self.earliest.min(due);
            if let Some(step) = pass(nodes, &mut self.cursor, *now, work, record) {
                if let AdvanceStep::Due(index) = step {
                    self.list.unlink(nodes, index);
                }
                return step;
            }
            if *now == until || self.list.is_empty() {
                return AdvanceStep::UpToDate;
            }
            *now = self.earliest.max(now.saturating_add(1)).min(until);
            self.cursor = self.list.first;
            self.earliest = Tick::MAX;
        }
    }

    fn next_wakeup(&self, _nodes: &[ListNode], now: Tick) -> Option<Tick> {
        if self.cursor != NIL {
            return Some(now);
        }
        (!self.list.is_empty()).then(|| now.saturating_add(1))
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let held = self.list.check(nodes);
        assert!(self.cursor == NIL || held.contains(&self.cursor), "the cursor is not in the list");
        let seen = held.iter().take_while(|&&index| index != self.cursor);
        for &index in seen {
            let due = nodes[index as usize].due;
            assert!(now < due && self.earliest <= due, "{due} was skipped at {now}");
        }
        held
    }
}
