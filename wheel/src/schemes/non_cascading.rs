//! Scheme 7 without migrations: distant timers expire late.
//!
//! ```text
//!   now = 1000         the timer for 1010     for 1100              for 2000
//!
//!   level 2, slots                                                  2048 .. 2111
//!    of 64 ticks                                                       | at 2048
//!                                                                      |
//!   level 1, slots                            1104 .. 1111             |
//!    of 8 ticks                                  | at 1104             |
//!                                                |                     |
//!   level 0, slots     1010                      |                     |
//!    of 1 tick           | at 1010               |                     |
//!                        v                       v                     v
//!                       due                 due, 4 late           due, 48 late
//!
//!   21 levels of 64 slots: all of u64
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, end of section VI-B, after W. Nichols; T. Gleixner, *timers: Switch to a non-cascading wheel*, 2016 (Linux 4.8) |
//! | start | O(1) |
//! | stop | O(1) |
//! | per tick | O(1), plus the expired timers |
//! | memory | 24 bytes and an `Option<T>` per timer; 5.6 KiB |
//! | horizon | none |
//! | precision | exact up to 63 ticks ahead, then late by less than 1/7 of the ticks ahead |
//! | wakes | when a timer expires |
//! | bad when | distant timers must be exact |

use core::ops::RangeInclusive;

use super::hierarchy::Hierarchy;
use super::list::{ListLink, ListNode};
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, latest_or_first, timer_queue};
use crate::{SlotRing, Tick, WorkBudget};

/// Scheme 7 without migrations, as in Linux since 4.8: a hierarchy of wheels in which a timer stays in its
/// slot and expires when that slot begins. See the [module documentation](self).
///
/// The wheels have the same dimensions as in Linux: 64 slots per level, and a slot of each level is 8 times
/// as long as a slot of the level below. There are 21 levels, which cover all of `u64`, whereas Linux has 8
/// or 9 and truncates longer timeouts. A timer goes to the first slot that begins at or after its deadline,
/// so it never expires early. The paper rounds to the nearest slot, so with slots that grow 60-fold, a timer
/// can be off by up to half its duration.
///
/// A timer with a range expires within that range if the range contains the beginning of a slot of the length
/// used at that distance.
pub struct NonCascadingWheel<T>(pub(super) SchemeTimers<NonCascading, T>);

impl<T> NonCascadingWheel<T> {
    /// Creates an empty wheel at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        NonCascadingWheel(SchemeTimers::new(now, NonCascading { wheels: Wheels::new() }))
    }
}

timer_queue!(NonCascadingWheel);

const SLOT_BITS: u32 = 6;
const GRAIN_BITS: u32 = 3;
const LEVELS: usize = 21;

type Wheels = Hierarchy<SLOT_BITS, GRAIN_BITS, LEVELS>;

pub(super) struct NonCascading {
    wheels: Wheels,
}

/// Returns the lowest level that may reach `ahead` ticks ahead. The level may fall short, because it consists
/// of whole slots.
fn level_for(ahead: u64) -> u32 {
    ahead.ilog2().saturating_sub(GRAIN_BITS) / GRAIN_BITS
}

fn place(now: Tick, due: Tick) -> (u32, u64) {
    let level = level_for((due.0 - now.0).max(1));
    let number = Wheels::number_from(level, due);
    // Use the next level for a slot that is a whole revolution ahead, because it has the same index as the
    // current slot.
    if number - Wheels::number(level, now) < Wheels::SLOTS {
        return (level, number);
    }
    (level + 1, Wheels::number_from(level + 1, due))
}

impl TimerScheme for NonCascading {
    type Link = ListLink;

    fn precision(&self, ahead: u64) -> u64 {
        let level = level_for(ahead.max(1));
        // Use the next level if `ahead`, together with the partial slots at both ends, may span a whole
        // revolution.
        let next = level > 0 && Wheels::number(level, Tick(ahead)) + 2 >= Wheels::SLOTS;
        (1 << ((level + u32::from(next)) * GRAIN_BITS)) - 1
    }

    /// Chooses the latest tick in `range` at which a slot begins.
    fn choose(&self, now: Tick, range: &RangeInclusive<Tick>) -> Tick {
        let end = range.end().0;
        let (level, _) = place(now, Tick(end.max(now.0.saturating_add(1))));
        latest_or_first(now, range, Tick(end >> (level * GRAIN_BITS) << (level * GRAIN_BITS)))
    }

    fn link(&mut self, nodes: &mut [ListNode], now: Tick, index: u32) {
        let (level, number) = place(now, nodes[index as usize].due);
        self.wheels.link(nodes, index, level, number);
    }

    fn unlink(&mut self, nodes: &mut [ListNode], _now: Tick, index: u32) {
        self.wheels.unlink(nodes, index);
    }

    fn advance(
        &mut self,
        nodes: &mut [ListNode],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep {
        let Some(event) = self.wheels.next_event(*now).filter(|event| event.tick <= until) else {
            return AdvanceStep::UpToDate;
        };
        if !work.spend() {
            return AdvanceStep::OutOfBudget;
        }
        *now = event.tick;
        self.wheels.unlink(nodes, event.first);
        AdvanceStep::Due(event.first)
    }

    fn next_wakeup(&self, _nodes: &[ListNode], now: Tick) -> Option<Tick> {
        self.wheels.next_event(now).map(|event| event.tick)
    }

    fn levels(&self) -> usize {
        LEVELS
    }

    fn occupancy(&self, level: usize) -> Option<usize> {
        Some(self.wheels.lens[level])
    }

    fn ring(&self, now: Tick, ring: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.wheels.ring(now, ring, counts)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        self.wheels.check(nodes, now, |due, begin| begin >= due)
    }
}
