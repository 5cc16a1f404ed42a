//! Choosing one tick from a range of acceptable ticks.

use core::ops::RangeInclusive;

use crate::Tick;

/// Returns whether `deadline` lies in `range`. Unlike [`RangeInclusive::contains`], this ignores whether the
/// range was exhausted as an iterator, which saves a check.
#[inline]
pub(crate) fn includes(range: &RangeInclusive<Tick>, deadline: Tick) -> bool {
    *range.start() <= deadline && deadline <= *range.end()
}

/// Returns the tick in `range` that costs the least for a wheel at `now`.
///
/// A timer due on the first tick of a slot expires from that slot without cascading. The best tick is
/// therefore the first tick of a slot, on the highest level that the range allows, and the latest of several
/// candidates, because a timer that is postponed repeatedly then keeps its slot for the longest time (Ratas,
/// "range-based scheduling"). Slot boundaries do not depend on `now`, so timers with overlapping ranges tend
/// to share a tick regardless of when they were scheduled.
///
/// A range without such a boundary lies within one slot of level 1. The tick divisible by the highest power
/// of two is chosen, so that timers with little slack coincide as well.
///
/// If the whole range has passed, the result is its end. If the range is empty, the result is its start,
/// because a timer must never be early.
pub(crate) fn choose(now: Tick, range: &RangeInclusive<Tick>) -> Tick {
    let (start, end) = (*range.start(), *range.end());
    // The last tick that is too early, because it is before the range or not after `now`.
    let too_early = Tick(start.0.saturating_sub(1)).max(now);
    if end <= too_early {
        return start.max(end);
    }
    // A multiple of 2^n lies in `(too_early, end]` if and only if the two numbers differ in bit n or above.
    let bits = (too_early.0 ^ end.0).ilog2();
    let whole_levels = bits - bits % u8::BITS;
    let bits = if whole_levels > 0 { whole_levels } else { bits };
    Tick(end.0 >> bits << bits)
}
