//! The timer wheel of NHN's Comet server, as D. Choi described it in 2013 (*More Efficient Timer Implementation using TimerWheel*), and
//! what its formula and its cap do to ten thousand sessions.
//!
//! ```sh
//! cargo run --release -p encke-wheel --example nhn
//! ```
//!
//! ```text
//!   main ──timers──▶ ┌──────────────┐            ┌─▶ worker ─┐
//!                    │ wheel thread │ ──jobs──▶ ─┼─▶ worker ─┤
//!        ┌─timers──▶ └──────────────┘            └─▶ worker ─┤
//!        └────────────────────────────◀── set again ─────────┘
//! ```
//!
//! One thread owns the wheel and only routes: what is due goes to a pool of workers, which set the timer again. Each session has a ping
//! every 100 to 300 ms, which the wheel can take, and an expiry after a second, which it cannot. The run is in real time and ends by itself.
#![allow(clippy::print_stdout, reason = "it prints what one learns")]

mod formula;
mod report;
mod wheel_thread;

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use encke_wheel::{Tick, TimerQueue};

use report::Report;
use wheel_thread::WheelThread;

const SESSIONS: u32 = 10_000;
const WORKERS: usize = 3;
/// A tick is a millisecond.
const RUN: Tick = Tick(3_000);
const EXPIRY: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ping,
    Expiry,
}

/// One of the two timers of a session.
#[derive(Clone, Copy, Debug)]
struct Timer {
    session: u32,
    kind: Kind,
    started: Tick,
    deadline: Tick,
}

impl Timer {
    fn start(session: u32, kind: Kind, now: Tick) -> Timer {
        let interval = match kind {
            // As if at random, so that no slot is like the next.
            Kind::Ping => 100 + u64::from(session) * 7_919 % 201,
            Kind::Expiry => EXPIRY,
        };
        Timer { session, kind, started: now, deadline: now.saturating_add(interval) }
    }
}

/// The only place where a clock is read.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
}

impl Clock {
    /// Rounded down: a tick has come once all of it has passed. Rounding up would let timers come early.
    fn now(self) -> Tick {
        Tick(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn instant(self, tick: Tick) -> Instant {
        self.start + Duration::from_millis(tick.0)
    }
}

/// Does the jobs until the wheel thread is gone, and says how late each of them came.
fn work(clock: Clock, jobs: Receiver<Timer>, timers: Sender<Timer>) -> Vec<(Timer, Duration)> {
    let mut came = Vec::new();
    for timer in jobs {
        // A session would be pinged or closed here. The wheel thread waits for nothing of this.
        let late = Instant::now().checked_duration_since(clock.instant(timer.deadline));
        came.push((timer, late.expect("no timer comes early")));
        let again = Timer::start(timer.session, timer.kind, clock.now());
        timers.send(again).expect("main has the receiver as well");
    }
    came
}

fn main() {
    let clock = Clock { start: Instant::now() };
    // Neither grows beyond what timers there are, for each is in the wheel, or in one of these, or with a worker.
    let (timers, set) = unbounded();
    let (jobs, due) = unbounded();
    let wheel_thread = WheelThread::new(clock, jobs);
    let (wheel, counts, came) = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let (due, timers) = (due.clone(), timers.clone());
                scope.spawn(move || work(clock, due, timers))
            })
            .collect();
        let wheel_thread = scope.spawn(|| wheel_thread.run(&set));
        for session in 0..SESSIONS {
            for kind in [Kind::Ping, Kind::Expiry] {
                timers.send(Timer::start(session, kind, clock.now())).expect("this thread has the receiver");
            }
        }
        // The wheel thread drops `jobs` when it ends, and so the workers end.
        let (wheel, counts) = wheel_thread.join().expect("it does not panic");
        let came = workers.into_iter().flat_map(|worker| worker.join().expect("it does not panic")).collect();
        (wheel, counts, came)
    });
    assert_eq!(wheel.len() + set.len(), 2 * SESSIONS as usize, "no timer is lost, and none is there twice");
    print!("{}", Report { came, counts });
}
