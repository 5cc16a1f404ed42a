//! Checks before a measurement that a structure works correctly.

use super::deadlines::{Deadlines, SPAN};
use super::structures::Structure;

const TIMERS: u32 = 2_000;

/// Sets, moves and cancels random timers, then advances time tick by tick. Every timer that was not cancelled
/// must expire once, on its tick or within the lateness that the structure allows, and no other timer may
/// expire.
///
/// # Panics
///
/// Panics if the check fails.
pub fn verify<S: Structure>() {
    let deadlines = Deadlines::random(TIMERS, 1);
    let mut structure = S::new(u64::from(SPAN));
    // First and last tick at which each timer may expire.
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
            assert!(
                structure.reschedule(keys[id], deadline),
                "{}: the timer to move does not exist",
                S::NAME
            );
        }
        if id.is_multiple_of(7) {
            assert!(structure.cancel(keys[id]), "{}: the timer to cancel does not exist", S::NAME);
        } else {
            expected[id] = Some((deadline, deadline + structure.precision(deadline)));
        }
    }
    let last = expected.iter().flatten().map(|&(_, last)| last).max();
    for tick in 1..=last.unwrap_or(0) {
        while let Some(due) = structure.expire_next(tick) {
            let id = usize::try_from(due.value).expect("values are ids");
            let Some((first, last)) = expected[id].take() else {
                panic!("{}: timer {id} expired although it was cancelled or had expired", S::NAME)
            };
            assert!((first..=last).contains(&tick), "{}: timer due at {first} expired at {tick}", S::NAME);
        }
    }
    let lost = expected.iter().flatten().count();
    assert_eq!(lost, 0, "{}: timers did not expire", S::NAME);
}
