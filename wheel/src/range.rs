//! Choosing one tick out of a range of ticks that would all do.

use core::ops::RangeInclusive;

use crate::Tick;

/// Whether a deadline in `range` may stay. (A range that is used up as an iterator is still one here, which is one question less.)
#[inline]
pub(crate) fn includes(range: &RangeInclusive<Tick>, deadline: Tick) -> bool {
    *range.start() <= deadline && deadline <= *range.end()
}

/// The tick in `range` that costs the least, for a wheel that stands at `now`.
///
/// A timer due on the first tick of a slot expires straight from that slot, without moving down through the
/// levels below. So the best tick is the first of a slot, of as high a level as the range allows; of several
/// such the latest, since a timer that keeps being put off then stays where it is for longest (Ratas,
/// "range-based scheduling"). Slots do not depend on `now`, so timers with overlapping ranges tend to meet,
/// whenever each was scheduled.
///
/// A range without such a boundary lies within one slot of level 1. There the tick divisible by the highest
/// power of two is taken, so that timers with a little slack come out together as well.
///
/// Of a range that is over, the end is taken; of an empty one the start, since early is the one thing a timer
/// must not be.
pub(crate) fn choose(now: Tick, range: &RangeInclusive<Tick>) -> Tick {
    let (start, end) = (*range.start(), *range.end());
    // The last tick that is too early: before the range, or not ahead of the wheel.
    let too_early = Tick(start.0.saturating_sub(1)).max(now);
    if end <= too_early {
        return start.max(end);
    }
    // A multiple of 2^n lies after `too_early` and up to `end` exactly if the two differ in bit n or above.
    let bits = (too_early.0 ^ end.0).ilog2();
    let whole_levels = bits - bits % u8::BITS;
    let bits = if whole_levels > 0 { whole_levels } else { bits };
    Tick(end.0 >> bits << bits)
}
