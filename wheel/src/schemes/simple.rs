//! Scheme 4: a wheel with a horizon of one revolution.
//!
//! ```text
//!   now = 42, at slot 2 of 8: a timer due in i ticks goes to slot (2 + i) mod 8, for i up to 8
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
//! | per tick | O(1), plus the due timers |
//! | memory | 24 bytes and an `Option<T>` per timer; 4 bytes and one bit per slot |
//! | horizon | one revolution: `slots * width` ticks; timers further ahead are refused |
//! | precision | at most `width - 1` ticks late; exact with slots of one tick |
//! | wakes | when a timer expires |
//! | bad when | timers are long: 1 h 23 min 15 s at a resolution of one second takes 4,995 slots |

use core::num::NonZeroU64;
use core::ops::RangeInclusive;

use super::list::{ListLink, ListNode};
use super::slots::Slots;
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, latest_or_first, timer_queue};
use crate::{SlotRing, Tick, WorkBudget};

/// Scheme 4, the basic timing wheel: one slot for every tick up to MaxInterval, used cyclically. See the
/// [module documentation](self).
///
/// Slots may be wider than one tick, as in NHN's Comet server: 7 slots of 50 ms accept 350 ms and refuse 351.
/// In that server, a timer goes to slot `(current + interval / width) % slots`, and may expire early because
/// of the rounding. In this implementation, a timer goes to the first slot that begins at or after its
/// deadline, so it may be up to `width - 1` ticks late, but never early. Within a slot, the horizon is
/// shorter by the ticks that have passed since the slot began.
pub struct SimpleWheel<T>(pub(super) SchemeTimers<Simple, T>);

impl<T> SimpleWheel<T> {
    /// Creates an empty wheel at tick `now` that accepts timers up to `slots` ticks ahead.
    ///
    /// # Panics
    ///
    /// Panics if `slots` is 0 or more than 2^31.
    #[must_use]
    pub fn new(now: Tick, slots: usize) -> Self {
        Self::with_width(now, slots, NonZeroU64::MIN)
    }

    /// Creates an empty wheel whose slots take `width` ticks and begin at multiples of `width`.
    ///
    /// # Panics
    ///
    /// Panics if `slots` is 0 or more than 2^31.
    #[must_use]
    pub fn with_width(now: Tick, slots: usize, width: NonZeroU64) -> Self {
        let slots = Slots::new(slots);
        let slot_number = now.0 / width;
        SimpleWheel(SchemeTimers::new(now, Simple { slots, width: width.get(), slot_number, current: 0 }))
    }
}

timer_queue!(SimpleWheel);

pub(super) struct Simple {
    slots: Slots,
    width: u64,
    /// Number of the current slot, counted from tick 0.
    slot_number: u64,
    /// Index of the current slot. In its list, due timers come before timers that are a whole revolution
    /// ahead.
    current: usize,
}

impl Simple {
    /// Returns the number of the first slot that begins at or after `tick`.
    fn slot_from(&self, tick: Tick) -> u64 {
        if self.width == 1 { tick.0 } else { tick.0.div_ceil(self.width) }
    }

    /// Returns the number of the last slot that begins at or before `tick`.
    fn slot_until(&self, tick: Tick) -> u64 {
        match tick {
            Tick::MAX => self.slot_from(Tick::MAX),
            _ if self.width == 1 => tick.0,
            _ => tick.0 / self.width,
        }
    }

    /// Returns the tick at which a slot begins. The last slot begins at the last tick, even if that is not a
    /// multiple of the width.
    fn begin(&self, slot: u64) -> Tick {
        Tick(slot.saturating_mul(self.width))
    }

    fn len(&self) -> u64 {
        self.slots.lists.len() as u64
    }

    fn ahead(&self, ahead: usize) -> usize {
        let (slot, len) = (self.current + ahead, self.slots.lists.len());
        if slot >= len { slot - len } else { slot }
    }

    fn move_to(&mut self, slot_number: u64) {
        let ahead = slot_number - self.slot_number;
        let ahead = if ahead < self.len() { ahead } else { ahead % self.len() };
        self.current = self.ahead(usize::try_from(ahead).expect("below the number of slots"));
        self.slot_number = slot_number;
    }

    fn next_slot(&self) -> Option<(Tick, u64)> {
        let slot_number = self.slot_number.checked_add(self.slots.ahead_to_occupied(self.current)? as u64)?;
        Some((self.begin(slot_number), slot_number))
    }

    fn due_now(&self, nodes: &[ListNode]) -> Option<u32> {
        let list = self.slots.lists[self.current];
        list.first_due(nodes).filter(|&due| due <= self.begin(self.slot_number)).map(|_| list.first)
    }
}

impl TimerScheme for Simple {
    type Link = ListLink;

    fn horizon(&self, now: Tick) -> Option<u64> {
        Some(self.begin(self.slot_number.saturating_add(self.len())).saturating_since(now))
    }

    fn precision(&self, _ahead: u64) -> u64 {
        self.width - 1
    }

    /// Chooses the latest tick in `range` at which a slot begins.
    fn choose(&self, now: Tick, range: &RangeInclusive<Tick>) -> Tick {
        if self.width == 1 {
            return crate::range::choose(now, range);
        }
        latest_or_first(now, range, self.begin(range.end().0 / self.width))
    }

    fn link(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        let ahead = self.slot_from(nodes[index as usize].due) - self.slot_number;
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

    fn advance(
        &mut self,
        nodes: &mut [ListNode],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep {
        loop {
            if let Some(index) = self.due_now(nodes) {
                if !work.spend() {
                    return AdvanceStep::OutOfBudget;
                }
                self.slots.unlink(nodes, index);
                return AdvanceStep::Due(index);
            }
            let Some((tick, slot_number)) = self.next_slot().filter(|&(tick, _)| tick <= until) else {
                self.move_to(self.slot_until(until));
                return AdvanceStep::UpToDate;
            };
            if work.remaining() == 0 {
                return AdvanceStep::OutOfBudget;
            }
            self.move_to(slot_number);
            *now = tick;
        }
    }

    fn next_wakeup(&self, nodes: &[ListNode], now: Tick) -> Option<Tick> {
        if self.due_now(nodes).is_some() {
            return Some(now);
        }
        self.next_slot().map(|(tick, _)| tick)
    }

    fn ring(&self, _now: Tick, ring: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.slots.ring(ring, self.current, self.width, counts)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let slots = self.slots.check(nodes);
        for (slot, held) in &slots {
            let dues: alloc::vec::Vec<_> = held.iter().map(|&index| nodes[index as usize].due).collect();
            let ahead = (slot + self.slots.lists.len() - self.current) % self.slots.lists.len();
            for &due in &dues {
                let number = self.slot_from(due);
                assert!(number >= self.slot_number, "{due} was skipped at {now}");
                assert_eq!((number - self.slot_number) % self.len(), ahead as u64, "{due} at {now}");
            }
            let number = |due: &Tick| self.slot_from(*due);
            assert!(dues.is_sorted_by_key(number), "due timers are not at the front");
        }
        slots.into_iter().flat_map(|(_, held)| held).collect()
    }
}
