//! Tests the lock-free synchronization of `arena/`, `timeouts/` and `parking/`, and the sweeps of `channel/`,
//! under every interleaving that loom can find.
//!
//! The files under test are compiled a second time, on loom's atomics. Testing the whole crate under `--cfg
//! loom` is not possible: that would also build Tokio for loom, without its sockets.

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

    /// Provides the guarantees of `atomic_waker::AtomicWaker` with a lock: waking takes the task registered
    /// last, and the next registration sees everything that the waking thread did before.
    #[derive(Default)]
    pub(super) struct AtomicWaker(loom::sync::Mutex<Option<std::task::Waker>>);

    impl AtomicWaker {
        pub(super) fn register(&self, waker: &std::task::Waker) {
            *self.0.lock().expect("no panic") = Some(waker.clone());
        }

        pub(super) fn take(&self) -> Option<std::task::Waker> {
            self.0.lock().expect("no panic").take()
        }
    }
}

#[allow(dead_code, reason = "no deadline has slack in these tests")]
#[path = "../src/timeouts/arming.rs"]
mod arming;
#[allow(dead_code, reason = "only a signal keeps a connection from being parked in these tests")]
#[path = "../src/parking/handover.rs"]
mod handover;
#[path = "../src/timeouts/poll_expiry.rs"]
mod poll_expiry;
#[allow(dead_code, reason = "these tests need only part of it")]
#[path = "../src/arena/slot_state.rs"]
mod slot_state;
#[path = "../src/channel/sweep.rs"]
mod sweep;
#[path = "../src/timeouts/wheel_sleep.rs"]
mod wheel_sleep;

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize;
use std::task::{Poll, Wake, Waker};

use loom::sync::Arc;
use loom::thread;

use arming::{ArmAction, Arming, NextState, RequestedDeadline, recheck_fence};
use handover::{ConnectionOwner, Handover};
use poll_expiry::poll_expiry;
use slot_state::SlotState;
use sweep::Sweep;
use sync::{AtomicBool, AtomicU32, AtomicU64, AtomicWaker, Ordering};
use wheel_sleep::WheelSleep;

const NO_SLACK: u64 = 0;

/// Models the channel of timers to arm, for a single timer: counts how often the timer is queued. It provides
/// only the ordering that every channel provides: writes before a send are visible after the receive.
#[derive(Default)]
struct TimerChannel(AtomicU64);

impl TimerChannel {
    fn send(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn take(&self) -> bool {
        let any = self.0.load(Ordering::Acquire) > 0;
        if any {
            self.0.fetch_sub(1, Ordering::AcqRel);
        }
        any
    }
}

/// State of a timer after it has fired, which depends on its owner (see `WheelLoop::announced_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum ExpiryPolicy {
    Rearm,
    #[default]
    Disarm,
    Remove,
}

/// Delay after an expiry at which a session's timer is armed again.
const REARM_DELAY: u64 = 20;

/// Models the wheel thread (`timeouts/wheel_loop/mod.rs`) with a single timer.
#[derive(Default)]
struct WheelModel {
    policy: ExpiryPolicy,
    is_registered: bool,
    entry: Option<u64>,
    expired: Vec<u64>,
}

impl WheelModel {
    fn update(&mut self, arming: &Arming) {
        let requested = arming.mark_received();
        match (self.is_registered, requested.latest(NO_SLACK)) {
            (false, None) => {}
            (false, Some(_)) => {
                self.is_registered = true;
                self.arm(arming, requested);
            }
            (true, Some(latest)) if arming.armed().is_some_and(|armed| armed <= latest) => {}
            (true, _) => self.arm(arming, arming.disarm()),
        }
    }

    fn arm(&mut self, arming: &Arming, mut requested: RequestedDeadline) {
        loop {
            if let Some(at) = requested.earliest() {
                self.entry = Some(at);
                requested = arming.set_armed(at);
                if requested != RequestedDeadline::NONE {
                    return;
                }
            } else {
                (self.is_registered, self.entry) = (false, None);
                requested = arming.remove();
                if requested == RequestedDeadline::NONE {
                    return;
                }
                self.is_registered = true;
            }
        }
    }

