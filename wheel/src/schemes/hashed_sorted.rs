//! Scheme 5: a wheel whose slots hold the timers of every turn, in order.
//!
//! ```text
//!   now = 42: a timer is in the slot of its tick mod 8, of whatever turn
//!
//!      0    1    2    3    4    5    6    7
//!    [  ] [  ] [  ] [  ] [  ] [  ] [  ] [  ]
//!                ^    |         |
//!               now   v         v
//!                   [43]      [45]
//!                     |         |
//!                     v         v
//!                   [51]      [85]                    the first of a slot is its earliest:
//!                     |                               no other is looked at
//!                     v
//!                   [99]
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section VI-A.1, *Scheme 5: Hash Table with Sorted Lists*, figure 6 |
//! | start | O(n); O(1) on average if there are no more timers than slots, and they spread |
//! | stop | O(1) |
//! | per tick | O(1), and what is due |
//! | memory | 24 bytes a timer and an `Option<T>`; 4 bytes and a bit a slot |
//! | horizon | none |
//! | precision | exact |
//! | wakes | at every slot that is not empty, due or not |
//! | bad when | there are many more timers than slots, or many in one slot |

use super::list::{Link, ListNode};
use super::slots::Slots;
use super::timers::{Scheme, Step, Timers, timer_queue};
use super::turn::Turn;
use crate::{Ring, Tick, Work};

/// Scheme 5: a wheel of one tick a slot, in which a timer of any later turn waits in the slot of its tick's low bits, each
/// slot an [`OrderedList`](super::OrderedList). [The module](self) has its picture, source, costs and limits.
///
/// Empty slots are skipped by a bitmap. Driven further than a turn at once, the wheel goes around once, and where that
/// finds nothing due, straight to the earliest timer.
pub struct HashedSortedWheel<T>(pub(super) Timers<HashedSorted, T>);

impl<T> HashedSortedWheel<T> {
    /// An empty wheel that stands at `now`, of `slots` slots, rounded up to a power of two of at least 2.
    ///
    /// # Panics
    ///
    /// If there are to be more than 2^31 slots.
    #[must_use]
    pub fn new(now: Tick, slots: usize) -> Self {
        let slots = Slots::new(slots.next_power_of_two().max(2));
        HashedSortedWheel(Timers::new(now, HashedSorted { slots, turn: Turn::new(now.0) }))
    }
}

timer_queue!(HashedSortedWheel);

pub(super) struct HashedSorted {
    slots: Slots,
    turn: Turn,
}

impl HashedSorted {
    /// The first timer of the slot of `tick`, if it is due by then.
    fn due_at(&self, nodes: &[ListNode], tick: Tick) -> Option<u32> {
        let list = self.slots.lists[self.slots.hash(tick)];
        list.first_due(nodes).filter(|&due| due <= tick).map(|_| list.first)
    }

    /// When the next slot comes that has timers in it.
    fn next_slot(&self, now: Tick) -> Option<Tick> {
        let ahead = self.slots.ahead_to_occupied(self.slots.hash(now))?;
        now.0.checked_add(ahead as u64).map(Tick)
    }
}

impl Scheme for HashedSorted {
    type Link = Link;

    fn link(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        let due = nodes[index as usize].due;
        self.turn.saw(due.0);
        self.slots.insert_sorted(nodes, self.slots.hash(due), index);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.slots.unlink(nodes, index);
    }

    fn advance(&mut self, nodes: &mut [ListNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
        loop {
            if let Some(index) = self.due_at(nodes, *now) {
                if !work.spend() {
                    return Step::OutOfWork;
                }
                self.slots.unlink(nodes, index);
                return Step::Due(index);
            }
            if let Some(due) = self.slots.lists[self.slots.hash(*now)].first_due(nodes) {
                self.turn.saw(due.0);
            }
            if let Some(next) = self.turn.skip(now.0, until.0, self.slots.lists.len() as u64) {
                *now = Tick(next - 1);
            }
            let Some(tick) = self.next_slot(*now).filter(|&tick| tick <= until) else {
                return Step::UpToDate;
            };
            // Whoever comes out pays when it does. A slot that was looked at for nothing is paid for here.
            let in_vain = self.due_at(nodes, tick).is_none();
            if work.left() == 0 || (in_vain && !work.spend()) {
                return Step::OutOfWork;
            }
            *now = tick;
        }
    }

    fn next_wakeup(&self, nodes: &[ListNode], now: Tick) -> Option<Tick> {
        if self.due_at(nodes, now).is_some() { Some(now) } else { self.next_slot(now) }
    }

    fn ring(&self, now: Tick, ring: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        self.slots.ring(ring, self.slots.hash(now), 1, held)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let mut all = alloc::vec::Vec::new();
        for (slot, held) in self.slots.check(nodes) {
            assert_eq!(held, self.slots.lists[slot].check_sorted(nodes));
            for &index in &held {
                let due = nodes[index as usize].due;
                assert!(self.slots.hash(due) == slot && due >= now, "{due} in slot {slot} at {now}");
            }
            all.extend(held);
        }
        all
    }
}
