//! Scheme 6: a wheel whose slots hold the timers of all revolutions, unordered.
//!
//! ```text
//!   now = 42: a timer of any revolution is in the slot of its tick mod 8
//!
//!      0    1    2    3    4    5    6    7
//!    [  ] [  ] [  ] [  ] [  ] [  ] [  ] [  ]
//!                ^    |         |
//!               now   v         v
//!                   [99]      [85]                    a slot is scanned once per revolution:
//!                     |         |                     at 43 these three, one of which is due
//!                     v         v
//!                   [43]      [45]
//!                     |
//!                     v
//!                   [51]
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section VI-A.2, *Scheme 6: Hash Table with Unsorted Lists*, figure 6; A. Costello and G. Varghese for BSD, 1995; Netty |
//! | start | O(1) |
//! | stop | O(1) |
//! | per tick | n / slots on average for any distribution; O(n) if all timers are in one slot |
//! | memory | 24 bytes and an `Option<T>` per timer; 4 bytes and one bit per slot |
//! | horizon | none |
//! | precision | exact |
//! | wakes | at every occupied slot, whether a timer is due or not |
//! | bad when | timers last many revolutions: a timer of `T` ticks is examined `T / slots` times |

use super::arena::NIL;
use super::list::{ListLink, ListNode, pass};
use super::revolution::Revolution;
use super::slots::Slots;
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{SlotRing, Tick, WorkBudget};

/// Scheme 6: a wheel with slots of one tick, in which the slot of a timer is given by the low bits of its
/// tick, regardless of the revolution, and every timer in a slot is examined once per revolution. This scheme
/// is used for the BSD callouts since A. Costello's redesign and in Netty's `HashedWheelTimer`. See the
/// [module documentation](self).
///
/// Timers are compared with the clock rather than counted down. A bitmap skips empty slots. If the wheel is
/// driven over more than one revolution in a single call, it makes one revolution, and if nothing is due in
/// it, goes straight to the earliest timer. Otherwise a drive from tick 0 to `u64::MAX` would not terminate.
pub struct HashedUnsortedWheel<T>(pub(super) SchemeTimers<HashedUnsorted, T>);

impl<T> HashedUnsortedWheel<T> {
    /// Creates an empty wheel at tick `now` with `slots` slots, rounded up to a power of two of at least 2.
    ///
    /// # Panics
    ///
    /// Panics if the result is more than 2^31 slots.
    #[must_use]
    pub fn new(now: Tick, slots: usize) -> Self {
        let slots = Slots::new(slots.next_power_of_two().max(2));
        HashedUnsortedWheel(SchemeTimers::new(
            now,
            HashedUnsorted { slots, cursor: NIL, revolution: Revolution::new(now.0) },
        ))
    }
}

timer_queue!(HashedUnsortedWheel);

pub(super) struct HashedUnsorted {
    slots: Slots,
    /// Next node to be examined in the current slot. A timer scheduled during the scan is added at the front,
    /// which the scan has already passed.
    cursor: u32,
    revolution: Revolution,
}

impl HashedUnsorted {
    fn next_slot(&self, now: Tick) -> Option<Tick> {
        let ahead = self.slots.ahead_to_occupied(self.slots.hash(now))?;
        now.0.checked_add(ahead as u64).map(Tick)
    }
}

impl TimerScheme for HashedUnsorted {
    type Link = ListLink;

    fn link(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        let due = nodes[index as usize].due;
        self.revolution.record(due.0);
        self.slots.push_front(nodes, self.slots.hash(due), index);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        if self.cursor == index {
            self.cursor = nodes[index as usize].link.next;
        }
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
            let record = |due: Tick| self.revolution.record(due.0);
            if let Some(step) = pass(nodes, &mut self.cursor, *now, work, record) {
                if let AdvanceStep::Due(index) = step {
                    self.slots.unlink(nodes, index);
                }
                return step;
            }
            if let Some(next) = self.revolution.skip(now.0, until.0, self.slots.lists.len() as u64) {
                *now = Tick(next - 1);
            }
            match self.next_slot(*now) {
                Some(tick) if tick <= until => *now = tick,
                _ => return AdvanceStep::UpToDate,
            }
            self.cursor = self.slots.lists[self.slots.hash(*now)].first;
        }
    }

    fn next_wakeup(&self, _nodes: &[ListNode], now: Tick) -> Option<Tick> {
        if self.cursor != NIL { Some(now) } else { self.next_slot(now) }
    }

    fn ring(&self, now: Tick, ring: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.slots.ring(ring, self.slots.hash(now), 1, counts)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let mut all = alloc::vec::Vec::new();
        for (slot, held) in self.slots.check(nodes) {
            let seen = held.iter().take_while(|&&index| index != self.cursor).count();
            for (position, &index) in held.iter().enumerate() {
                let due = nodes[index as usize].due;
                assert_eq!(self.slots.hash(due), slot, "slot of {due}");
                assert!(due > now || due == now && position >= seen, "{due} was skipped at {now}");
            }
            all.extend(held);
        }
        assert!(self.cursor == NIL || nodes[self.cursor as usize].link.list as usize == self.slots.hash(now));
        all
    }
}