    fn advance(&mut self, arming: &Arming, now: u64) {
        if self.entry.take_if(|at| *at <= now).is_some() {
            let requested = arming.requested();
            let next = self.announced_state(requested, now);
            arming.announce(next);
            recheck_fence();
            if arming.requested() != requested {
                self.entry = None;
                self.arm(arming, arming.disarm());
            } else {
                self.is_registered = next != NextState::Removed;
                self.expired.extend(requested.earliest().filter(|due| *due <= now));
            }
        }
    }

    fn announced_state(&mut self, requested: RequestedDeadline, now: u64) -> NextState {
        self.entry = match (requested.earliest(), self.policy) {
            (Some(due), ExpiryPolicy::Rearm) if due <= now => Some(now + REARM_DELAY),
            (Some(due), ExpiryPolicy::Disarm) if due <= now => return NextState::Disarmed,
            (Some(due), ExpiryPolicy::Remove) if due <= now => None,
            (deadline, _) => deadline,
        };
        self.entry.map_or(NextState::Removed, NextState::Armed)
    }
}

/// Runs an owner that requests several deadlines while the wheel receives the timer and fires it. In the end,
/// the last request must have expired at its deadline, or, if the owner withdrew the deadline, the timer must
/// have left the wheel.
fn last_request_is_kept(first: RequestedDeadline, requests: &[RequestedDeadline]) {
    for policy in [ExpiryPolicy::Rearm, ExpiryPolicy::Disarm, ExpiryPolicy::Remove] {
        last_request_is_kept_if(policy, first, requests);
    }
}

fn last_request_is_kept_if(policy: ExpiryPolicy, first: RequestedDeadline, requests: &[RequestedDeadline]) {
    let requests = requests.to_vec();
    loom::model(move || {
        let last = requests.last().and_then(|deadline| deadline.earliest());
        let arming = Arc::new(Arming::new());
        let channel = Arc::new(TimerChannel::default());
        let mut wheel = WheelModel { policy, ..WheelModel::default() };
        if arming.request(first, NO_SLACK) == ArmAction::Send {
            wheel.update(&arming);
        }

        let owner = {
            let (arming, channel, requests) = (Arc::clone(&arming), Arc::clone(&channel), requests.clone());
            thread::spawn(move || {
                for deadline in requests {
                    if arming.request(deadline, NO_SLACK) == ArmAction::Send {
                        channel.send();
                    }
                }
            })
        };
        // Run one turn while the owner is active.
        if channel.take() {
            wheel.update(&arming);
        }
        wheel.advance(&arming, 50);
        owner.join().expect("the owner does not panic");

        // Run one turn after the owner has finished.
        let mut received = 0;
        while channel.take() {
            received += 1;
            wheel.update(&arming);
        }
        assert!(received <= 1, "a timer is in the channel once");
        wheel.advance(&arming, last.unwrap_or(1_000));

        match last {
            Some(last) => assert_eq!(wheel.expired.last(), Some(&last), "late: armed for {:?}", wheel.entry),
            None => assert!(!wheel.is_registered, "a timer without a deadline is left in the wheel"),
        }
    });
}

#[test]
fn an_earlier_deadline_is_never_missed() {
    last_request_is_kept(
        RequestedDeadline::NONE,
        &[RequestedDeadline::exact(80), RequestedDeadline::exact(60)],
    );
    last_request_is_kept(RequestedDeadline::exact(40), &[RequestedDeadline::exact(45)]);
    last_request_is_kept(RequestedDeadline::exact(100), &[RequestedDeadline::exact(45)]);
    last_request_is_kept(
        RequestedDeadline::exact(100),
        &[RequestedDeadline::exact(200), RequestedDeadline::exact(60)],
    );
    last_request_is_kept(
        RequestedDeadline::exact(100),
        &[RequestedDeadline::exact(80), RequestedDeadline::exact(60)],
    );
}

