//! Tests the wheel thread and the workers in real time: no timer expires early, is lost, or is left behind.
//! Lateness is measured by benchmarks instead.

use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use encke_core::Timestamp;

use super::clock::Clock;
use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);
pub(crate) const SETTINGS: WheelSettings = WheelSettings {
    scheme: TimerScheme::Hierarchical,
    tick: Duration::from_millis(1),
    stall_threshold: Duration::from_millis(500),
    rearm_delay: Duration::from_millis(40),
};
pub(crate) const SLACK: Duration = Duration::from_millis(20);

struct Rig {
    timeouts: Arc<Timeouts>,
    batches: Receiver<ExpiryBatch>,
    wheel: WheelThread,
}

impl Rig {
    fn start(dispatch_batches: usize) -> Self {
        Self::start_with(dispatch_batches, SETTINGS)
    }

    fn start_with(dispatch_batches: usize, settings: WheelSettings) -> Self {
        let clock = Arc::new(Clock::new(settings.stall_threshold));
        let (timeouts, to_arm) = Timeouts::new(clock, SLACK, 0);
        let (sender, batches) = crossbeam_channel::bounded(dispatch_batches);
        let wheel = WheelThread::start(settings, Arc::clone(&timeouts), to_arm, sender).expect("a thread");
        Self { timeouts, batches, wheel }
    }

    fn now(&self) -> Timestamp {
        self.timeouts.clock().now()
    }

    fn arm_new(&self, deadline: RequestedDeadline) -> Arc<TimerCell> {
        let timer = new_timer();
        self.timeouts.arm(&timer, deadline);
        timer
    }

    /// Returns the next `count` timers to expire, in order, each with the time at which it was received.
    fn expire(&self, count: usize) -> Vec<(Timer, Timestamp)> {
        let mut expired = Vec::new();
        while expired.len() < count {
            let batch = self.batches.recv_timeout(TIMEOUT).expect("an expiry");
            expired.extend(batch.into_timers().map(|timer| (timer, self.now())));
        }
        expired
    }

    /// Asserts that the next timers to expire are these, in this order and not early.
    fn expect(&self, timers: &[(&Arc<TimerCell>, u64)]) {
        let expired = self.expire(timers.len());
        assert_eq!(expired.len(), timers.len(), "no timer expires twice");
        for ((timer, due), (expired, at)) in timers.iter().zip(expired) {
            assert!(Timer::Standalone(Arc::clone(timer)) == expired, "out of order");
            assert!(at.as_nanos() >= *due, "early");
        }
    }

    /// Waits until the condition holds. The wheel thread publishes its state after each turn.
    fn eventually(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let clock = self.timeouts.clock();
        let until = clock.uptime() + TIMEOUT;
        while !holds(self) {
            assert!(clock.uptime() < until, "timed out waiting until {what}");
            thread::yield_now();
        }
    }
}

/// Runs a test on all schemes in parallel. The thread's name identifies the scheme that fails.
fn on_every_scheme(dispatch_batches: usize, test: impl Fn(Rig) + Sync) {
    thread::scope(|scope| {
        for scheme in TimerScheme::ALL {
            let test = &test;
            let settings = WheelSettings { scheme, ..SETTINGS };
            let run = move || test(Rig::start_with(dispatch_batches, settings));
            thread::Builder::new().name(scheme.to_string()).spawn_scoped(scope, run).expect("a thread");
        }
    });
}

/// Creates a timer without an owner.
pub(crate) fn new_timer() -> Arc<TimerCell> {
    TimerOwners::new(TimerOwner::Log).new_timer(Weak::<()>::new())
}

pub(crate) fn after(now: Timestamp, ms: u64) -> u64 {
    (now + Duration::from_millis(ms)).as_nanos()
}

#[test]
fn timers_expire_in_the_order_of_their_deadlines_and_never_early() {
    on_every_scheme(16, |rig| {
        let now = rig.now();
        let dues = [50, 80, 110].map(|ms| after(now, ms));
        let timers = dues.map(|due| rig.arm_new(RequestedDeadline::exact(due)));
        rig.expect(&[(&timers[0], dues[0]), (&timers[1], dues[1]), (&timers[2], dues[2])]);
        rig.wheel.stop();
    });
}

