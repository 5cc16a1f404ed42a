use alloc::vec::Vec;
use core::{mem, ptr};

use crate::{Expired, Tick};

/// The ticks of a turn.
const TICKS: usize = 1 << u8::BITS;

/// So few are put in order by comparing them.
const FEW: usize = 24;

/// Puts timers in order, from one of them on, by ticks: all are due within 256 ticks from `start`, or earlier, which counts as `start`.
///
/// They are counted by tick, copied each to its place behind them all, and back in one go. That takes half the time of moving them where they
/// are, each after the other to the place of the next.
pub(in crate::wheel) fn put_in_order<T>(timers: &mut Vec<Expired<T>>, from: usize, start: Tick) {
    let tick = |timer: &Expired<T>| {
        let [tick, ..] = timer.deadline.saturating_since(start).to_le_bytes();
        usize::from(tick)
    };
    let count = timers.len() - from;
    if count < FEW {
        timers[from..].sort_unstable_by_key(tick);
        return;
    }
    timers.reserve(count);
    let mut next = [0; TICKS];
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
        // SAFETY: Both are valid, and apart. The vector does not own the copy, so should anything panic, nothing is dropped twice.
        unsafe { ptr::copy_nonoverlapping(timer, to.as_mut_ptr(), 1) };
    }
    let this = timers.as_mut_ptr();
    // SAFETY: Behind the end, `count` places have a copy each of the timers from `from` on, every one once: as many went to each tick as were
    // counted there. They do not overlap.
    unsafe { ptr::copy_nonoverlapping(this.add(end), this.add(from), count) };
}
