//! Scheme 4: a wheel that reaches one turn ahead.
//!
//! ```text
//!   now = 42, at slot 2 of 8: what is due in i ticks goes to slot (2 + i) mod 8, for i up to 8
//!
//!      0    1    2    3    4    5    6    7
//!    [  ] [  ] [  ] [  ] [  ] [  ] [  ] [  ]          the timer for 51 is refused
//!      |         ^    |         |
//!      v        now   v         v
//!    [48]           [43]      [45]
//!                               |
//!                               v
//!                             [45]
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section V, *Scheme 4: Basic Scheme*, figure 5; D. Choi, *More Efficient Timer Implementation using TimerWheel*, NHN 2013 |
//! | start | O(1) |
//! | stop | O(1) |
//! | per tick | O(1), and what is due |
//! | memory | 24 bytes a timer and an `Option<T>`; 4 bytes and a bit a slot |
//! | horizon | a turn: `slots * width` ticks; what lies further ahead is refused |
//! | precision | `width - 1` ticks late at most; exact with slots of one tick |
//! | wakes | when a timer comes out |
//! | bad when | timers run for long: 1 h 23 min 15 s by the second take 4,995 slots |

use core::num::NonZeroU64;
use core::ops::RangeInclusive;

use super::list::{Link, ListNode};
use super::slots::Slots;
use super::timers::{Scheme, Step, Timers, latest_or_first, timer_queue};
use crate::{Ring, Tick, Work};

/// Scheme 4, the timing wheel itself: a slot for every tick up to MaxInterval, around and around. [The module](self) has its
/// picture, source, costs and limits.
///
/// Slots may be wider than one tick, as in NHN's Comet server: 7 slots of 50 ms take 350 ms and refuse 351. There a
/// timer goes to slot `(current + interval / width) % slots`, and may come out early by what was rounded off. Here it goes
/// to the first slot that begins at its deadline or later, so it may be `width - 1` ticks late, never early. Between two
/// slots the reach is less by the ticks passed since the last one.
pub struct SimpleWheel<T>(pub(super) Timers<Simple, T>);

impl<T> SimpleWheel<T> {
    /// An empty wheel that stands at `now` and takes timers up to `slots` ticks ahead.
    ///
    /// # Panics
    ///
    /// If there are no slots, or more than 2^31.
    #[must_use]
    pub fn new(now: Tick, slots: usize) -> Self {
        Self::with_width(now, slots, NonZeroU64::MIN)
    }

    /// An empty wheel of slots of `width` ticks, which begin at the multiples of `width`.
    ///
    /// # Panics
    ///
    /// If there are no slots, or more than 2^31.
    #[must_use]
    pub fn with_width(now: Tick, slots: usize, width: NonZeroU64) -> Self {
        let slots = Slots::new(slots);
        let turn = now.0 / width;
        SimpleWheel(Timers::new(now, Simple { slots, width: width.get(), turn, current: 0 }))
    }
}

timer_queue!(SimpleWheel);

pub(super) struct Simple {
    slots: Slots,
    width: u64,
    /// How many slots begin up to now, since tick 0: where the wheel has turned to.
    turn: u64,
    /// The slot at which it stands. What is due is first in its list; behind that is what is a whole turn ahead.
    current: usize,
}

impl Simple {
    /// The number of the first slot that begins at `tick` or later.
    fn slot_from(&self, tick: Tick) -> u64 {
        if self.width == 1 { tick.0 } else { tick.0.div_ceil(self.width) }
    }

    /// The number of the last slot that begins at `tick` or before.
    fn slot_until(&self, tick: Tick) -> u64 {
        match tick {
            Tick::MAX => self.slot_from(Tick::MAX),
            _ if self.width == 1 => tick.0,
            _ => tick.0 / self.width,
        }
    }

    /// When a slot begins. The last one does at the last tick, though that may be no multiple of the width.
    fn begin(&self, slot: u64) -> Tick {
        Tick(slot.saturating_mul(self.width))
    }

