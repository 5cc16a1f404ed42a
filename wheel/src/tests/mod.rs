//! Tests of the wheel through its public interface, with
//! [`check_invariants`](crate::TimingWheel::check_invariants) checking its internals.

use alloc::vec::Vec;

use crate::{Expiry, Tick, TimingWheel, WorkBudget};

mod batch;
mod budget;
mod conformance;
mod edges;
mod holes;
mod keyed;
mod keys;
mod owners;
mod ranges;
mod reusable;
mod rings;
mod seed;
mod timetable;
mod wakeup;

/// Returns the size of a test: `miri` under Miri, which is a few hundred times slower, otherwise `usual`.
const fn size(usual: usize, miri: usize) -> usize {
    if cfg!(miri) { miri } else { usual }
}

/// Drives the wheel to `now` and returns the expired values with the ticks at which they expired, sorted
/// within each tick.
fn drain<T: Ord>(wheel: &mut TimingWheel<T>, now: u64) -> Vec<(u64, T)> {
    let mut due = Vec::new();
    loop {
        match wheel.expire_next(Tick(now), &mut WorkBudget::unlimited()) {
            Expiry::Due(expired) => due.push((wheel.now().0, expired.value)),
            Expiry::UpToDate => break,
            Expiry::OutOfBudget => unreachable!("the budget is unlimited"),
        }
    }
    wheel.check_invariants();
    assert!(due.is_sorted_by_key(|&(tick, _)| tick), "out of order");
    due.sort();
    due
}
