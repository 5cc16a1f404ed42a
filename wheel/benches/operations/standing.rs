//! One operation after the other on timers that stay, with random deadlines.
//!
//! ```text
//! register    every timer, and arm it, in the order of numbers       memory grows from nothing
//! arm         every timer to another deadline, in random order
//! within      a range that has the deadline, in random order: nothing is to be done
//! disarm      every timer, in random order
//!             drive to the end of the span, and arm all again        not measured
//! lend        drive to the end of the next span in one go: each is lent, and stays
//! unregister  every timer, in random order
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use encke_wheel::Tick;

use super::Op;
use super::phases::{AT_LEAST, ENOUGH};
use crate::support::deadlines::{Deadlines, SPAN};
use crate::support::structures::standing::Stays;

/// How many timers went through all of it, and what each operation took.
pub(crate) struct Standing {
    pub(crate) timers: u64,
    pub(crate) times: [(Op, Duration); 6],
}

pub(crate) fn measure<S: Stays>(deadlines: &Deadlines) -> Standing {
    let ops = [Op::Register, Op::Arm, Op::Within, Op::Disarm, Op::Lend, Op::Unregister];
    let mut standing = Standing { timers: 0, times: ops.map(|op| (op, Duration::ZERO)) };
    let began = Instant::now();
    while standing.timers < AT_LEAST && (standing.timers == 0 || began.elapsed() < ENOUGH) {
        for ((_, sum), time) in standing.times.iter_mut().zip(round::<S>(deadlines)) {
            *sum += time;
        }
        standing.timers += deadlines.first.len() as u64;
    }
    standing
}

fn timed(does: impl FnOnce()) -> Duration {
    let clock = Instant::now();
    does();
    clock.elapsed()
}

fn round<S: Stays>(deadlines: &Deadlines) -> [Duration; 6] {
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
    assert!(known, "{}: a timer was not there", S::NAME);

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
    assert!(known, "{}: a timer to unregister was not there", S::NAME);
    [register, arm, within, disarm, lend, unregister]
}

/// Drives time until all timers have expired.
fn drain<S: Stays>(timers: &mut S, until: u64, count: u64) -> Duration {
    let until = until + timers.precision(u64::from(SPAN));
    let (mut expired, mut sum) = (0, 0);
    let time = timed(|| {
        while let Some(due) = timers.expire_next(until) {
            expired += 1;
            sum += due.value;
        }
    });
    assert_eq!(expired, count, "{}: timers did not expire", S::NAME);
    assert_eq!(sum, count * (count - 1) / 2, "{}: some expired twice, some never", S::NAME);
    time
}
