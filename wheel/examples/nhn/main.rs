//! The timer wheel of NHN's Comet server, as described by D. Choi in 2013 (*More Efficient Timer
//! Implementation using TimerWheel*), and how its rounding and horizon affect ten thousand sessions.
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
//! One thread owns the wheel and only dispatches: due timers go to a pool of workers, which set them again.
//! Each session has a ping every 100 to 300 ms, which the wheel accepts, and an expiry after one second,
//! which it does not. The example runs in real time and exits by itself.
#![allow(clippy::print_stdout, reason = "prints the report")]

mod formula;
mod report;
mod wheel_thread;

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use encke_wheel::{Tick, TimerQueue};

use report::RunReport;
use wheel_thread::WheelThread;

const SESSIONS: u32 = 10_000;
const WORKERS: usize = 3;
/// Duration of the run, in ticks of one millisecond.
const RUN: Tick = Tick(3_000);
const EXPIRY: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerKind {
    Ping,
    Expiry,
}

#[derive(Clone, Copy, Debug)]
struct SessionTimer {
    session: u32,
    kind: TimerKind,
    started: Tick,
    deadline: Tick,
}

impl SessionTimer {
    fn start(session: u32, kind: TimerKind, now: Tick) -> SessionTimer {
        let interval = match kind {
            // Use pseudo-random intervals, so that the slots differ.
            TimerKind::Ping => 100 + u64::from(session) * 7_919 % 201,
            TimerKind::Expiry => EXPIRY,
        };
        SessionTimer { session, kind, started: now, deadline: now.saturating_add(interval) }
    }
}

/// The only clock of the program, which counts ticks of one millisecond.
#[derive(Clone, Copy, Debug)]
struct TickClock {
    start: Instant,
}

impl TickClock {
    /// Returns the current tick, rounded down: the clock is at a tick only once that much time has fully
    /// elapsed. Rounding up would make timers early.
    fn now(self) -> Tick {
        Tick(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn instant(self, tick: Tick) -> Instant {
        self.start + Duration::from_millis(tick.0)
    }
}

/// Performs jobs until the wheel thread exits, and records how late each job arrived.
fn work(
    clock: TickClock,
    jobs: Receiver<SessionTimer>,
    timers: Sender<SessionTimer>,
) -> Vec<(SessionTimer, Duration)> {
    let mut received = Vec::new();
    for timer in jobs {
        // A server would ping or close the session at this point. The wheel thread does not wait for this.
        let late = Instant::now().checked_duration_since(clock.instant(timer.deadline));
        received.push((timer, late.expect("no timer is early")));
        let again = SessionTimer::start(timer.session, timer.kind, clock.now());
        timers.send(again).expect("main holds the receiver");
    }
    received
}

fn main() {
    let clock = TickClock { start: Instant::now() };
    // Unbounded channels suffice: neither grows beyond the number of timers, because each timer is in the
    // wheel, in a channel, or with a worker.
    let (timers, set) = unbounded();
    let (jobs, due) = unbounded();
    let wheel_thread = WheelThread::new(clock, jobs);
    let (wheel, counts, received) = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let (due, timers) = (due.clone(), timers.clone());
                scope.spawn(move || work(clock, due, timers))
            })
            .collect();
        let wheel_thread = scope.spawn(|| wheel_thread.run(&set));
        for session in 0..SESSIONS {
            for kind in [TimerKind::Ping, TimerKind::Expiry] {
                timers
                    .send(SessionTimer::start(session, kind, clock.now()))
                    .expect("this thread holds the receiver");
            }
        }
        // When the wheel thread exits, it drops `jobs`, which makes the workers exit.
        let (wheel, counts) = wheel_thread.join().expect("the thread does not panic");
        let received = workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("the thread does not panic"))
            .collect();
        (wheel, counts, received)
    });
    assert_eq!(wheel.len() + set.len(), 2 * SESSIONS as usize, "no timer is lost or duplicated");
    print!("{}", RunReport { received, counts });
}