#[test]
fn an_earlier_deadline_wakes_the_wheel_and_a_later_one_postpones_the_expiry() {
    on_every_scheme(16, |rig| {
        let now = rig.now();
        let early = rig.arm_new(RequestedDeadline::exact(after(now, 60_000)));
        let late = rig.arm_new(RequestedDeadline::exact(after(now, 100)));
        rig.timeouts.arm(&late, RequestedDeadline::exact(after(now, 400)));
        rig.timeouts.arm(&early, RequestedDeadline::exact(after(now, 150)));
        rig.expect(&[(&early, after(now, 150)), (&late, after(now, 400))]);
        rig.wheel.stop();
    });
}

#[test]
fn an_earlier_deadline_wakes_the_wheel_while_the_timer_is_queued() {
    // Without a wake-up, the wheel would sleep longer than the test waits.
    let settings = WheelSettings { stall_threshold: 4 * TIMEOUT, ..SETTINGS };
    let rig = Rig::start_with(16, settings);
    rig.eventually("the wheel sleeps", |rig| rig.timeouts.parking.sleeps_beyond(after(rig.now(), 1_000)));
    let timer = rig.arm_new(RequestedDeadline::exact(after(rig.now(), 3_600_000)));
    let due = after(rig.now(), 30);
    rig.timeouts.arm(&timer, RequestedDeadline::exact(due));
    rig.expect(&[(&timer, due)]);
    rig.wheel.stop();
}

#[test]
fn an_unchanged_deadline_is_not_sent_again() {
    let rig = Rig::start(16);
    // Choose a deadline within a tick rather than at its end.
    let deadline = RequestedDeadline::exact(after(rig.now(), 60_000) / 1_000_000 * 1_000_000 + 1);
    let timer = rig.arm_new(deadline);
    rig.eventually("the timer is armed", |rig| rig.timeouts.entries() == 1);
    assert_eq!(rig.timeouts.request(&timer, deadline), ArmAction::Nothing);
    rig.wheel.stop();
}

#[test]
fn a_stopped_wheel_is_detected() {
    let rig = Rig::start(16);
    rig.eventually("the wheel turns", |rig| rig.timeouts.since_last_turn() < Duration::from_secs(1));
    let timeouts = Arc::clone(&rig.timeouts);
    rig.wheel.stop();
    let (first, started) = (timeouts.since_last_turn(), timeouts.clock().uptime());
    while timeouts.clock().uptime() < started + Duration::from_millis(20) {
        thread::yield_now();
    }
    assert!(timeouts.since_last_turn() >= first + Duration::from_millis(20));
}

#[test]
fn a_timer_without_a_deadline_leaves_the_wheel() {
    on_every_scheme(16, |rig| {
        let deadline = RequestedDeadline::exact(after(rig.now(), 60_000));
        let timers: Vec<_> = (0..100).map(|_| rig.arm_new(deadline)).collect();
        rig.eventually("all are armed", |rig| rig.timeouts.entries() == 100);
        for timer in &timers {
            rig.timeouts.arm(timer, RequestedDeadline::NONE);
        }
        rig.eventually("none is armed", |rig| rig.timeouts.entries() == 0);
        assert!(timers.iter().all(|timer| Arc::strong_count(timer) == 1), "the wheel keeps no timer");
        rig.wheel.stop();
    });
}

#[test]
fn close_soft_deadlines_are_armed_for_the_same_tick() {
    let rig = Rig::start(16);
    let base = after(rig.now(), 60_000) / 32_000_000 * 32_000_000;
    let timers: Vec<_> =
        (1..=10).map(|ms| rig.arm_new(RequestedDeadline::soft(base + ms * 1_000_000))).collect();
    rig.eventually("all are armed", |rig| rig.timeouts.entries() == 10);
    let armed: HashSet<_> = timers.iter().map(|timer| timer.arming.armed()).collect();
    assert_eq!(armed, HashSet::from([Some(base + 16_000_000)]), "the start of a wheel slot");
    rig.wheel.stop();
}

