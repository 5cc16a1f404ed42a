//! The wheel thread and the workers, in real time. How late they are is for benchmarks; here it is that nothing is
//! early, lost or left behind.

use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Weak;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use crossbeam_channel::unbounded;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const SETTINGS: WheelSettings = WheelSettings {
    scheme: Scheme::Hierarchical,
    tick: Duration::from_millis(1),
    stall_threshold: Duration::from_millis(500),
};
/// How much later than due a soft expiry may come.
pub(super) const SLACK: Duration = Duration::from_millis(20);

struct Rig {
    timeouts: Arc<Timeouts>,
    batches: Receiver<Batch>,
    wheel: WheelThread,
}

impl Rig {
    fn start(dispatch_batches: usize) -> Self {
        Self::start_with(dispatch_batches, SETTINGS)
    }

    fn start_with(dispatch_batches: usize, settings: WheelSettings) -> Self {
        let clock = Arc::new(Clock::new(settings.stall_threshold));
        let (timeouts, names) = Timeouts::new(clock, SLACK);
        let (sender, batches) = crossbeam_channel::bounded(dispatch_batches);
        let wheel = WheelThread::start(settings, Arc::clone(&timeouts), names, sender).expect("a thread");
        Self { timeouts, batches, wheel }
    }

    fn now(&self) -> Timestamp {
        self.timeouts.clock().now()
    }

    fn arm_new(&self, wish: Wish) -> Arc<TimerCell> {
        let cell = Arc::new(TimerCell::new(TimerName::Session(Weak::new())));
        self.timeouts.arm(&cell, wish);
        cell
    }

    /// The next `count` names to expire, in order, each with the time it was received.
    fn expire(&self, count: usize) -> Vec<(Arc<TimerCell>, Timestamp)> {
        let mut expired = Vec::new();
        while expired.len() < count {
            let batch = self.batches.recv_timeout(PATIENCE).expect("an expiry");
            expired.extend(batch.cells.into_iter().map(|cell| (cell, self.now())));
        }
        expired
    }

    /// The next names to expire are these, in this order, and none before its time.
    fn expect(&self, cells: &[(&Arc<TimerCell>, u64)]) {
        let expired = self.expire(cells.len());
        assert_eq!(expired.len(), cells.len(), "none twice");
        for ((cell, due), (expired, at)) in cells.iter().zip(expired) {
            assert!(Arc::ptr_eq(cell, &expired), "out of order");
            assert!(at.as_nanos() >= *due, "early");
        }
    }

    /// The wheel thread tells of itself after each turn; this waits until it has told so.
    fn eventually(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let clock = self.timeouts.clock();
        let until = clock.uptime() + PATIENCE;
        while !holds(self) {
            assert!(clock.uptime() < until, "in vain: {what}");
            thread::yield_now();
        }
    }
}

/// The same on every scheme, all at once. The thread's name says which one failed.
fn on_every_scheme(dispatch_batches: usize, test: impl Fn(Rig) + Sync) {
    thread::scope(|scope| {
        for scheme in Scheme::ALL {
            let test = &test;
            let settings = WheelSettings { scheme, ..SETTINGS };
            let run = move || test(Rig::start_with(dispatch_batches, settings));
            thread::Builder::new().name(scheme.to_string()).spawn_scoped(scope, run).expect("a thread");
        }
    });
}

pub(super) fn after(now: Timestamp, ms: u64) -> u64 {
    (now + Duration::from_millis(ms)).as_nanos()
}

#[test]
fn names_expire_in_the_order_of_their_deadlines_and_never_early() {
    on_every_scheme(16, |rig| {
        let now = rig.now();
        let dues = [50, 80, 110].map(|ms| after(now, ms));
        let cells = dues.map(|due| rig.arm_new(Wish::exact(due)));
        rig.expect(&[(&cells[0], dues[0]), (&cells[1], dues[1]), (&cells[2], dues[2])]);
        rig.wheel.stop();
    });
}