#[test]
fn a_later_deadline_is_found_when_the_entry_fires() {
    last_request_is_kept(RequestedDeadline::exact(40), &[RequestedDeadline::exact(300)]);
    last_request_is_kept(
        RequestedDeadline::exact(40),
        &[RequestedDeadline::exact(300), RequestedDeadline::exact(200)],
    );
}

/// While the owner requests another deadline, the timer fires and is armed again for 70.
#[test]
fn deadlines_before_and_after_the_rearmed_time_are_kept() {
    let expired = RequestedDeadline::exact(40);
    for next in [60, 70, 90] {
        let next = RequestedDeadline::exact(next);
        last_request_is_kept(expired, &[next]);
        last_request_is_kept(expired, &[RequestedDeadline::exact(300), next]);
        last_request_is_kept(expired, &[RequestedDeadline::NONE, next]);
    }
}

#[test]
fn a_withdrawn_deadline_and_the_next_one_are_kept() {
    last_request_is_kept(RequestedDeadline::exact(40), &[RequestedDeadline::NONE]);
    last_request_is_kept(
        RequestedDeadline::exact(100),
        &[RequestedDeadline::NONE, RequestedDeadline::exact(70)],
    );
}

/// The wheel arms the timer, finds the request withdrawn, and removes the timer, while the owner sees that
/// the timer is armed and relies on it.
#[test]
fn a_deadline_requested_while_the_wheel_removes_the_timer_is_kept() {
    last_request_is_kept(
        RequestedDeadline::NONE,
        &[RequestedDeadline::exact(80), RequestedDeadline::NONE, RequestedDeadline::exact(90)],
    );
}

/// Covers an owner that ends before the wheel has received its timer, while the timer fires, after it has
/// fired, and while it is sent for an earlier deadline.
#[test]
fn an_owner_that_ends_at_any_time_leaves_nothing_behind() {
    last_request_is_kept(RequestedDeadline::NONE, &[RequestedDeadline::exact(80), RequestedDeadline::NONE]);
    last_request_is_kept(RequestedDeadline::NONE, &[RequestedDeadline::exact(40), RequestedDeadline::NONE]);
    last_request_is_kept(
        RequestedDeadline::exact(40),
        &[RequestedDeadline::exact(45), RequestedDeadline::NONE],
    );
    last_request_is_kept(
        RequestedDeadline::exact(40),
        &[RequestedDeadline::exact(300), RequestedDeadline::NONE],
    );
    last_request_is_kept(
        RequestedDeadline::exact(100),
        &[RequestedDeadline::exact(45), RequestedDeadline::NONE],
    );
}

/// Either a sender whose deadline precedes the planned wake-up wakes the wheel, or the wheel finds the timer
/// before it sleeps. A lost wake-up would leave the wheel parked forever, which loom reports as a deadlock.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let wheel_sleep = Arc::new(WheelSleep::new());
        let channel = Arc::new(TimerChannel::default());
        let wheel = {
            let (wheel_sleep, channel) = (Arc::clone(&wheel_sleep), Arc::clone(&channel));
            thread::spawn(move || {
                loop {
                    if channel.take() {
                        return;
                    }
                    wheel_sleep.announce(100);
                    if !channel.take() {
                        thread::park();
                        wheel_sleep.mark_awake();
                        continue;
                    }
                    wheel_sleep.mark_awake();
                    return;
                }
            })
        };
        channel.send();
        if wheel_sleep.sleeps_beyond(50) {
            wheel.thread().unpark();
        }
        wheel.join().expect("the wheel does not panic");
    });
}

