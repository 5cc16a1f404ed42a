//! Scheme 6: a wheel whose slots hold the timers of every turn.
//!
//! ```text
//!   now = 42: a timer is in the slot of its tick mod 8, of whatever turn
//!
//!      0    1    2    3    4    5    6    7
//!    [  ] [  ] [  ] [  ] [  ] [  ] [  ] [  ]
//!                ^    |         |
//!               now   v         v
//!                   [99]      [85]                    all of a slot are looked at, once a turn:
//!                     |         |                     at 43 these three, of which one is due
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
//! | per tick | n / slots on average, however they spread; O(n) if all are in one slot |
//! | memory | 24 bytes a timer and an `Option<T>`; 4 bytes and a bit a slot |
//! | horizon | none |
//! | precision | exact |
//! | wakes | at every slot that is not empty, due or not |
//! | bad when | timers run for many turns: one of `T` ticks is looked at `T / slots` times |

use super::arena::NIL;
use super::list::{Link, ListNode, pass};
use super::slots::Slots;
use super::timers::{Scheme, Step, Timers, timer_queue};
use super::turn::Turn;
use crate::{Ring, Tick, Work};

/// Scheme 6: a wheel of one tick a slot, in which a timer of any later turn waits in the slot of its tick's low bits, and is
/// looked at once a turn. So are the callouts of BSD since A. Costello's redesign, and Netty's `HashedWheelTimer`.
/// [The module](self) has its picture, source, costs and limits.
///
/// Timers are compared with the clock, not counted down. Empty slots are skipped by a bitmap. Driven further than a turn
/// at once, the wheel goes around once, and where that finds nothing due, straight to the earliest timer: nothing else
/// would end a drive from tick 0 to `u64::MAX`.
pub struct HashedUnsortedWheel<T>(pub(super) Timers<HashedUnsorted, T>);

impl<T> HashedUnsortedWheel<T> {
    /// An empty wheel that stands at `now`, of `slots` slots, rounded up to a power of two of at least 2.
    ///
    /// # Panics
    ///
    /// If there are to be more than 2^31 slots.
    #[must_use]
    pub fn new(now: Tick, slots: usize) -> Self {
        let slots = Slots::new(slots.next_power_of_two().max(2));
        HashedUnsortedWheel(Timers::new(now, HashedUnsorted { slots, cursor: NIL, turn: Turn::new(now.0) }))
    }
}

timer_queue!(HashedUnsortedWheel);

pub(super) struct HashedUnsorted {
    slots: Slots,
    /// The node to look at next in the slot of the present tick. What is scheduled meanwhile goes to the front, out of its
    /// way.
    cursor: u32,
    turn: Turn,
}

impl HashedUnsorted {
    /// When the next slot comes that has timers in it.
    fn next_slot(&self, now: Tick) -> Option<Tick> {
        let ahead = self.slots.ahead_to_occupied(self.slots.hash(now))?;
        now.0.checked_add(ahead as u64).map(Tick)
    }
}

impl Scheme for HashedUnsorted {
    type Link = Link;

    fn link(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        let due = nodes[index as usize].due;
        self.turn.saw(due.0);
        self.slots.push_front(nodes, self.slots.hash(due), index);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        if self.cursor == index {
            self.cursor = nodes[index as usize].link.next;
        }
        self.slots.unlink(nodes, index);
    }

    fn advance(&mut self, nodes: &mut [ListNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
        loop {
            let saw = |due: Tick| self.turn.saw(due.0);
            if let Some(step) = pass(nodes, &mut self.cursor, *now, work, saw) {
                if let Step::Due(index) = step {
                    self.slots.unlink(nodes, index);
                }
                return step;
            }
            if let Some(next) = self.turn.skip(now.0, until.0, self.slots.lists.len() as u64) {
                *now = Tick(next - 1);
            }
            match self.next_slot(*now) {
                Some(tick) if tick <= until => *now = tick,
                _ => return Step::UpToDate,
            }
            self.cursor = self.slots.lists[self.slots.hash(*now)].first;
        }
    }

    fn next_wakeup(&self, _nodes: &[ListNode], now: Tick) -> Option<Tick> {
        if self.cursor != NIL { Some(now) } else { self.next_slot(now) }
    }

    fn ring(&self, now: Tick, ring: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        self.slots.ring(ring, self.slots.hash(now), 1, held)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let mut all = alloc::vec::Vec::new();
        for (slot, held) in self.slots.check(nodes) {
            let seen = held.iter().take_while(|&&index| index != self.cursor).count();
            for (position, &index) in held.iter().enumerate() {
                let due = nodes[index as usize].due;
                assert_eq!(self.slots.hash(due), slot, "slot of {due}");
                assert!(due > now || due == now && position >= seen, "{due} was passed over at {now}");
            }
            all.extend(held);
        }
        assert!(self.cursor == NIL || nodes[self.cursor as usize].link.list as usize == self.slots.hash(now));
        all
    }
}
