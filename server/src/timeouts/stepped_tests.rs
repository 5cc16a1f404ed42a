//! Wheel, workers and sleeping tasks on one thread in simulated time: whatever runs next is drawn from a seed.

use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Wake};

use encke_core::Timestamp;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::tests::{SETTINGS, SLACK};
use super::*;
use crate::clock::{SimulatedTime, UnixTime};
use crate::seeds::with_seeds;

const SLEEPS: usize = 12;
const STEPS: usize = 4_000;

/// Where the wheel's loop is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wheel {
    Turning,
    FallingAsleep(Timestamp),
    Asleep(Timestamp),
}

/// Set when it was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Woken {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Wakes tasks, in batches or one by one.
#[derive(Default)]
struct WakeAll(Mutex<Vec<Waker>>);

impl ActOnExpiry for WakeAll {
    fn act(&self, owner: TimerOwner, _: &mut Vec<Waker>) {
        assert_eq!(owner, TimerOwner::Sleep);
    }

    fn wake(&self, wakers: Vec<Waker>) {
        self.0.lock().expect("no one panics").extend(wakers);
    }

    fn received(&self, _: Timestamp) {}
}

struct Task {
    sleep: Pin<Box<Sleep>>,
    deadline: Timestamp,
    woken: Arc<Woken>,
}

struct World {
    rng: SmallRng,
    time: Arc<SimulatedTime>,
    timeouts: Arc<Timeouts>,
    loop_: SteppedWheel,
    wheel: Wheel,
    wheel_woken: Arc<Woken>,
    worker: Worker<WakeAll>,
    actor: Arc<WakeAll>,
    tasks: Vec<Task>,
}

impl World {
    fn new(seed: u64, scheme: Scheme) -> Self {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
        let clock = Arc::new(Clock::simulated(Arc::clone(&time), SETTINGS.stall_threshold));
        let (timeouts, to_arm) = Timeouts::new(clock, SLACK, 0);
        let (sender, batches) = crossbeam_channel::bounded(2);
        let wheel_woken = Arc::new(Woken::default());
        let settings = WheelSettings { scheme, ..SETTINGS };
        let waker = Waker::from(Arc::clone(&wheel_woken));
        let loop_ = SteppedWheel::new(settings, Arc::clone(&timeouts), to_arm, sender, waker);
        let actor = Arc::new(WakeAll::default());
        let worker = Worker::new(0, batches, Arc::clone(&actor), Arc::clone(&timeouts));
        let mut world = Self {
            rng: SmallRng::seed_from_u64(seed),
            time,
            timeouts,
            loop_,
            wheel: Wheel::Turning,
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

    /// A task that has not been polled, as if it had just been woken.
    fn new_task(&mut self) -> Task {
        let longest = 1 << self.rng.random_range(0..16);
        let deadline =
            self.timeouts.clock().now() + Duration::from_micros(self.rng.random_range(0..longest * 100));
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        Task { sleep: Box::pin(self.timeouts.sleep_until(deadline)), deadline, woken }
    }

    fn step_wheel(&mut self) {
        self.wheel = match self.wheel {
            Wheel::Turning => Wheel::FallingAsleep(self.loop_.turn()),
            Wheel::FallingAsleep(until) if self.loop_.fall_asleep(until) => Wheel::Asleep(until),
            Wheel::Asleep(until) if !self.wheel_woken.take() && self.timeouts.clock().now() < until => {
                Wheel::Asleep(until)
            }
            _ => {
                self.loop_.awake();
                Wheel::Turning
            }
        };
    }

    /// Polls a task if it was woken, and replaces it by another when its sleep is over.
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
        let mut wakers = self.actor.0.lock().expect("no one panics");
        if !wakers.is_empty() {
            let index = self.rng.random_range(0..wakers.len());
            wakers.swap_remove(index).wake();
        }
    }

    fn step(&mut self) {
        let index = self.rng.random_range(0..SLEEPS);
        match self.rng.random_range(0..10) {
            0..3 => self.step_wheel(),
            3 => _ = self.worker.act_on_next(),
            4 => self.wake_one(),
            5..8 => self.step_task(index),
            // Another task takes the sleep over, or something else wakes its task, or it is dropped.
            8 => match self.rng.random_range(0..3) {
                0 => self.tasks[index].woken = Arc::new(Woken(AtomicBool::new(true))),
                1 => Waker::from(Arc::clone(&self.tasks[index].woken)).wake(),
                _ => self.tasks[index] = self.new_task(),
            },
            _ => self.time.advance(Duration::from_micros(self.rng.random_range(0..2_000))),
        }
    }

    /// Lets everything run that can, without time passing.
    fn settle(&mut self) {
        loop {
            let before = self.wheel;
            self.step_wheel();
            let mut busy = before != self.wheel || self.worker.act_on_next();
            busy |= !self.actor.0.lock().expect("no one panics").is_empty();
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

    /// When nothing can run, the wheel plans to wake up, and every sleep has ended in time. What found the dispatch channel
    /// full has had one more tick.
    fn check(&mut self) {
        self.settle();
        self.time.advance(SETTINGS.tick);
        self.settle();
        let Wheel::Asleep(until) = self.wheel else { panic!("{:?}", self.wheel) };
        let now = self.timeouts.clock().now();
        assert!(until > now, "it would be time to wake up");
        for Task { deadline, .. } in &self.tasks {
            assert!(
                now < *deadline + 2 * SETTINGS.tick,
                "nobody wakes the sleep until {deadline:?} at {now:?}"
            );
        }
    }
}

#[test]
fn no_sleep_is_early_or_forgotten_in_any_order_of_steps() {
    with_seeds(0..6, |seed| {
        for scheme in Scheme::ALL {
            if scheme.lateness(SETTINGS.tick, Duration::from_hours(24)) > Duration::ZERO {
                // Not exact to the tick.
                continue;
            }
            println!("{scheme}");
            let mut world = World::new(seed, scheme);
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