/// Two threads request a far and a near deadline for one timer. The first thread sends the timer, and the
/// second may find it queued; together they must wake the wheel for the near deadline.
#[test]
fn the_second_owners_earlier_deadline_wakes_the_wheel() {
    // Bound the preemptions, because three threads have too many interleavings to explore all of them. Those
    // with few preemptions find the known errors.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let arming = Arc::new(Arming::new());
        let wheel_sleep = Arc::new(WheelSleep::new());
        let channel = Arc::new(TimerChannel::default());
        let wheel = {
            let (arming, wheel_sleep, channel) =
                (Arc::clone(&arming), Arc::clone(&wheel_sleep), Arc::clone(&channel));
            thread::spawn(move || sleep_until_near_deadline(&arming, &wheel_sleep, &channel))
        };
        let far = arming.request(RequestedDeadline::exact(FAR), NO_SLACK);
        let second = {
            let (arming, wheel_sleep, channel) =
                (Arc::clone(&arming), Arc::clone(&wheel_sleep), Arc::clone(&channel));
            let wheel = wheel.thread().clone();
            thread::spawn(move || {
                let near = arming.request(RequestedDeadline::exact(NEAR), NO_SLACK);
                if must_wake(near, &arming, &wheel_sleep, &channel) {
                    wheel.unpark();
                }
            })
        };
        if must_wake(far, &arming, &wheel_sleep, &channel) {
            wheel.thread().unpark();
        }
        second.join().expect("an owner does not panic");
        wheel.join().expect("the wheel does not panic");
    });
}

const NEAR: u64 = 50;
const PLANNED: u64 = 100;
const FAR: u64 = 200;

/// Does the same as `Timeouts::carry_out`, but returns whether to unpark the wheel.
fn must_wake(action: ArmAction, arming: &Arming, wheel_sleep: &WheelSleep, channel: &TimerChannel) -> bool {
    if action == ArmAction::Send {
        channel.send();
    }
    action != ArmAction::Nothing
        && arming.newest_request().latest(NO_SLACK).is_some_and(|at| wheel_sleep.sleeps_beyond(at))
}

/// Runs a wheel that plans to wake up at [`PLANNED`], which is never reached, and stops when it knows the
/// near deadline. If the wheel is not woken for that deadline, it stays parked, which loom reports as a
/// deadlock.
fn sleep_until_near_deadline(arming: &Arming, wheel_sleep: &WheelSleep, channel: &TimerChannel) {
    let mut wheel = WheelModel::default();
    loop {
        while channel.take() {
            wheel.update(arming);
        }
        if wheel.entry == Some(NEAR) {
            return;
        }
        wheel_sleep.announce(PLANNED);
        if channel.take() {
            wheel.update(arming);
        } else {
            thread::park();
        }
        wheel_sleep.mark_awake();
    }
}

