//! Timer Lawn: a queue for every length of time.
//!
//! ```text
//!   now = 300
//!
//!   TTL 100 --> [ 310 ] <--> [ 344 ] <--> [ 398 ]     a queue is in the order of starting,
//!   TTL 300 --> [ 330 ] <--> [ 590 ]                  which is that of deadlines: nothing is sorted
//!   TTL 999 --> [ 702 ]
//!                  ^
//!                  |
//!   whenever a timer is due: the first of every queue is looked at
//! ```
//!
//! | | |
//! |---|---|
//! | source | A. Lev-Libfeld, *Timer Lawn: Unbound Low Latency Timer Data Structure for Large Scale, High Throughput Systems*, 2019, section III |
//! | start | O(log t) with t different TTLs; O(1) for few |
//! | stop | O(1); O(log t) for the last of its TTL |
//! | per tick | O(1) if nothing is due, else O(t), and what is due |
//! | memory | 24 bytes a timer and an `Option<T>`; some 50 bytes a TTL |
//! | horizon | none |
//! | precision | exact |
//! | wakes | when a timer is due, or was before it was cancelled |
//! | bad when | there are many TTLs: with as many as timers, as for deadlines at random, it is worse than Scheme 1 |

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::list::{Link, List, ListNode};
use super::timers::{Scheme, Step, Timers, timer_queue};
use crate::{Tick, Work};

/// Timer Lawn: a queue for every TTL, the number of ticks from scheduling to deadline. Timers of one TTL fall due in the order in
/// which they were scheduled, so nothing is ever sorted. [The module](self) has its picture, source, costs and limits.
///
/// **Many TTLs are its weakness**: whenever a timer is due, the first of every queue is looked at. With as many TTLs as
/// timers, as for deadlines at random, it is worse than [`UnorderedList`](super::UnorderedList).
///
/// The author finds the queue of a TTL in a hash table; this one in a B-tree, which is a single small node for as few TTLs
/// as the scheme is made for.
pub struct Lawn<T>(pub(super) Timers<Blades, T>);

impl<T> Lawn<T> {
    /// An empty lawn that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        Lawn(Timers::new(
            now,
            Blades {
                by_ttl: BTreeMap::new(),
                blades: Vec::new(),
                unused: Vec::new(),
                standing: Vec::new(),
                uncut: 0,
                closest: Tick::MAX,
            },
        ))
    }
}

timer_queue!(Lawn);

/// The queue of one TTL.
struct Blade {
    ttl: u64,
    timers: List,
    /// Where it is in `standing`.
    position: usize,
}

pub(super) struct Blades {
    /// Which of the blades has a TTL.
    by_ttl: BTreeMap<u64, u32>,
    /// Found by the `list` of their nodes.
    blades: Vec<Blade>,
    /// Which of the blades are empty.
    unused: Vec<u32>,
    /// Which of them are not.
    standing: Vec<u32>,
    /// How many of those that stand are still to be looked at on the present tick: the first ones.
    uncut: usize,
    /// Nothing that was looked at or scheduled since the last mowing began is due before.
    closest: Tick,
}

impl Blades {
    /// The blade of a TTL, new if there is none.
    fn grow(&mut self, ttl: u64) -> u32 {
        let Blades { blades, unused, standing, .. } = self;
        *self.by_ttl.entry(ttl).or_insert_with(|| {
            let blade = Blade { ttl, timers: List::EMPTY, position: standing.len() };
            let number = unused.pop().unwrap_or(u32::try_from(blades.len()).expect("no more than timers"));
            match blades.get_mut(number as usize) {
                Some(old) => *old = blade,
                None => blades.push(blade),
            }
            // Behind those that are looked at: what is scheduled now is not due now.
            standing.push(number);
            number
        })
    }

    /// How many TTLs there are.
    #[cfg(test)]
    pub(super) fn queues(&self) -> usize {
        self.standing.len()
    }

    /// Removes a blade that is empty.
    fn wither(&mut self, number: u32) {
        let Blade { ttl, position, .. } = self.blades[number as usize];
        self.by_ttl.remove(&ttl);
        self.unused.push(number);
        // The last one takes its place. If that one is done for this tick, it may be looked at again, to no harm.
        self.standing.swap_remove(position);
        if let Some(&moved) = self.standing.get(position) {
            self.blades[moved as usize].position = position;
        }
        self.uncut = self.uncut.min(self.standing.len());
        if self.standing.is_empty() {
            self.closest = Tick::MAX;
        }
    }
}

impl Scheme for Blades {
    type Link = Link;

    fn link(&mut self, nodes: &mut [ListNode], now: Tick, index: u32) {
        let due = nodes[index as usize].due;
        let number = self.grow(due.0 - now.0);
        nodes[index as usize].link.list = number;
        self.blades[number as usize].timers.push_back(nodes, index);
        self.closest = self.closest.min(due);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        let number = nodes[index as usize].link.list;
        let timers = &mut self.blades[number as usize].timers;
        timers.unlink(nodes, index);
        if timers.is_empty() {
            self.wither(number);
        }
    }

    fn advance(&mut self, nodes: &mut [ListNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
        loop {
            while self.uncut > 0 {
                if !work.spend() {
                    return Step::OutOfWork;
                }
                let List { first } = self.blades[self.standing[self.uncut - 1] as usize].timers;
                let due = nodes[first as usize].due;
                if due <= *now {
                    self.unlink(nodes, *now, first);
                    return Step::Due(first);
                }
                self.closest = self.closest.min(due);
                self.uncut -= 1;
            }
            if self.standing.is_empty() || self.closest > until {
                return Step::UpToDate;
            }
            *now = self.closest;
            self.uncut = self.standing.len();
            self.closest = Tick::MAX;
        }
    }

    fn next_wakeup(&self, _nodes: &[ListNode], now: Tick) -> Option<Tick> {
        if self.uncut > 0 {
            return Some(now);
        }
        (!self.standing.is_empty()).then_some(self.closest)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> Vec<u32> {
        let mut all = Vec::new();
        assert_eq!(self.standing.len(), self.by_ttl.len());
        assert_eq!(self.standing.len() + self.unused.len(), self.blades.len());
        for (position, &number) in self.standing.iter().enumerate() {
            let blade = &self.blades[number as usize];
            assert_eq!((blade.position, self.by_ttl[&blade.ttl]), (position, number));
            let held = blade.timers.check_sorted(nodes);
            let first = nodes[*held.first().expect("it stands") as usize].due;
            assert!(first > now || first == now && position < self.uncut, "{first} was passed over at {now}");
            assert!(position < self.uncut || self.closest <= first, "{first} is before {}", self.closest);
            assert!(held.iter().all(|&index| nodes[index as usize].link.list == number));
            all.extend(held);
        }
        all
    }
}
