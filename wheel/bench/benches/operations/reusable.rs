//! Each operation on reusable timers in turn, with random deadlines.
//!
//! ```text
//! register    every timer, and arm it, in the order of numbers       in newly allocated memory
//! arm         every timer with another deadline, in random order
//! within      a range that contains the deadline, in random order: nothing to do
//! disarm      every timer, in random order
//!             drive to the end of the span, and arm all again        not measured
//! lend        drive to the end of the next span in one step; all timers stay
//! unregister  every timer, in random order
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use encke_wheel::Tick;
use encke_wheel_bench::deadlines::{Deadlines, SPAN};
use encke_wheel_bench::structures::reusable::ReusableStructure;

use super::Op;
use super::phases::{MIN_TIMERS, TIME_LIMIT};

pub(crate) struct ReusableTimes {
    pub(crate) timers: u64,
    pub(crate) times: [(Op, Duration); 6],
}

pub(crate) fn measure<S: ReusableStructure>(deadlines: &Deadlines) -> ReusableTimes {
    let ops = [Op::Register, Op::Arm, Op::Within, Op::Disarm, Op::Lend, Op::Unregister];
    let mut total = ReusableTimes { timers: 0, times: ops.map(|op| (op, Duration::ZERO)) };
    let began = Instant::now();
    while total.timers < MIN_TIMERS && (total.timers == 0 || began.elapsed() < TIME_LIMIT) {
        for ((_, sum), time) in total.times.iter_mut().zip(round::<S>(deadlines)) {
            *sum += time;
        }
        total.timers += deadlines.first.len() as u64;
    }
    total
}

fn timed(does: impl FnOnce()) -> Duration {
    let clock = Instant::now();
    does();
    clock.elapsed()
}

fn round<S: ReusableStructure>(deadlines: &Deadlines) -> [Duration; 6] {
    let span = u64::from(SPAN);
    let Deadlines { first, second, order } = deadlines;
    let mut timers = S::new(span);
    let mut keys = Vec::with_capacity(first.len());
    let mut known = true;

    let register = timed(|| {
        for (number, &deadline) in (0..).zip(first) {
            keys.push(timers.register(deadline.into(), number));
        }
    });
    let arm = timed(|| {
        for &number in order {
            known &= timers.arm(keys[number as usize], second[number as usize].into());
        }
    });
    let within = timed(|| {
        for &number in order {
            let deadline = u64::from(second[number as usize]);
            known &= timers.arm_within(keys[number as usize], Tick(deadline)..=Tick(deadline + 100));
        }
    });
    let disarm = timed(|| {
        for &number in order {
            known &= timers.disarm(keys[number as usize]);
        }
    });
    assert!(known, "{}: a timer does not exist", S::NAME);

    assert!(timers.expire_next(span).is_none(), "{}: a disarmed timer expired", S::NAME);
    for (key, &deadline) in keys.iter().zip(first) {
        timers.arm(*key, span + u64::from(deadline));
    }
    let lend = drain(&mut timers, 2 * span, first.len() as u64);

    let unregister = timed(|| {
        for &number in order {
            known &= black_box(timers.unregister(keys[number as usize]));
        }
    });
    assert!(known, "{}: the timer to unregister does not exist", S::NAME);
    [register, arm, within, disarm, lend, unregister]
}

fn drain<S: ReusableStructure>(timers: &mut S, until: u64, count: u64) -> Duration {
    let until = until + timers.precision(u64::from(SPAN));
    let (mut expired, mut sum) = (0, 0);
    let time = timed(|| {
        while let Some(due) = timers.expire_next(until) {
            expired += 1;
            sum += due.value;
        }
    });
    assert_eq!(expired, count, "{}: timers did not expire", S::NAME);
    assert_eq!(sum, count * (count - 1) / 2, "{}: some timers expired twice, some never", S::NAME);
    time
}
