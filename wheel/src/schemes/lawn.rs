//! Timer Lawn: one queue per duration (TTL).
//!
//! ```text
//!   now = 300
//!
//!   TTL 100 --> [ 310 ] <--> [ 344 ] <--> [ 398 ]     the order of starting is the order
//!   TTL 300 --> [ 330 ] <--> [ 590 ]                  of deadlines: nothing is sorted
//!   TTL 999 --> [ 702 ]
//!                  ^
//!                  |
//!   whenever a timer is due, the first of every queue is examined
//! ```
//!
//! | | |
//! |---|---|
//! | source | A. Lev-Libfeld, *Timer Lawn: Unbound Low Latency Timer Data Structure for Large Scale, High Throughput Systems*, 2019, section III |
//! | start | O(log t) with t different TTLs; O(1) if t is small |
//! | stop | O(1); O(log t) for the last timer of its TTL |
//! | per tick | O(1) if nothing is due, otherwise O(t), plus the due timers |
//! | memory | 24 bytes and an `Option<T>` per timer; about 50 bytes per TTL |
//! | horizon | none |
//! | precision | exact |
//! | wakes | when a timer is due, or a cancelled timer would have been due |
//! | bad when | there are many TTLs: with one per timer, as for random deadlines, it is worse than Scheme 1 |

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::list::{List, ListLink, ListNode};
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{Tick, WorkBudget};

/// Timer Lawn: one queue per TTL, the number of ticks from scheduling to deadline. Timers of one TTL become
/// due in the order in which they were scheduled, so nothing is ever sorted. See the [module
/// documentation](self).
///
/// **Many TTLs are its weakness**: whenever a timer is due, the first of every queue is examined. With one
/// TTL per timer, as for random deadlines, it is worse than [`UnorderedList`](super::UnorderedList).
///
/// The paper finds the queue of a TTL in a hash table. This implementation uses a B-tree, which is a single
/// small node for the few TTLs that the scheme is designed for.
pub struct Lawn<T>(pub(super) SchemeTimers<TtlQueues, T>);

impl<T> Lawn<T> {
    /// Creates an empty lawn at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        Lawn(SchemeTimers::new(
            now,
            TtlQueues {
                by_ttl: BTreeMap::new(),
                queues_by_index: Vec::new(),
                unused: Vec::new(),
                active: Vec::new(),
                unexamined: 0,
                earliest: Tick::MAX,
            },
        ))
    }
}

timer_queue!(Lawn);

struct TtlQueue {
    ttl: u64,
    timers: List,
    position: usize,
}

pub(super) struct TtlQueues {
    by_ttl: BTreeMap<u64, u32>,
    /// All queues, indexed by the `list` of their nodes.
    queues_by_index: Vec<TtlQueue>,
    /// Indices of the empty queues.
    unused: Vec<u32>,
    /// Indices of the non-empty queues.
    active: Vec<u32>,
    /// Number of queues at the front of `active` that are still to be examined on the current tick.
    unexamined: usize,
    /// Lower bound on the deadlines of the timers examined or scheduled since the last scan began.
    earliest: Tick,
}

impl TtlQueues {
    fn get_or_create(&mut self, ttl: u64) -> u32 {
        let TtlQueues { queues_by_index, unused, active, .. } = self;
        *self.by_ttl.entry(ttl).or_insert_with(|| {
            let queue = TtlQueue { ttl, timers: List::EMPTY, position: active.len() };
            let number =
                unused.pop().unwrap_or(u32::try_from(queues_by_index.len()).expect("no more than timers"));
            match queues_by_index.get_mut(number as usize) {
                Some(old) => *old = queue,
                None => queues_by_index.push(queue),
            }
            // Append the queue, so that it is not among the queues still to be examined on this tick: a timer
            // scheduled now is not due now.
            active.push(number);
            number
        })
    }

    #[cfg(test)]
    pub(super) fn queues(&self) -> usize {
        self.active.len()
    }

    fn remove_queue(&mut self, number: u32) {
        let TtlQueue { ttl, position, .. } = self.queues_by_index[number as usize];
        self.by_ttl.remove(&ttl);
        self.unused.push(number);
        // The last queue moves to the position of the removed queue. If the last queue has already been
        // examined on this tick, it may be examined again, which is harmless.
        self.active.swap_remove(position);
        if let Some(&moved) = self.active.get(position) {
            self.queues_by_index[moved as usize].position = position;
        }
        self.unexamined = self.unexamined.min(self.active.len());
        if self.active.is_empty() {
            self.earliest = Tick::MAX;
        }
    }
}

impl TimerScheme for TtlQueues {
    type Link = ListLink;

    fn link(&mut self, nodes: &mut [ListNode], now: Tick, index: u32) {
        let due = nodes[index as usize].due;
        let number = self.get_or_create(due.0 - now.0);
        nodes[index as usize].link.list = number;
        self.queues_by_index[number as usize].timers.push_back(nodes, index);
        self.earliest = self.earliest.min(due);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        let number = nodes[index as usize].link.list;
        let timers = &mut self.queues_by_index[number as usize].timers;
        timers.unlink(nodes, index);
        if timers.is_empty() {
            self.remove_queue(number);
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
            while self.unexamined > 0 {
                if !work.spend() {
                    return AdvanceStep::OutOfBudget;
                }
                let List { first } = self.queues_by_index[self.active[self.unexamined - 1] as usize].timers;
                let due = nodes[first as usize].due;
                if due <= *now {
                    self.unlink(nodes, *now, first);
                    return AdvanceStep::Due(first);
                }
                self.earliest = self.earliest.min(due);
                self.unexamined -= 1;
            }
            if self.active.is_empty() || self.earliest > until {
                return AdvanceStep::UpToDate;
            }
            *now = self.earliest;
            self.unexamined = self.active.len();
            self.earliest = Tick::MAX;
        }
    }

    fn next_wakeup(&self, _nodes: &[ListNode], now: Tick) -> Option<Tick> {
        if self.unexamined > 0 {
            return Some(now);
        }
        (!self.active.is_empty()).then_some(self.earliest)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> Vec<u32> {
        let mut all = Vec::new();
        assert_eq!(self.active.len(), self.by_ttl.len());
        assert_eq!(self.active.len() + self.unused.len(), self.queues_by_index.len());
        for (position, &number) in self.active.iter().enumerate() {
            let queue = &self.queues_by_index[number as usize];
            assert_eq!((queue.position, self.by_ttl[&queue.ttl]), (position, number));
            let held = queue.timers.check_sorted(nodes);
            let first = nodes[*held.first().expect("an active queue is not empty") as usize].due;
            assert!(
                first > now || first == now && position < self.unexamined,
                "{first} was skipped at {now}"
            );
            assert!(
                position < self.unexamined || self.earliest <= first,
                "{first} is before {}",
                self.earliest
            );
            assert!(held.iter().all(|&index| nodes[index as usize].link.list == number));
            all.extend(held);
        }
        all
    }
}
