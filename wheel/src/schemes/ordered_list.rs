//! Scheme 2: one list, ordered by deadline.
//!
//! ```text
//!                                           a new timer, 45, is inserted
//!                                           by a search from the rear
//!                                                   |
//!                                                   v
//!  first --> [ 12 ] <--> [ 12 ] <--> [ 31 ] <--> [ 70 ] <-- last
//!               ^
//!               |
//!    every tick: is it due by now?
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section III-B, *Scheme 2: Ordered List*; used by VMS and UNIX |
//! | start | O(n); O(1) if all timers have the same duration |
//! | stop | O(1) |
//! | per tick | O(1), plus the due timers |
//! | memory | 24 bytes and an `Option<T>` per timer |
//! | horizon | none |
//! | precision | exact |
//! | wakes | when a timer is due |
//! | bad when | many timers of different durations are outstanding |

use super::list::{List, ListLink, ListNode};
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{Tick, WorkBudget};

/// Scheme 2: a list ordered by deadline and searched from the rear. See the [module documentation](self).
///
/// For exponentially distributed durations, a search passes a third of the list on average (Reeves 1984,
/// quoted in the paper). Timers of one tick expire in the order in which they were scheduled.
pub struct OrderedList<T>(pub(super) SchemeTimers<Ordered, T>);

impl<T> OrderedList<T> {
    /// Creates an empty list at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        OrderedList(SchemeTimers::new(now, Ordered { list: List::EMPTY }))
    }
}

timer_queue!(OrderedList);

pub(super) struct Ordered {
    list: List,
}

impl TimerScheme for Ordered {
    type Link = ListLink;

    fn link(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.list.insert_sorted(nodes, index);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.list.unlink(nodes, index);
    }

    fn advance(
        &mut self,
        nodes: &mut [ListNode],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep {
        let Some(due) = self.list.first_due(nodes).filter(|&due| due <= until) else {
            return AdvanceStep::UpToDate;
        };
        if !work.spend() {
            return AdvanceStep::OutOfBudget;
        }
        *now = due;
        let index = self.list.first;
        self.list.unlink(nodes, index);
        AdvanceStep::Due(index)
    }

    fn next_wakeup(&self, nodes: &[ListNode], _now: Tick) -> Option<Tick> {
        self.list.first_due(nodes)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let held = self.list.check_sorted(nodes);
        assert!(self.list.first_due(nodes).is_none_or(|due| due >= now), "a timer was skipped");
        held
    }
}
