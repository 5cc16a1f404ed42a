//! Tests the wheel, the workers and sleeping tasks on one thread in simulated time. The order of steps is
//! determined by a seed.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use encke_core::Timestamp;
use encke_seeds::with_seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::clock::{Clock, SimulatedTime, UnixTime};
use super::tests::{SETTINGS, SLACK};
use super::*;

const SLEEPS: usize = 12;
const STEPS: usize = 4_000;

/// State of the wheel loop.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WheelPhase {
    Turning,
    FallingAsleep(Timestamp),
    Asleep(Timestamp),
}

/// Waker that records whether it was called.
#[derive(Default)]
struct WakeFlag(AtomicBool);

impl WakeFlag {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Collects the wakers, which the test calls one by one.
#[derive(Default)]
struct WakeAll(Mutex<Vec<Waker>>);

impl ExpiryHandler for WakeAll {
    fn handle_expiry(&self, owner: TimerOwner, _: &mut Vec<Waker>) {
        assert_eq!(owner, TimerOwner::Sleep);
    }

    fn wake(&self, wakers: Vec<Waker>) {
        self.0.lock().expect("no panic").extend(wakers);
    }

    fn batch_received(&self, _: Timestamp) {}
}

struct SleepingTask {
    sleep: Pin<Box<Sleep>>,
    deadline: Timestamp,
    woken: Arc<WakeFlag>,
}

struct SleepWorld {
    rng: SmallRng,
    time: Arc<SimulatedTime>,
    timeouts: Arc<Timeouts>,
    wheel_loop: SteppedWheel,
    wheel: WheelPhase,
    wheel_woken: Arc<WakeFlag>,
    worker: ExpiryWorker<WakeAll>,
    actor: Arc<WakeAll>,
    tasks: Vec<SleepingTask>,
}

impl SleepWorld {
    fn new(seed: u64, scheme: TimerScheme) -> Self {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
        let clock = Arc::new(Clock::simulated(Arc::clone(&time), SETTINGS.stall_threshold));
        let (timeouts, to_arm) = Timeouts::new(clock, SLACK, 0);
        let (sender, batches) = crossbeam_channel::bounded(2);
        let wheel_woken = Arc::new(WakeFlag::default());
        let settings = WheelSettings { scheme, ..SETTINGS };
        let waker = Waker::from(Arc::clone(&wheel_woken));
        let loop_ = SteppedWheel::new(settings, Arc::clone(&timeouts), to_arm, sender, waker);
        let actor = Arc::new(WakeAll::default());
        let worker = ExpiryWorker::new(0, batches, Arc::clone(&actor), Arc::clone(&timeouts));
        let mut world = Self {
            rng: SmallRng::seed_from_u64(seed),
            time,
            timeouts,
            wheel_loop: loop_,
            wheel: WheelPhase::Turning,
            wheel_woken,
            worker,
            actor,
            tasks: Vec::new(),
        };
        for _ in 0..SLEEPS {
            let task = world.new_task();
            world.tasks.push(task);
        }
        world
    }

    /// Creates a task that has not been polled yet, marked as woken.
    fn new_task(&mut self) -> SleepingTask {
        let longest = 1 << self.rng.random_range(0..16);
        let deadline =
            self.timeouts.clock().now() + Duration::from_micros(self.rng.random_range(0..longest * 100));
        let woken = Arc::new(WakeFlag(AtomicBool::new(true)));
        SleepingTask { sleep: Box::pin(self.timeouts.sleep_until(deadline)), deadline, woken }
    }

    fn step_wheel(&mut self) {
        self.wheel = match self.wheel {
            WheelPhase::Turning => WheelPhase::FallingAsleep(self.wheel_loop.turn()),
            WheelPhase::FallingAsleep(until) if self.wheel_loop.prepare_sleep(until) => {
                WheelPhase::Asleep(until)
            }
            WheelPhase::Asleep(until) if !self.wheel_woken.take() && self.timeouts.clock().now() < until => {
                WheelPhase::Asleep(until)
            }
            _ => {
                self.wheel_loop.end_sleep();
                WheelPhase::Turning
            }
        };
    }

    /// Polls a task if it was woken, and replaces it when its sleep has ended.
    fn step_task(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        if !task.woken.take() {
            return;
        }
        let waker = Waker::from(Arc::clone(&task.woken));
        if task.sleep.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
            assert!(self.timeouts.clock().now() >= task.deadline, "early");
            self.tasks[index] = self.new_task();
        }
    }

    fn wake_one(&mut self) {
        let mut wakers = self.actor.0.lock().expect("no panic");
        if !wakers.is_empty() {
            let index = self.rng.random_range(0..wakers.len());
            wakers.swap_remove(index).wake();
        }
    }

    fn step(&mut self) {
        let index = self.rng.random_range(0..SLEEPS);
        match self.rng.random_range(0..10) {
            0..3 => self.step_wheel(),
            3 => _ = self.worker.handle_next(),
            4 => self.wake_one(),
            5..8 => self.step_task(index),
            // Move the sleep to another task, wake its task spuriously, or drop the sleep.
            8 => match self.rng.random_range(0..3) {
                0 => self.tasks[index].woken = Arc::new(WakeFlag(AtomicBool::new(true))),
                1 => Waker::from(Arc::clone(&self.tasks[index].woken)).wake(),
                _ => self.tasks[index] = self.new_task(),
            },
            _ => self.time.advance(Duration::from_micros(self.rng.random_range(0..2_000))),
        }
    }

    /// Runs everything that can run without advancing the time.
    fn settle(&mut self) {
        loop {
            let before = self.wheel;
            self.step_wheel();
            let mut busy = before != self.wheel || self.worker.handle_next();
            busy |= !self.actor.0.lock().expect("no panic").is_empty();
            self.wake_one();
            for index in 0..SLEEPS {
                busy |= self.tasks[index].woken.0.load(Ordering::Relaxed);
                self.step_task(index);
            }
            if !busy {
                return;
            }
        }
    }

    /// Checks the state when nothing more can run: the wheel must plan a wake-up in the future, and every
    /// sleep must have ended in time. Batches that did not fit into the dispatch channel have one more tick.
    fn check(&mut self) {
        self.settle();
        self.time.advance(SETTINGS.tick);
        self.settle();
        let WheelPhase::Asleep(until) = self.wheel else { panic!("{:?}", self.wheel) };
        let now = self.timeouts.clock().now();
        assert!(until > now, "the wake-up is planned in the past");
        for SleepingTask { deadline, .. } in &self.tasks {
            assert!(
                now < *deadline + 2 * SETTINGS.tick,
                "the sleep until {deadline:?} was not woken at {now:?}"
            );
        }
    }
}

#[test]
fn no_sleep_ends_early_or_is_lost_in_any_order_of_steps() {
    with_seeds(0..6, |seed| {
        for scheme in TimerScheme::ALL {
            if scheme.lateness(SETTINGS.tick, Duration::from_hours(24)) > Duration::ZERO {
                // This scheme is not exact to the tick.
                continue;
            }
            println!("{scheme}");
            let mut world = SleepWorld::new(seed, scheme);
            for step in 1..=STEPS {
                world.step();
                if step % 100 == 0 {
                    world.check();
                }
            }
            world.tasks.clear();
            while world.timeouts.entries() > 0 {
                world.step_wheel();
                world.time.advance(SETTINGS.tick);
            }
        }
    });
}