#[test]
fn a_full_dispatch_channel_loses_nothing_and_does_not_stop_the_wheel() {
    const TIMERS: usize = 1_000;
    on_every_scheme(1, |rig| {
        let due = after(rig.now(), 5);
        let timers: Vec<_> = (0..TIMERS).map(|_| rig.arm_new(RequestedDeadline::exact(due))).collect();
        let armed: HashSet<_> = timers.iter().map(Arc::as_ptr).collect();
        // As long as no batch is received, one stays in the channel, one with the wheel thread, and the rest
        // in the wheel.
        rig.eventually("the channel is full", |rig| rig.batches.is_full());
        let last_turn = rig.timeouts.stats.last_turn_nanos.load(Ordering::Relaxed);
        rig.eventually("it keeps turning", |rig| {
            rig.timeouts.stats.last_turn_nanos.load(Ordering::Relaxed) > last_turn
        });
        let expired = rig.expire(TIMERS);
        assert_eq!(expired.len(), TIMERS, "no timer expires twice");
        let pointer = |(timer, _): &(Timer, Timestamp)| match timer {
            Timer::Standalone(timer) => Arc::as_ptr(timer),
            Timer::Slot(_) => panic!("no slot timers in this test"),
        };
        let expired: HashSet<_> = expired.iter().map(pointer).collect();
        assert_eq!(expired, armed, "no timer is lost");
        rig.wheel.stop();
    });
}

/// Panics for the first `panics` expiries, then handles them.
struct PanickingHandler {
    handled: Sender<()>,
    panics: AtomicUsize,
}

impl ExpiryHandler for PanickingHandler {
    fn handle_expiry(&self, _: TimerOwner, _: &mut Vec<Waker>) {
        let take_one = |left: usize| left.checked_sub(1);
        if self.panics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok() {
            panic!("panic requested by the test");
        }
        self.handled.send(()).expect("the test receives");
    }

    fn wake(&self, wakers: Vec<Waker>) {
        wakers.into_iter().for_each(Waker::wake);
    }

    fn batch_received(&self, _: Timestamp) {}
}

fn start_worker(rig: &Rig, panics: usize) -> (WorkerPool, Receiver<()>) {
    let (handled, receiver) = unbounded();
    let handler = PanickingHandler { handled, panics: AtomicUsize::new(panics) };
    (WorkerPool::start(1, &rig.batches, &Arc::new(handler), &rig.timeouts).expect("a thread"), receiver)
}

#[test]
fn a_worker_survives_a_panic() {
    let rig = Rig::start(16);
    let now = rig.now();
    let _cells = [50, 80].map(|ms| rig.arm_new(RequestedDeadline::exact(after(now, ms))));
    let (workers, handled) = start_worker(&rig, 1);
    assert_eq!(handled.recv_timeout(TIMEOUT), Ok(()), "the first panics, the second is handled");
    rig.wheel.stop();
    workers.join();
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_sleep_ends_at_its_deadline() {
    on_every_scheme(16, |rig| {
        let (workers, _handled) = start_worker(&rig, 0);
        let before = rig.now();
        block_on(rig.timeouts.sleep(Duration::from_millis(30)));
        assert!(rig.now().since(before) >= Duration::from_millis(30), "early");
        block_on(rig.timeouts.sleep_until(before));
        rig.wheel.stop();
        workers.join();
    });
}

#[test]
fn a_dropped_sleep_leaves_nothing_behind() {
    let rig = Rig::start(16);
    let task = Arc::new(Unpark(thread::current()));
    let waker = Waker::from(Arc::clone(&task));
    let mut sleeps: Vec<_> = (0..50).map(|_| Box::pin(rig.timeouts.sleep(Duration::from_secs(60)))).collect();
    for sleep in &mut sleeps {
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    rig.eventually("all are armed", |rig| rig.timeouts.entries() == 50);
    drop(sleeps);
    drop(waker);
    assert_eq!(
        Arc::strong_count(&task),
        1,
        "no timer keeps the task, although the wheel may still have timers"
    );
    rig.eventually("none is armed", |rig| rig.timeouts.entries() == 0);
    rig.wheel.stop();
}

#[test]
fn a_sleep_wakes_the_task_that_polled_it_last() {
    let rig = Rig::start(16);
    let (workers, handled) = start_worker(&rig, 0);
    let mut sleep = pin!(rig.timeouts.sleep(Duration::from_millis(30)));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    block_on(sleep);
    assert_eq!(handled.recv_timeout(TIMEOUT), Ok(()), "one expiry");
    rig.wheel.stop();
    workers.join();
    assert!(handled.is_empty());
}
