//! Scheme 1: one list in no order, all of it looked at on every tick.
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
//! | memory | 24 bytes a timer and an `Option<T>` |
//! | horizon | none |
//! | precision | exact |
//! | wakes | at every tick |
//! | bad when | timers wait for long: each costs something at every tick that it waits |

use super::arena::NIL;
use super::list::{Link, List, ListNode, pass};
use super::timers::{Scheme, Step, Timers, timer_queue};
use crate::{Tick, Work};

/// Scheme 1: every timer is looked at on every tick. [The module](self) has its picture, source, costs and limits.
///
/// Of its 24 bytes a timer 16 would do for the scheme, the rest makes keys that can be trusted and a STOP that need not search.
/// Timers are compared with the clock, not counted down.
///
/// Driven tick by tick, this is the scheme to the letter. Driven over many ticks at once, it makes one pass over the list
/// at each tick that something was scheduled for, and one at the last: a pass finds the earliest of what remains.
pub struct UnorderedList<T>(pub(super) Timers<Unordered, T>);

impl<T> UnorderedList<T> {
    /// An empty list that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        UnorderedList(Timers::new(now, Unordered { list: List::EMPTY, cursor: NIL, earliest: Tick::MAX }))
    }
}

timer_queue!(UnorderedList);

pub(super) struct Unordered {
    list: List,
    /// The node that the pass under way looks at next. What is scheduled meanwhile goes to the front, out of its way.
    cursor: u32,
    /// Nothing that was looked at or scheduled since the last pass began is due before.
    earliest: Tick,
}

impl Scheme for Unordered {
    type Link = Link;

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

    fn advance(&mut self, nodes: &mut [ListNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
        loop {
            let saw = |due| self.earliest = self.earliest.min(due);
            if let Some(step) = pass(nodes, &mut self.cursor, *now, work, saw) {
                if let Step::Due(index) = step {
                    self.list.unlink(nodes, index);
                }
                return step;
            }
            if *now == until || self.list.is_empty() {
                return Step::UpToDate;
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
        assert!(self.cursor == NIL || held.contains(&self.cursor), "the pass goes on within the list");
        let seen = held.iter().take_while(|&&index| index != self.cursor);
        for &index in seen {
            let due = nodes[index as usize].due;
            assert!(now < due && self.earliest <= due, "{due} was passed over at {now}");
        }
        held
    }
}