/// A sender whose deadline follows the planned wake-up makes no system call.
#[test]
fn a_later_deadline_does_not_wake_the_wheel() {
    let unparked = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&unparked);
    loom::model(move || {
        let wheel_sleep = Arc::new(WheelSleep::new());
        let wheel = {
            let wheel_sleep = Arc::clone(&wheel_sleep);
            thread::spawn(move || {
                wheel_sleep.announce(100);
                wheel_sleep.mark_awake();
            })
        };
        if wheel_sleep.sleeps_beyond(100) {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        wheel.join().expect("the wheel does not panic");
    });
    assert_eq!(unparked.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// Function that polls a sleep, given the registered waker, the polling task, and a check of the deadline.
type PollSleep = fn(&AtomicWaker, &Waker, &dyn Fn() -> bool) -> Poll<()>;

/// A task takes over a sleep polled by another task, while a worker handles an early expiry and the expiry at
/// the deadline. Returns the number of interleavings in which the waiting task is not woken.
fn lost_wake_ups(poll: PollSleep) -> usize {
    const DEADLINE: u64 = 1;
    let lost = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&lost);
    loom::model(move || {
        let registered = Arc::new(AtomicWaker::default());
        // Reading the clock implies no ordering.
        let clock = Arc::new(AtomicU64::new(0));
        registered.register(Waker::noop());
        let worker = {
            let (registered, clock) = (Arc::clone(&registered), Arc::clone(&clock));
            thread::spawn(move || {
                for now in [0, DEADLINE] {
                    clock.store(now, Ordering::Relaxed);
                    registered.take().into_iter().for_each(Waker::wake);
                }
            })
        };
        let task = StdArc::new(WakeFlag(AtomicBool::new(false)));
        let waker = Waker::from(StdArc::clone(&task));
        let mut worker = Some(worker);
        while poll(&registered, &waker, &|| clock.load(Ordering::Relaxed) >= DEADLINE).is_pending() {
            if !task.take() {
                // The task waits. Once the worker has finished, every wake-up has happened.
                worker.take().into_iter().for_each(|worker| worker.join().expect("no panic"));
                if !task.take() {
                    count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    break;
                }
            }
        }
    });
    lost.load(std::sync::atomic::Ordering::Relaxed)
}

struct WakeFlag(AtomicBool);

impl WakeFlag {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

impl Wake for WakeFlag {
    fn wake(self: StdArc<Self>) {
        // Swap instead of storing: loom could order a store before an earlier swap that did not see it.
        self.0.swap(true, Ordering::AcqRel);
    }
}

#[test]
fn a_sleep_loses_no_wake_up() {
    assert_eq!(lost_wake_ups(|registered, task, is_due| poll_expiry(registered, task, is_due)), 0);
}

/// Shows why `poll_expiry` registers first.
#[test]
fn reading_the_clock_before_registering_loses_a_wake_up() {
    let lost = lost_wake_ups(|registered, task, is_due| {
        if is_due() {
            return Poll::Ready(());
        }
        registered.register(task);
        Poll::Pending
    });
    assert!(lost > 0, "the model must detect this");
}

/// Models a connection that can be parked: its socket, the socket's owner, and the signals posted.
struct ConnectionModel {
    /// One mailbox per task. An unparked connection gets the next mailbox.
    mailboxes: Vec<MailboxModel>,
    session: loom::sync::Mutex<SessionModel>,
    /// Task that owns the socket.
    task: loom::sync::Mutex<Option<StdArc<WakeFlag>>>,
    /// All signals that tasks have received.
    received: AtomicU32,
    /// Number of tasks that have yet to park after their first poll.
    parks: AtomicU32,
}

struct MailboxModel {
    handover: Handover,
    waker: AtomicWaker,
}

/// State guarded by the session's lock.
#[derive(Default)]
struct SessionModel {
    /// Whether the session owns the socket.
    is_parked: bool,
    /// Index of the mailbox of the current task, or of the last one.
    mailbox: usize,
}

const PING: u32 = 1;
const READ: u32 = 2;
const CLOSE: u32 = 4;

type Guard<'a> = loom::sync::MutexGuard<'a, SessionModel>;

impl ConnectionModel {
    fn new(parks: u32) -> Self {
        let mailbox = |_| MailboxModel { handover: Handover::new(), waker: AtomicWaker::default() };
        Self {
            mailboxes: (0..=parks).map(mailbox).collect(),
            session: loom::sync::Mutex::default(),
            task: loom::sync::Mutex::default(),
            received: AtomicU32::new(0),
            parks: AtomicU32::new(parks),
        }
    }

    fn lock(&self) -> Guard<'_> {
        self.session.lock().expect("no panic")
    }

    /// Starts a task that owns the socket, polls it once, and parks the connection while `parks` allows it.
    fn begin_task(&self, mailbox: usize) {
        let task = StdArc::new(WakeFlag(AtomicBool::new(false)));
        let before = self.task.lock().expect("no panic").replace(StdArc::clone(&task));
        assert!(before.is_none(), "two tasks own the socket");
        self.poll(&task, mailbox);
        let one_less = |parks: u32| parks.checked_sub(1);
        if self.parks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            self.park(mailbox);
        }
    }

    fn poll(&self, task: &StdArc<WakeFlag>, mailbox: usize) {
        let MailboxModel { handover, waker } = &self.mailboxes[mailbox];
        waker.register(&Waker::from(StdArc::clone(task)));
        self.received.fetch_or(handover.take(), Ordering::Relaxed);
    }

    /// Parks the connection, as `Sessions::park` does. If a signal is pending, polls the task again instead.
    fn park(&self, mailbox: usize) {
        let mut session = self.lock();
        let task = self.task.lock().expect("no panic").take().expect("the current task");
        drop(self.mailboxes[mailbox].waker.take());
        if self.mailboxes[mailbox].handover.park() {
            session.is_parked = true;
            return;
        }
        *self.task.lock().expect("no panic") = Some(StdArc::clone(&task));
        drop(session);
        self.poll(&task, mailbox);
    }

    /// Unparks the connection: it gets a task and a new mailbox, which contains `signals`. Releases the
    /// session's lock.
    fn unpark(&self, mut session: Guard<'_>, signals: u32) {
        session.is_parked = false;
        session.mailbox += 1;
        let mailbox = session.mailbox;
        let _ = self.mailboxes[mailbox].handover.post(signals);
        drop(session);
        self.begin_task(mailbox);
    }

    /// Posts a signal to the task while the session's lock is held.
    fn post_with(&self, session: &Guard<'_>, signal: u32) {
        let MailboxModel { handover, waker } = &self.mailboxes[session.mailbox];
        assert_eq!(
            handover.post(signal),
            ConnectionOwner::Task,
            "the owner cannot change while the lock is held"
        );
        waker.take().into_iter().for_each(Waker::wake);
    }

    /// Posts a signal as a session step does: unparks a parked connection immediately, or posts the signal
    /// after releasing the session's lock.
    fn post(&self, signal: u32) {
        let session = self.lock();
        if session.is_parked {
            return self.unpark(session, signal);
        }
        let MailboxModel { handover, waker } = &self.mailboxes[session.mailbox];
        drop(session);
        match handover.post(signal) {
            ConnectionOwner::Task => waker.take().into_iter().for_each(Waker::wake),
            ConnectionOwner::Session => {
                let session = self.lock();
                if session.is_parked {
                    self.unpark(session, signal)
                } else {
                    self.post_with(&session, signal)
                }
            }
        }
    }

    /// Closes the connection because its partial message is too large, if it has a task.
    fn close_partial(&self) {
        let mailbox = self.lock().mailbox;
        let MailboxModel { handover, waker } = &self.mailboxes[mailbox];
        match handover.post_to_task(CLOSE) {
            ConnectionOwner::Task => waker.take().into_iter().for_each(Waker::wake),
            ConnectionOwner::Session => _ = self.received.fetch_or(CLOSE, Ordering::Relaxed),
        }
    }

    /// Delivers a message while holding the session's lock, as fan-out does. Models a parked connection whose
    /// kernel buffer does not take all of the data, so that a task must write the remainder.
    fn deliver(&self) {
        let session = self.lock();
        if session.is_parked { self.unpark(session, READ) } else { self.post_with(&session, READ) }
    }

    /// Models another connection that takes over the session.
    fn take_over(&self) {
        self.post(CLOSE);
    }

    /// Models a socket that has become readable.
    fn readable(&self) {
        let session = self.lock();
        if session.is_parked {
            self.unpark(session, 0);
        }
    }

    /// Checks the final state: the socket has one owner, and every signal was or will be received.
    fn check(&self, posted: u32) {
        let SessionModel { is_parked, mailbox } = *self.lock();
        let task = self.task.lock().expect("no panic").take();
        assert_eq!(is_parked, task.is_none(), "the socket has one owner");
        let left = self.mailboxes[mailbox].handover.take();
        assert_eq!(left & Handover::PARKED != 0, is_parked);
        let unread = left & !Handover::PARKED;
        match task {
            Some(task) => assert!(unread == 0 || task.take(), "the task is not woken for {unread:#b}"),
            // A thread that posts a signal to a parked connection sees that the connection has no task, and
            // unparks it.
            None => assert_eq!(unread, 0, "a signal of a parked connection is not received"),
        }
        assert_eq!(self.received.load(Ordering::Relaxed) | unread, posted, "a signal was lost");
    }
}