#[test]
fn an_earlier_wish_wakes_the_wheel_and_a_later_one_holds_it_back() {
    on_every_scheme(16, |rig| {
        let now = rig.now();
        let early = rig.arm_new(Wish::exact(after(now, 60_000)));
        let late = rig.arm_new(Wish::exact(after(now, 100)));
        rig.timeouts.arm(&late, Wish::exact(after(now, 400)));
        rig.timeouts.arm(&early, Wish::exact(after(now, 150)));
        rig.expect(&[(&early, after(now, 150)), (&late, after(now, 400))]);
        rig.wheel.stop();
    });
}

#[test]
fn an_earlier_wish_wakes_the_wheel_also_while_the_name_is_queued() {
    // Left to itself the wheel would sleep for longer than the test waits.
    let settings = WheelSettings { stall_threshold: 4 * PATIENCE, ..SETTINGS };
    let rig = Rig::start_with(16, settings);
    rig.eventually("it sleeps", |rig| rig.timeouts.parking.sleeps_beyond(after(rig.now(), 1_000)));
    let cell = rig.arm_new(Wish::exact(after(rig.now(), 3_600_000)));
    let due = after(rig.now(), 30);
    rig.timeouts.arm(&cell, Wish::exact(due));
    rig.expect(&[(&cell, due)]);
    rig.wheel.stop();
}

#[test]
fn an_unchanged_wish_is_not_sent_again() {
    let rig = Rig::start(16);
    // Within a tick, not at its end.
    let wish = Wish::exact(after(rig.now(), 60_000) / 1_000_000 * 1_000_000 + 1);
    let cell = rig.arm_new(wish);
    rig.eventually("it is armed", |rig| rig.timeouts.entries() == 1);
    assert_eq!(rig.timeouts.want(&cell, wish), Told::Enough);
    rig.wheel.stop();
}

#[test]
fn a_wheel_that_does_not_turn_is_noticed() {
    let rig = Rig::start(16);
    rig.eventually("it turns", |rig| rig.timeouts.since_last_turn() < Duration::from_secs(1));
    let timeouts = Arc::clone(&rig.timeouts);
    rig.wheel.stop();
    let (first, started) = (timeouts.since_last_turn(), timeouts.clock().uptime());
    while timeouts.clock().uptime() < started + Duration::from_millis(20) {
        thread::yield_now();
    }
    assert!(timeouts.since_last_turn() >= first + Duration::from_millis(20));
}

#[test]
fn what_wants_nothing_any_more_leaves_the_wheel() {
    on_every_scheme(16, |rig| {
        let wish = Wish::exact(after(rig.now(), 60_000));
        let cells: Vec<_> = (0..100).map(|_| rig.arm_new(wish)).collect();
        rig.eventually("all are armed", |rig| rig.timeouts.entries() == 100);
        for cell in &cells {
            rig.timeouts.arm(cell, Wish::NONE);
        }
        rig.eventually("none is", |rig| rig.timeouts.entries() == 0);
        assert!(cells.iter().all(|cell| Arc::strong_count(cell) == 1), "the wheel holds on to none");
        rig.wheel.stop();
    });
}

#[test]
fn soft_wishes_that_lie_close_are_armed_for_one_tick() {
    let rig = Rig::start(16);
    let base = after(rig.now(), 60_000) / 32_000_000 * 32_000_000;
    let cells: Vec<_> = (1..=10).map(|ms| rig.arm_new(Wish::soft(base + ms * 1_000_000))).collect();
    rig.eventually("all are armed", |rig| rig.timeouts.entries() == 10);
    let armed: HashSet<_> = cells.iter().map(|cell| cell.arming.armed()).collect();
    assert_eq!(armed, HashSet::from([Some(base + 16_000_000)]), "where a slot of the wheel begins");
    rig.wheel.stop();
}

