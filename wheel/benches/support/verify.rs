//! Whether a structure does what it is measured for: slowly, and before any clock runs.

use super::deadlines::{Deadlines, SPAN};
use super::structures::Structure;

const TIMERS: u32 = 2_000;

/// Sets, moves and cancels random timers, then drives time tick by tick: what was not cancelled comes out once, at its
/// tick or as much later as the structure admits, and nothing else does.
///
/// # Panics
///
/// If it does not.
pub(crate) fn verify<S: Structure>() {
    let deadlines = Deadlines::random(TIMERS, 1);
    let mut structure = S::new(u64::from(SPAN));
    // For each timer, the first and the last tick at which it may come out.
    let mut expected = vec![None; TIMERS as usize];
    let mut keys = Vec::new();
    for (id, &deadline) in (0..).zip(&deadlines.first) {
        keys.push(structure.schedule(deadline.into(), id));
    }
    for &id in &deadlines.order {
        let id = id as usize;
        let mut deadline = u64::from(deadlines.first[id]);
        if id.is_multiple_of(3) {
            deadline = u64::from(deadlines.second[id]);
            assert!(structure.reschedule(keys[id], deadline), "{}: no timer to move", S::NAME);
        }
        if id.is_multiple_of(7) {
            assert!(structure.cancel(keys[id]), "{}: no timer to cancel", S::NAME);
        } else {
            expected[id] = Some((deadline, deadline + structure.precision(deadline)));
        }
    }
    let last = expected.iter().flatten().map(|&(_, last)| last).max();
    for tick in 1..=last.unwrap_or(0) {
        while let Some(due) = structure.expire_next(tick) {
            let id = usize::try_from(due.value).expect("values are ids");
            let Some((first, last)) = expected[id].take() else {
                panic!("{}: timer {id} came out although it was cancelled or had come out", S::NAME)
            };
            assert!((first..=last).contains(&tick), "{}: timer for {first} came out at {tick}", S::NAME);
        }
    }
    let lost = expected.iter().flatten().count();
    assert_eq!(lost, 0, "{}: timers did not come out", S::NAME);
}