/// Parks the first one or two tasks of a connection while two other threads act on the connection.
fn two_threads_act_on_a_connection(posted: u32, first: fn(&ConnectionModel), second: fn(&ConnectionModel)) {
    for parks in [1, 2] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let connection = Arc::new(ConnectionModel::new(parks));
            let others = [first, second].map(|act| {
                let connection = Arc::clone(&connection);
                thread::spawn(move || act(&connection))
            });
            connection.begin_task(0);
            for other in others {
                other.join().expect("no panic");
            }
            connection.check(posted);
        });
    }
}

#[test]
fn parked_connection_has_one_owner_and_loses_no_signal() {
    two_threads_act_on_a_connection(PING, |one| one.post(PING), ConnectionModel::readable);
    two_threads_act_on_a_connection(PING | READ, |one| one.post(PING), ConnectionModel::deliver);
    two_threads_act_on_a_connection(PING | CLOSE, |one| one.post(PING), ConnectionModel::take_over);
    two_threads_act_on_a_connection(READ, ConnectionModel::deliver, ConnectionModel::readable);
    two_threads_act_on_a_connection(READ | CLOSE, ConnectionModel::deliver, ConnectionModel::take_over);
    two_threads_act_on_a_connection(CLOSE, ConnectionModel::take_over, ConnectionModel::readable);
    two_threads_act_on_a_connection(READ, ConnectionModel::deliver, ConnectionModel::deliver);
    two_threads_act_on_a_connection(CLOSE, ConnectionModel::close_partial, ConnectionModel::readable);
}

