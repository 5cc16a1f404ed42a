//! One operation after the other, each on all timers, with random deadlines.
//!
//! ```text
//! schedule    every timer, in the order of ids                       memory grows from nothing
//! reschedule  every timer to another deadline, in random order
//! cancel      every timer, in random order
//! sweep       drive to the end of the span; nothing comes out        what lazy structures put off until now
//! refill      schedule every timer again                             memory was used before, in random order
//! expire      drive to the end of the next span in one go
//! ```
//!
//! The order in which timers are visited, and all deadlines, are made beforehand. Small sizes are repeated with a new
//! structure until the clock has something to measure.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::Op;
use crate::support::deadlines::{Deadlines, SPAN};
use crate::support::structures::Structure;

/// So many timers are measured in one run at least, unless that takes longer than [`ENOUGH`].
pub(crate) const AT_LEAST: u64 = 200_000;
pub(crate) const ENOUGH: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct Phases {
    /// How many timers went through each phase.
    pub(crate) timers: u64,
    schedule: Duration,
    reschedule: Duration,
    cancel: Duration,
    sweep: Duration,
    refill: Duration,
    /// `None` if that was not to be measured.
    expire: Option<Duration>,
}

impl Phases {
    pub(crate) fn times(&self) -> [(Op, Option<Duration>); 6] {
        [
            (Op::Schedule, Some(self.schedule)),
            (Op::Reschedule, Some(self.reschedule)),
            (Op::Cancel, Some(self.cancel)),
            (Op::Sweep, Some(self.sweep)),
            (Op::Refill, Some(self.refill)),
            (Op::Expire, self.expire),
        ]
    }
}

pub(crate) fn measure<S: Structure>(deadlines: &Deadlines, expire: bool) -> Phases {
    let timers = deadlines.first.len();
    let mut phases = Phases { expire: expire.then_some(Duration::ZERO), ..Phases::default() };
    let mut keys = Vec::with_capacity(timers);
    let began = Instant::now();
    while phases.timers < AT_LEAST && (phases.timers == 0 || began.elapsed() < ENOUGH) {
        keys.clear();
        round::<S>(deadlines, &mut keys, &mut phases);
        phases.timers += timers as u64;
    }
    phases
}

fn round<S: Structure>(deadlines: &Deadlines, keys: &mut Vec<S::Key>, phases: &mut Phases) {
    let span = u64::from(SPAN);
    let mut structure = S::new(span);

    let clock = Instant::now();
    for (id, &deadline) in (0..).zip(&deadlines.first) {
        keys.push(structure.schedule(deadline.into(), id));
    }
    phases.schedule += clock.elapsed();

    let clock = Instant::now();
    let mut known = true;
    for &id in &deadlines.order {
        known &= structure.reschedule(keys[id as usize], deadlines.second[id as usize].into());
    }
    phases.reschedule += clock.elapsed();
    assert!(known, "{}: a timer to move was not there", S::NAME);

    let clock = Instant::now();
    for &id in &deadlines.order {
        known &= structure.cancel(keys[id as usize]);
    }
    phases.cancel += clock.elapsed();
    assert!(known, "{}: a timer to cancel was not there", S::NAME);

    let clock = Instant::now();
    let due = structure.expire_next(span);
    phases.sweep += clock.elapsed();
    assert!(due.is_none(), "{}: a cancelled timer came out", S::NAME);

    let clock = Instant::now();
    for (id, &deadline) in (0..).zip(&deadlines.first) {
        black_box(structure.schedule(span + u64::from(deadline), id));
    }
    phases.refill += clock.elapsed();

    if let Some(time) = &mut phases.expire {
        *time += {
            let until = 2 * span + structure.precision(span);
            drain(&mut structure, until, deadlines.first.len() as u64)
        };
    }
}

/// Drives time until all timers have come out, in order.
fn drain<S: Structure>(structure: &mut S, until: u64, timers: u64) -> Duration {
    let clock = Instant::now();
    let (mut count, mut sum, mut before, mut in_order) = (0, 0, 0, true);
    while let Some(due) = structure.expire_next(until) {
        count += 1;
        sum += due.value;
        in_order &= before <= due.tick;
        before = due.tick;
    }
    let time = clock.elapsed();
    assert_eq!(count, timers, "{}: timers did not come out", S::NAME);
    assert_eq!(sum, timers * (timers - 1) / 2, "{}: some came out twice, some never", S::NAME);
    assert!(in_order || structure.precision(until) > 0, "{}: out of order", S::NAME);
    time
}
