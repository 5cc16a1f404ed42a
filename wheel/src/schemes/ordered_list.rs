//! Scheme 2: one list in the order of deadlines.
//!
//! ```text
//!                                           a new timer, 45, looks for
//!                                           its place from the rear
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
//! | source | Varghese & Lauck 1997, section III-B, *Scheme 2: Ordered List*; VMS and UNIX had such |
//! | start | O(n); O(1) if all timers run equally long |
//! | stop | O(1) |
//! | per tick | O(1), and what is due |
//! | memory | 24 bytes a timer and an `Option<T>` |
//! | horizon | none |
//! | precision | exact |
//! | wakes | when a timer is due |
//! | bad when | many timers are outstanding that run for different times |

use super::list::{Link, List, ListNode};
use super::timers::{Scheme, Step, Timers, timer_queue};
use crate::{Tick, Work};

/// Scheme 2: a list in the order of deadlines, searched from the rear. [The module](self) has its picture, source, costs and
/// limits.
///
/// With times of an exponential distribution, a search passes a third of the list on average (Reeves 1984, as the paper
/// quotes it). Timers of one tick come out in the order in which they were scheduled.
pub struct OrderedList<T>(pub(super) Timers<Ordered, T>);

impl<T> OrderedList<T> {
    /// An empty list that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        OrderedList(Timers::new(now, Ordered { list: List::EMPTY }))
    }
}

timer_queue!(OrderedList);

pub(super) struct Ordered {
    list: List,
}

impl Scheme for Ordered {
    type Link = Link;

    fn link(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.list.insert_sorted(nodes, index);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.list.unlink(nodes, index);
    }

    fn advance(&mut self, nodes: &mut [ListNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
        let Some(due) = self.list.first_due(nodes).filter(|&due| due <= until) else { return Step::UpToDate };
        if !work.spend() {
            return Step::OutOfWork;
        }
        *now = due;
        let index = self.list.first;
        self.list.unlink(nodes, index);
        Step::Due(index)
    }

    fn next_wakeup(&self, nodes: &[ListNode], _now: Tick) -> Option<Tick> {
        self.list.first_due(nodes)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let held = self.list.check_sorted(nodes);
        assert!(self.list.first_due(nodes).is_none_or(|due| due >= now), "nothing is left behind");
        held
    }
}