/// Models a slot of an arena as used by `arena/mod.rs`. Accesses to its content provide no ordering.
#[derive(Default)]
struct SlotModel {
    state: Option<SlotState>,
    content: AtomicU64,
    /// Number of times that the slot was freed without being used again.
    vacant: loom::sync::Mutex<u32>,
}

impl SlotModel {
    fn new() -> Self {
        Self { state: Some(SlotState::new()), ..Self::default() }
    }

    fn state(&self) -> &SlotState {
        self.state.as_ref().expect("set by `new`")
    }

    /// Inserts an item if the slot is free. The caller gets a reference to it.
    fn insert(&self, content: u64) -> bool {
        if std::mem::take(&mut *self.vacant.lock().expect("no panic")) == 0 {
            return false;
        }
        self.content.store(content, Ordering::Relaxed);
        self.state().occupy();
        true
    }

    fn release(&self) {
        if self.state().release() {
            self.content.store(0, Ordering::Relaxed);
            let mut vacant = self.vacant.lock().expect("no panic");
            *vacant += 1;
            assert_eq!(*vacant, 1, "freed once");
        }
    }

    /// Looks up an item. If it is found, its content must stay unchanged while it is referenced.
    fn look_up(&self, generation: u32, content: u64) {
        if self.state().acquire_if(generation) {
            assert_eq!(self.content.load(Ordering::Relaxed), content, "content of another item");
            assert_eq!(self.state().generation(), generation);
            self.release();
        }
    }
}

/// An item is removed and another inserted, while two threads each look up one of them.
#[test]
fn look_up_finds_the_requested_item_or_nothing() {
    loom::model(|| {
        let slot = Arc::new(SlotModel::new());
        *slot.vacant.lock().expect("no panic") = 1;
        assert!(slot.insert(10));
        let first = slot.state().generation();
        let second = first + 1;
        let others = [(first, 10), (second, 20)].map(|(generation, content)| {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.look_up(generation, content))
        });
        slot.release();
        let is_inserted = slot.insert(20);
        for other in others {
            other.join().expect("no panic");
        }
        if is_inserted {
            assert_eq!(slot.state().generation(), second);
            slot.release();
        }
        assert!(!slot.state().acquire_any(), "no reference is left");
        assert_eq!(*slot.vacant.lock().expect("no panic"), 1, "the slot can be reused");
    });
}

/// Models a channel with subscribers as swept by `channel/fan_out.rs`, one subscriber at a time.
struct ChannelModel {
    state: loom::sync::Mutex<ChannelModelState>,
    /// Maximum number of tasks that share a sweep.
    most_tasks: usize,
    /// Whether a task leaves the sweep only the next time it takes the lock, which is too late.
    leaves_late: bool,
    /// Tasks that were started.
    tasks: loom::sync::Mutex<Vec<thread::JoinHandle<()>>>,
    is_notifying: [AtomicBool; SUBSCRIBERS],
}

const SUBSCRIBERS: usize = 2;

/// State guarded by the channel's lock.
#[derive(Default)]
struct ChannelModelState {
    sweep: Sweep,
    last: u32,
    has_read: [u32; SUBSCRIBERS],
    is_waiting: [bool; SUBSCRIBERS],
}

