//! Scheme 5: a wheel whose slots hold the timers of all revolutions, in order.
//!
//! ```text
//!   now = 42: a timer of any revolution is in the slot of its tick mod 8
//!
//!      0    1    2    3    4    5    6    7
//!    [  ] [  ] [  ] [  ] [  ] [  ] [  ] [  ]
//!                ^    |         |
//!               now   v         v
//!                   [43]      [45]
//!                     |         |
//!                     v         v
//!                   [51]      [85]                    the first of a slot is its earliest:
//!                     |                               no other is examined
//!                     v
//!                   [99]
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section VI-A.1, *Scheme 5: Hash Table with Sorted Lists*, figure 6 |
//! | start | O(n); O(1) on average if there are no more timers than slots and they are spread evenly |
//! | stop | O(1) |
//! | per tick | O(1), plus the due timers |
//! | memory | 24 bytes and an `Option<T>` per timer; 4 bytes and one bit per slot |
//! | horizon | none |
//! | precision | exact |
//! | wakes | at every occupied slot, whether a timer is due or not |
//! | bad when | there are many more timers than slots, or many timers in one slot |

use super::list::{ListLink, ListNode};
use super::revolution::Revolution;
use super::slots::Slots;
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{SlotRing, Tick, WorkBudget};

/// Scheme 5: a wheel with slots of one tick, in which the slot of a timer is given by the low bits of its
/// tick, regardless of the revolution. Each slot is an [`OrderedList`](super::OrderedList). See the [module
/// documentation](self).
///
/// A bitmap skips empty slots. If the wheel is driven over more than one revolution in a single call, it
/// makes one revolution, and if nothing is due in it, goes straight to the earliest timer.
pub struct HashedSortedWheel<T>(pub(super) SchemeTimers<HashedSorted, T>);

impl<T> HashedSortedWheel<T> {
    /// Creates an empty wheel at tick `now` with `slots` slots, rounded up to a power of two of at least 2.
    ///
    /// # Panics
    ///
    /// Panics if the result is more than 2^31 slots.
    #[must_use]
    pub fn new(now: Tick, slots: usize) -> Self {
        let slots = Slots::new(slots.next_power_of_two().max(2));
        HashedSortedWheel(SchemeTimers::new(now, HashedSorted { slots, revolution: Revolution::new(now.0) }))
    }
}

timer_queue!(HashedSortedWheel);

pub(super) struct HashedSorted {
    slots: Slots,
    revolution: Revolution,
}

impl HashedSorted {
    fn due_at(&self, nodes: &[ListNode], tick: Tick) -> Option<u32> {
        let list = self.slots.lists[self.slots.hash(tick)];
        list.first_due(nodes).filter(|&due| due <= tick).map(|_| list.first)
    }

    fn next_slot(&self, now: Tick) -> Option<Tick> {
        let ahead = self.slots.ahead_to_occupied(self.slots.hash(now))?;
        now.0.checked_add(ahead as u64).map(Tick)
    }
}

impl TimerScheme for HashedSorted {
    type Link = ListLink;

    fn link(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        let due = nodes[index as usize].due;
        self.revolution.record(due.0);
        self.slots.insert_sorted(nodes, self.slots.hash(due), index);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.slots.unlink(nodes, index);
    }

    fn advance(
        &mut self,
        nodes: &mut [ListNode],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep {
        loop {
            if let Some(index) = self.due_at(nodes, *now) {
                if !work.spend() {
                    return AdvanceStep::OutOfBudget;
                }
                self.slots.unlink(nodes, index);
                return AdvanceStep::Due(index);
            }
            if let Some(due) = self.slots.lists[self.slots.hash(*now)].first_due(nodes) {
                self.revolution.record(due.0);
            }
            if let Some(next) = self.revolution.skip(now.0, until.0, self.slots.lists.len() as u64) {
                *now = Tick(next - 1);
            }
            let Some(tick) = self.next_slot(*now).filter(|&tick| tick <= until) else {
                return AdvanceStep::UpToDate;
            };
            // Charge the budget for a slot that is examined unnecessarily. An expiring timer is charged when
            // it is returned.
            let in_vain = self.due_at(nodes, tick).is_none();
            if work.remaining() == 0 || (in_vain && !work.spend()) {
                return AdvanceStep::OutOfBudget;
            }
            *now = tick;
        }
    }

    fn next_wakeup(&self, nodes: &[ListNode], now: Tick) -> Option<Tick> {
        if self.due_at(nodes, now).is_some() { Some(now) } else { self.next_slot(now) }
    }

    fn ring(&self, now: Tick, ring: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.slots.ring(ring, self.slots.hash(now), 1, counts)
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