    fn len(&self) -> u64 {
        self.slots.lists.len() as u64
    }

    /// The slot `ahead` slots ahead, up to a whole turn.
    fn ahead(&self, ahead: usize) -> usize {
        let (slot, len) = (self.current + ahead, self.slots.lists.len());
        if slot >= len { slot - len } else { slot }
    }

    fn turn_to(&mut self, turn: u64) {
        let ahead = turn - self.turn;
        let ahead = if ahead < self.len() { ahead } else { ahead % self.len() };
        self.current = self.ahead(usize::try_from(ahead).expect("less than the slots"));
        self.turn = turn;
    }

    /// When the first slot with timers begins, after the one at which the wheel stands, and its number.
    fn next_slot(&self) -> Option<(Tick, u64)> {
        let turn = self.turn.checked_add(self.slots.ahead_to_occupied(self.current)? as u64)?;
        Some((self.begin(turn), turn))
    }

    /// The first timer of the slot at which the wheel stands, if it is due.
    fn due_now(&self, nodes: &[ListNode]) -> Option<u32> {
        let list = self.slots.lists[self.current];
        list.first_due(nodes).filter(|&due| due <= self.begin(self.turn)).map(|_| list.first)
    }
}

impl Scheme for Simple {
    type Link = Link;

    fn horizon(&self, now: Tick) -> Option<u64> {
        Some(self.begin(self.turn.saturating_add(self.len())).saturating_since(now))
    }

    fn precision(&self, _ahead: u64) -> u64 {
        self.width - 1
    }

    /// The latest tick at which a slot begins.
    fn choose(&self, now: Tick, range: &RangeInclusive<Tick>) -> Tick {
        if self.width == 1 {
            return crate::range::choose(now, range);
        }
        latest_or_first(now, range, self.begin(range.end().0 / self.width))
    }

    fn link(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        let ahead = self.slot_from(nodes[index as usize].due) - self.turn;
        let slot = self.ahead(usize::try_from(ahead).expect("within the horizon"));
        if ahead == self.len() {
            self.slots.push_back(nodes, slot, index);
        } else {
            self.slots.push_front(nodes, slot, index);
        }
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.slots.unlink(nodes, index);
    }

    fn advance(&mut self, nodes: &mut [ListNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
        loop {
            if let Some(index) = self.due_now(nodes) {
                if !work.spend() {
                    return Step::OutOfWork;
                }
                self.slots.unlink(nodes, index);
                return Step::Due(index);
            }
            let Some((tick, turn)) = self.next_slot().filter(|&(tick, _)| tick <= until) else {
                self.turn_to(self.slot_until(until));
                return Step::UpToDate;
            };
            if work.left() == 0 {
                return Step::OutOfWork;
            }
            self.turn_to(turn);
            *now = tick;
        }
    }

    fn next_wakeup(&self, nodes: &[ListNode], now: Tick) -> Option<Tick> {
        if self.due_now(nodes).is_some() {
            return Some(now);
        }
        self.next_slot().map(|(tick, _)| tick)
    }

    fn ring(&self, _now: Tick, ring: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        self.slots.ring(ring, self.current, self.width, held)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let slots = self.slots.check(nodes);
        for (slot, held) in &slots {
            let dues: alloc::vec::Vec<_> = held.iter().map(|&index| nodes[index as usize].due).collect();
            let ahead = (slot + self.slots.lists.len() - self.current) % self.slots.lists.len();
            for &due in &dues {
                let number = self.slot_from(due);
                assert!(number >= self.turn, "{due} was passed over at {now}");
                assert_eq!((number - self.turn) % self.len(), ahead as u64, "{due} at {now}");
            }
            let number = |due: &Tick| self.slot_from(*due);
            assert!(dues.is_sorted_by_key(number), "what is due comes first");
        }
        slots.into_iter().flat_map(|(_, held)| held).collect()
    }
}