impl ChannelModel {
    fn new(most_tasks: usize, leaves_late: bool) -> Self {
        let state = ChannelModelState { is_waiting: [true; SUBSCRIBERS], ..ChannelModelState::default() };
        Self {
            state: loom::sync::Mutex::new(state),
            most_tasks,
            leaves_late,
            tasks: loom::sync::Mutex::default(),
            is_notifying: std::array::from_fn(|_| AtomicBool::new(false)),
        }
    }

    fn lock(&self) -> loom::sync::MutexGuard<'_, ChannelModelState> {
        self.state.lock().expect("no panic")
    }

    fn publish(this: &Arc<Self>) {
        let begins = {
            let mut state = this.lock();
            state.last += 1;
            state.sweep.published()
        };
        if begins {
            Self::wake_some(this, false);
        }
    }

    /// Continues the sweep by one subscriber. Returns whether there may be more to notify.
    fn wake_some(this: &Arc<Self>, by_task: bool) -> bool {
        let mut run = None;
        let (has_more, missing) = {
            let mut state = this.lock();
            let ChannelModelState { sweep, is_waiting, .. } = &mut *state;
            let has_more = sweep.claim(|at| {
                run = (at..SUBSCRIBERS).find(|one| std::mem::take(&mut is_waiting[*one]));
                run.map(|one| one + 1)
            });
            if by_task && !has_more && !this.leaves_late {
                sweep.leave();
            }
            (has_more, if has_more { sweep.join(this.most_tasks) } else { 0 })
        };
        if let Some(one) = run {
            this.notify(one);
        }
        for _ in 0..missing {
            let audience = Arc::clone(this);
            let task = thread::spawn(move || {
                while Self::wake_some(&audience, true) {}
                if audience.leaves_late {
                    audience.lock().sweep.leave();
                }
            });
            this.tasks.lock().expect("no panic").push(task);
        }
        has_more
    }

    /// Makes a subscriber read to the end of the log, then wait again.
    fn notify(&self, one: usize) {
        assert!(
            !self.is_notifying[one].swap(true, Ordering::AcqRel),
            "two tasks notify one subscriber at the same time"
        );
        self.is_notifying[one].swap(false, Ordering::AcqRel);
        let mut state = self.lock();
        state.has_read[one] = state.last;
        state.is_waiting[one] = true;
    }

    /// Waits for all tasks. Returns whether every subscriber has read everything.
    fn is_quiet(&self) -> bool {
        loop {
            let Some(task) = self.tasks.lock().expect("no panic").pop() else { break };
            task.join().expect("no panic");
        }
        let mut state = self.lock();
        let all_have_read = state.has_read == [state.last; SUBSCRIBERS];
        assert!(!all_have_read || state.sweep.published(), "no sweep is in progress");
        all_have_read
    }
}

/// Publishes twice from one thread, or once each from two threads. Returns the number of interleavings in
/// which a subscriber was not notified.
fn missed_notifications(most_tasks: usize, has_other: bool, leaves_late: bool) -> usize {
    let missed_notifications = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&missed_notifications);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let audience = Arc::new(ChannelModel::new(most_tasks, leaves_late));
        let other = has_other.then(|| {
            let audience = Arc::clone(&audience);
            thread::spawn(move || ChannelModel::publish(&audience))
        });
        ChannelModel::publish(&audience);
        if !has_other {
            ChannelModel::publish(&audience);
        }
        other.into_iter().for_each(|other| other.join().expect("no panic"));
        if !audience.is_quiet() {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    missed_notifications.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn every_subscriber_receives_the_last_message_for_any_number_of_tasks() {
    for (most_tasks, has_other) in [(1, false), (1, true), (2, false)] {
        assert_eq!(missed_notifications(most_tasks, has_other, false), 0);
    }
}

/// Shows why a task must leave the sweep without releasing the lock after it has found nothing more to claim.
#[test]
fn a_task_that_leaves_too_late_misses_a_subscriber() {
    assert!(missed_notifications(1, true, true) > 0, "the model must detect this");
}
