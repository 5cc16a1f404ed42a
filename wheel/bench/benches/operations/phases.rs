//! Each operation in turn, applied to all timers, with random deadlines.
//!
//! ```text
//! schedule    every timer, in the order of ids                       in newly allocated memory
//! reschedule  every timer to another deadline, in random order
//! cancel      every timer, in random order
//! sweep       drive to the end of the span; nothing expires          work deferred by lazy structures
//! refill      schedule every timer again                             in memory reused in random order
//! expire      drive to the end of the next span in one step
//! ```
//!
//! Deadlines and the order in which timers are visited are generated beforehand. Small sizes are repeated
//! with new structures until enough timers have been measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

use encke_wheel_bench::deadlines::{Deadlines, SPAN};
use encke_wheel_bench::structures::Structure;

use super::Op;

/// Minimum number of timers measured in a run, unless that takes longer than [`TIME_LIMIT`].
pub(crate) const MIN_TIMERS: u64 = 200_000;
pub(crate) const TIME_LIMIT: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct PhaseTimes {
    pub(crate) timers: u64,
    schedule: Duration,
    reschedule: Duration,
    cancel: Duration,
    sweep: Duration,
    refill: Duration,
    /// Duration of the expire phase, or `None` if it is not measured.
    expire: Option<Duration>,
}

impl PhaseTimes {
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

pub(crate) fn measure<S: Structure>(deadlines: &Deadlines, expire: bool) -> PhaseTimes {
    let timers = deadlines.first.len();
    let mut phases = PhaseTimes { expire: expire.then_some(Duration::ZERO), ..PhaseTimes::default() };
    let mut keys = Vec::with_capacity(timers);
    let began = Instant::now();
    while phases.timers < MIN_TIMERS && (phases.timers == 0 || began.elapsed() < TIME_LIMIT) {
        keys.clear();
        round::<S>(deadlines, &mut keys, &mut phases);
        phases.timers += timers as u64;
    }
    phases
}

fn round<S: Structure>(deadlines: &Deadlines, keys: &mut Vec<S::Key>, phases: &mut PhaseTimes) {
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
    assert!(known, "{}: the timer to move does not exist", S::NAME);

    let clock = Instant::now();
    for &id in &deadlines.order {
        known &= structure.cancel(keys[id as usize]);
    }
    phases.cancel += clock.elapsed();
    assert!(known, "{}: the timer to cancel does not exist", S::NAME);

    let clock = Instant::now();
    let due = structure.expire_next(span);
    phases.sweep += clock.elapsed();
    assert!(due.is_none(), "{}: a cancelled timer expired", S::NAME);

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
    assert_eq!(count, timers, "{}: timers did not expire", S::NAME);
    assert_eq!(sum, timers * (timers - 1) / 2, "{}: some timers expired twice, some never", S::NAME);
    assert!(in_order || structure.precision(until) > 0, "{}: out of order", S::NAME);
    time
}
