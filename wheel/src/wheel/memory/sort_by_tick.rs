use alloc::vec::Vec;
use core::{mem, ptr};

use crate::{Expired, Tick};

const TICKS_PER_REVOLUTION: usize = 1 << u8::BITS;

/// Minimum number of timers for a counting sort. Fewer timers are sorted by comparison.
const SORT_THRESHOLD: usize = 24;

/// Sorts `timers[from..]` by tick. All of them are due within 256 ticks from `start`; earlier deadlines are
/// treated as `start`.
///
/// This is a counting sort: each timer is copied to its sorted position in the spare capacity of the vector,
/// and all of them are then copied back together. This takes half the time of exchanging them in place along
/// cycles.
pub(in crate::wheel) fn sort_by_tick<T>(timers: &mut Vec<Expired<T>>, from: usize, start: Tick) {
    let tick = |timer: &Expired<T>| {
        let [tick, ..] = timer.deadline.saturating_since(start).to_le_bytes();
        usize::from(tick)
    };
    let count = timers.len() - from;
    if count < SORT_THRESHOLD {
        timers[from..].sort_unstable_by_key(tick);
        return;
    }
    timers.reserve(count);
    let mut next = [0; TICKS_PER_REVOLUTION];
    timers[from..].iter().for_each(|timer| next[tick(timer)] += 1);
    let mut before = 0;
    for next in &mut next {
        before += mem::replace(next, before);
    }
    let end = timers.len();
    for at in from..end {
        let next = &mut next[tick(&timers[at])];
        let timer = ptr::from_ref(&timers[at]);
        let to = &mut timers.spare_capacity_mut()[*next];
        *next += 1;
        // SAFETY: Both pointers are valid and do not overlap. The vector does not own the copy, so a panic
        // drops no timer twice.
        unsafe { ptr::copy_nonoverlapping(timer, to.as_mut_ptr(), 1) };
    }
    let this = timers.as_mut_ptr();
    // SAFETY: The `count` places after the end hold one copy of each element of `timers[from..]`: each tick
    // received as many timers as were counted for it. The two regions do not overlap.
    unsafe { ptr::copy_nonoverlapping(this.add(end), this.add(from), count) };
}
