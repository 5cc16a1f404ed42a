//! Tests of the wheel, from the outside, with [`check_invariants`](crate::TimingWheel::check_invariants)
//! looking inside.

use alloc::vec::Vec;

use crate::{Expire, Tick, TimingWheel, Work};

mod batch;
mod budget;
mod conformance;
mod edges;
mod holes;
mod keyed;
mod keys;
mod owners;
mod ranges;
mod rings;
mod seed;
mod standing;
mod timetable;
mod wakeup;

/// How much of something to do: Miri is a few hundred times slower.
const fn size(usual: usize, miri: usize) -> usize {
    if cfg!(miri) { miri } else { usual }
}

/// Drives the wheel to `now` and returns what comes out, sorted within each tick, with the tick at which it
/// came.
fn drain<T: Ord>(wheel: &mut TimingWheel<T>, now: u64) -> Vec<(u64, T)> {
    let mut due = Vec::new();
    loop {
        match wheel.expire_next(Tick(now), &mut Work::unlimited()) {
            Expire::Due(expired) => due.push((wheel.now().0, expired.value)),
            Expire::UpToDate => break,
            Expire::OutOfWork => unreachable!("the budget is unlimited"),
        }
    }
    wheel.check_invariants();
    assert!(due.is_sorted_by_key(|&(tick, _)| tick), "one tick after the other");
    due.sort();
    due
}