#[test]
fn a_full_dispatch_channel_loses_nothing_and_the_wheel_turns_on() {
    const NAMES: usize = 1_000;
    on_every_scheme(1, |rig| {
        let due = after(rig.now(), 5);
        let cells: Vec<_> = (0..NAMES).map(|_| rig.arm_new(Wish::exact(due))).collect();
        let armed: HashSet<_> = cells.iter().map(Arc::as_ptr).collect();
        // No one receives: one batch in the channel, one with the wheel thread, the rest in the wheel.
        rig.eventually("the channel is full", |rig| rig.batches.is_full());
        let last_turn = rig.timeouts.stats.last_turn_nanos.load(Ordering::Relaxed);
        rig.eventually("it turns on", |rig| {
            rig.timeouts.stats.last_turn_nanos.load(Ordering::Relaxed) > last_turn
        });
        let expired = rig.expire(NAMES);
        assert_eq!(expired.len(), NAMES, "none twice");
        let expired: HashSet<_> = expired.iter().map(|(cell, _)| Arc::as_ptr(cell)).collect();
        assert_eq!(expired, armed, "none lost");
        rig.wheel.stop();
    });
}

/// Acts as the server's workers do, and panics when told to.
struct Actor {
    timeouts: Arc<Timeouts>,
    acted: Sender<()>,
    panics: AtomicUsize,
}

impl ActOnExpiry for Actor {
    fn act(&self, cell: &TimerCell, wakers: &mut Vec<Waker>) {
        let take_one = |left: usize| left.checked_sub(1);
        if self.panics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok() {
            panic!("as the test wants");
        }
        if let TimerName::Sleep(id) = cell.name {
            wakers.extend(self.timeouts.take_sleeper(id));
        }
        self.acted.send(()).expect("the test listens");
    }

    fn wake(&self, wakers: Vec<Waker>) {
        wakers.into_iter().for_each(Waker::wake);
    }

    fn taken_up(&self, _: Timestamp) {}
}

fn start_worker(rig: &Rig, panics: usize) -> (WorkerPool, Receiver<()>) {
    let (acted, listen) = unbounded();
    let actor = Actor { timeouts: Arc::clone(&rig.timeouts), acted, panics: AtomicUsize::new(panics) };
    (WorkerPool::start(1, &rig.batches, &Arc::new(actor)).expect("a thread"), listen)
}

#[test]
fn a_worker_survives_a_panic() {
    let rig = Rig::start(16);
    let now = rig.now();
    let _cells = [50, 80].map(|ms| rig.arm_new(Wish::exact(after(now, ms))));
    let (workers, acted) = start_worker(&rig, 1);
    assert_eq!(acted.recv_timeout(PATIENCE), Ok(()), "the first panics, the second is acted on");
    rig.wheel.stop();
    workers.join();
}

/// Wakes by unparking a thread.
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
fn a_sleep_ends_when_its_time_has_come() {
    on_every_scheme(16, |rig| {
        let (workers, _acted) = start_worker(&rig, 0);
        let before = rig.now();
        block_on(rig.timeouts.sleep(Duration::from_millis(30)));
        assert!(rig.now().since(before) >= Duration::from_millis(30), "early");
        block_on(rig.timeouts.sleep_until(before));
        rig.wheel.stop();
        workers.join();
    });
}

#[test]
fn a_sleep_that_is_dropped_leaves_nothing_behind() {
    let rig = Rig::start(16);
    let waker = Waker::noop();
    let mut sleeps: Vec<_> = (0..50).map(|_| Box::pin(rig.timeouts.sleep(Duration::from_secs(60)))).collect();
    for sleep in &mut sleeps {
        assert!(sleep.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    rig.eventually("all are armed", |rig| rig.timeouts.entries() == 50);
    drop(sleeps);
    rig.eventually("none is", |rig| rig.timeouts.entries() == 0);
    assert!(rig.timeouts.sleepers.is_empty());
    rig.wheel.stop();
}

#[test]
fn a_number_that_is_used_again_wakes_its_new_owner_for_nothing_and_no_harm() {
    let sleepers = Sleepers::default();
    let id = sleepers.add(Waker::noop());
    sleepers.remove(id);
    assert!(sleepers.take_waker(id).is_none(), "no one sleeps under it");
    let again = sleepers.add(Waker::noop());
    assert_eq!(again, id);
    assert!(sleepers.take_waker(id).is_some());
    sleepers.refresh(again, Waker::noop());
    sleepers.remove(again);
    assert!(sleepers.is_empty());
}
