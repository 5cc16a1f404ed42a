//! The lock-free handshakes of `arena/`, `timeouts/` and `rest/`, and the sweeps of `channel/`, under every interleaving that loom can find.
//!
//! The files under test are compiled a second time here, on loom's atomics. A test of the whole crate under
//! `--cfg loom` would build tokio for loom, too, which then has no sockets.

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

    /// What `atomic_waker::AtomicWaker` promises, on a lock: a wake-up takes the task that was registered last, and what
    /// the one who wakes did before is seen by the next registration.
    #[derive(Default)]
    pub(super) struct AtomicWaker(loom::sync::Mutex<Option<std::task::Waker>>);

    impl AtomicWaker {
        pub(super) fn register(&self, waker: &std::task::Waker) {
            *self.0.lock().expect("no one panics") = Some(waker.clone());
        }

        pub(super) fn take(&self) -> Option<std::task::Waker> {
            self.0.lock().expect("no one panics").take()
        }
    }
}

#[allow(dead_code, reason = "nothing has slack here")]
#[path = "../src/timeouts/arming.rs"]
mod arming;
#[allow(dead_code, reason = "here, nothing keeps a connection from going to rest but a note")]
#[path = "../src/rest/handover.rs"]
mod handover;
#[allow(dead_code, reason = "what has no locks of its own is not looked for")]
#[path = "../src/arena/life.rs"]
mod life;
#[path = "../src/timeouts/parking.rs"]
mod parking;
#[path = "../src/channel/sweep.rs"]
mod sweep;
#[path = "../src/timeouts/waiting.rs"]
mod waiting;

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize;
use std::task::{Poll, Wake, Waker};

use loom::sync::Arc;
use loom::thread;

use arming::{ArmAction, Arming, Next, RequestedDeadline, look_again};
use handover::{Handover, Holder};
use life::Life;
use parking::Parking;
use sweep::Sweep;
use sync::{AtomicBool, AtomicU32, AtomicU64, AtomicWaker, Ordering};
use waiting::poll_expiry;

/// Nothing has slack here.
const NO_SLACK: u64 = 0;

/// The channel of timers to arm, which knows only one timer here: how often it is in it. It orders no more than any
/// channel must: what was written before a send is seen after the receive.
#[derive(Default)]
struct Channel(AtomicU64);

impl Channel {
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

/// What becomes of a timer that has fired, as `TimerCell::once_expired` says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum OnceExpired {
    ArmedAgain,
    #[default]
    Rests,
    Leaves,
}

/// How long after an expiry a timer is armed again.
const ARMED_AGAIN_AFTER: u64 = 20;

/// The wheel thread's part, as `timeouts/wheel_loop.rs` plays it, with a single timer.
#[derive(Default)]
struct Wheel {
    once_expired: OnceExpired,
    is_registered: bool,
    entry: Option<u64>,
    expired: Vec<u64>,
}

impl Wheel {
    fn update(&mut self, arming: &Arming) {
        let requested = arming.received();
        match (self.is_registered, requested.latest(NO_SLACK)) {
            (false, None) => {}
            (false, Some(_)) => {
                self.is_registered = true;
                self.arm(arming, requested);
            }
            (true, Some(latest)) if arming.armed().is_some_and(|armed| armed <= latest) => {}
            (true, _) => self.arm(arming, arming.rest()),
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
                requested = arming.leave();
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
            let next = self.next(requested, now);
            arming.becomes(next);
            look_again();
            if arming.requested() != requested {
                self.entry = None;
                self.arm(arming, arming.rest());
            } else {
                self.is_registered = next != Next::Gone;
                self.expired.extend(requested.earliest().filter(|due| *due <= now));
            }
        }
    }

    fn next(&mut self, requested: RequestedDeadline, now: u64) -> Next {
        self.entry = match (requested.earliest(), self.once_expired) {
            (Some(due), OnceExpired::ArmedAgain) if due <= now => Some(now + ARMED_AGAIN_AFTER),
            (Some(due), OnceExpired::Rests) if due <= now => return Next::AtRest,
            (Some(due), OnceExpired::Leaves) if due <= now => None,
            (deadline, _) => deadline,
        };
        self.entry.map_or(Next::Gone, Next::Armed)
    }
}

/// The owner requests one deadline after another while the wheel receives the timer and fires. When all is quiet, the
/// last request must have been acted on, or be armed, or be on its way.
fn last_request_is_kept(first: RequestedDeadline, requests: &[RequestedDeadline]) {
    for once_expired in [OnceExpired::ArmedAgain, OnceExpired::Rests, OnceExpired::Leaves] {
        last_request_is_kept_if(once_expired, first, requests);
    }
}

fn last_request_is_kept_if(
    once_expired: OnceExpired,
    first: RequestedDeadline,
    requests: &[RequestedDeadline],
) {
    let requests = requests.to_vec();
    loom::model(move || {
        let last = requests.last().and_then(|deadline| deadline.earliest());
        let arming = Arc::new(Arming::new());
        let channel = Arc::new(Channel::default());
        let mut wheel = Wheel { once_expired, ..Wheel::default() };
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
        // One turn in the middle of it.
        if channel.take() {
            wheel.update(&arming);
        }
        wheel.advance(&arming, 50);
        owner.join().expect("the owner does not panic");

        // And one after it.
        let mut received = 0;
        while channel.take() {
            received += 1;
            wheel.update(&arming);
        }
        assert!(received <= 1, "a timer is in the channel once");
        wheel.advance(&arming, last.unwrap_or(1_000));

        match last {
            Some(last) => assert_eq!(wheel.expired.last(), Some(&last), "late: armed for {:?}", wheel.entry),
            None => assert!(!wheel.is_registered, "a timer that no one wants is left behind"),
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

/// The timer fires and is armed again for 70 meanwhile.
#[test]
fn a_deadline_on_either_side_of_that_for_which_a_timer_is_armed_again_is_kept() {
    let expired = RequestedDeadline::exact(40);
    for next in [60, 70, 90] {
        let next = RequestedDeadline::exact(next);
        last_request_is_kept(expired, &[next]);
        last_request_is_kept(expired, &[RequestedDeadline::exact(300), next]);
        last_request_is_kept(expired, &[RequestedDeadline::NONE, next]);
    }
}

#[test]
fn no_deadline_and_one_after_it_are_kept() {
    last_request_is_kept(RequestedDeadline::exact(40), &[RequestedDeadline::NONE]);
    last_request_is_kept(
        RequestedDeadline::exact(100),
        &[RequestedDeadline::NONE, RequestedDeadline::exact(70)],
    );
}

/// The wheel arms the timer, finds the request withdrawn, and lets it go, while the owner sees it armed and relies on that.
#[test]
fn a_deadline_after_none_is_seen_by_a_wheel_that_lets_the_timer_go() {
    last_request_is_kept(
        RequestedDeadline::NONE,
        &[RequestedDeadline::exact(80), RequestedDeadline::NONE, RequestedDeadline::exact(90)],
    );
}

/// Before the wheel has received its timer, while that fires or has fired, and while it is sent for an earlier deadline.
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

/// A sender whose deadline comes before the planned wake-up wakes the wheel, or the wheel finds the timer before it
/// sleeps. A lost wake-up would leave the wheel parked for good, which loom reports as a deadlock.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let parking = Arc::new(Parking::new());
        let channel = Arc::new(Channel::default());
        let wheel = {
            let (parking, channel) = (Arc::clone(&parking), Arc::clone(&channel));
            thread::spawn(move || {
                loop {
                    if channel.take() {
                        return;
                    }
                    parking.announce(100);
                    if !channel.take() {
                        thread::park();
                        parking.awake();
                        continue;
                    }
                    parking.awake();
                    return;
                }
            })
        };
        channel.send();
        if parking.sleeps_beyond(50) {
            wheel.thread().unpark();
        }
        wheel.join().expect("the wheel does not panic");
    });
}

/// Two threads request in turn for one timer: a far deadline, then a near one. The first sends the timer, the second may
/// find it sent; between them they wake the wheel for the near deadline.
#[test]
fn the_second_owners_earlier_deadline_wakes_the_wheel() {
    // Three threads have too many interleavings for all of them; those with few preemptions find what is wrong.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let arming = Arc::new(Arming::new());
        let parking = Arc::new(Parking::new());
        let channel = Arc::new(Channel::default());
        let wheel = {
            let (arming, parking, channel) =
                (Arc::clone(&arming), Arc::clone(&parking), Arc::clone(&channel));
            thread::spawn(move || sleep_until_near_deadline(&arming, &parking, &channel))
        };
        let far = arming.request(RequestedDeadline::exact(FAR), NO_SLACK);
        let second = {
            let (arming, parking, channel) =
                (Arc::clone(&arming), Arc::clone(&parking), Arc::clone(&channel));
            let wheel = wheel.thread().clone();
            thread::spawn(move || {
                let near = arming.request(RequestedDeadline::exact(NEAR), NO_SLACK);
                if must_wake(near, &arming, &parking, &channel) {
                    wheel.unpark();
                }
            })
        };
        if must_wake(far, &arming, &parking, &channel) {
            wheel.thread().unpark();
        }
        second.join().expect("an owner does not panic");
        wheel.join().expect("the wheel does not panic");
    });
}

const NEAR: u64 = 50;
const PLANNED: u64 = 100;
const FAR: u64 = 200;

/// What `Timeouts::tell_wheel` does, but for the unparking.
fn must_wake(action: ArmAction, arming: &Arming, parking: &Parking, channel: &Channel) -> bool {
    if action == ArmAction::Send {
        channel.send();
    }
    action != ArmAction::Nothing
        && arming.newest_request().latest(NO_SLACK).is_some_and(|at| parking.sleeps_beyond(at))
}

/// The wheel thread's loop: it plans to wake up at [`PLANNED`], which never comes, and ends when it knows of the near
/// deadline. If nobody wakes it for that, it is parked for good, which loom reports as a deadlock.
fn sleep_until_near_deadline(arming: &Arming, parking: &Parking, channel: &Channel) {
    let mut wheel = Wheel::default();
    loop {
        while channel.take() {
            wheel.update(arming);
        }
        if wheel.entry == Some(NEAR) {
            return;
        }
        parking.announce(PLANNED);
        if channel.take() {
            wheel.update(arming);
        } else {
            thread::park();
        }
        parking.awake();
    }
}

/// A sender whose deadline comes after the planned wake-up makes no system call.
#[test]
fn a_later_deadline_wakes_no_one() {
    let unparked = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&unparked);
    loom::model(move || {
        let parking = Arc::new(Parking::new());
        let wheel = {
            let parking = Arc::clone(&parking);
            thread::spawn(move || {
                parking.announce(100);
                parking.awake();
            })
        };
        if parking.sleeps_beyond(100) {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        wheel.join().expect("the wheel does not panic");
    });
    assert_eq!(unparked.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// A way to poll a sleep: the task registered so far, the task that polls, and whether the deadline has passed.
type PollSleep = fn(&AtomicWaker, &Waker, &dyn Fn() -> bool) -> Poll<()>;

/// A task takes over a sleep that another has polled, while a worker acts on an expiry that came too early and on the one
/// at the deadline. Returns in how many interleavings nobody wakes the task, though it waits.
fn lost_wake_ups(poll: PollSleep) -> usize {
    const DEADLINE: u64 = 1;
    let lost = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&lost);
    loom::model(move || {
        let registered = Arc::new(AtomicWaker::default());
        // The clock orders nothing by itself.
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
        let task = StdArc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(StdArc::clone(&task));
        let mut worker = Some(worker);
        while poll(&registered, &waker, &|| clock.load(Ordering::Relaxed) >= DEADLINE).is_pending() {
            if !task.take() {
                // It waits. When the worker has ended, whatever was to wake it has happened.
                worker.take().into_iter().for_each(|worker| worker.join().expect("it does not panic"));
                if !task.take() {
                    count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    break;
                }
            }
        }
    });
    lost.load(std::sync::atomic::Ordering::Relaxed)
}

struct Woken(AtomicBool);

impl Woken {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Woken {
    fn wake(self: StdArc<Self>) {
        // Not a store: loom would let that one come before a swap that did not see it.
        self.0.swap(true, Ordering::AcqRel);
    }
}

#[test]
fn a_sleep_loses_no_wake_up() {
    assert_eq!(lost_wake_ups(|registered, task, is_due| poll_expiry(registered, task, is_due)), 0);
}

/// Why `poll_expiry` registers first.
#[test]
fn a_sleep_that_read_the_clock_before_it_registers_would_lose_its_wake_up() {
    let lost = lost_wake_ups(|registered, task, is_due| {
        if is_due() {
            return Poll::Ready(());
        }
        registered.register(task);
        Poll::Pending
    });
    assert!(lost > 0, "the model must find it");
}

/// A connection that may rest: its socket, who has it, and what has become of its notes.
struct Connection {
    /// One for each of its tasks. What has been at rest gets another.
    links: Vec<Link>,
    session: loom::sync::Mutex<Session>,
    /// The task that has the socket.
    task: loom::sync::Mutex<Option<StdArc<Woken>>>,
    /// Notes that tasks have read.
    heard: AtomicU32,
    /// So many tasks go to rest after their first turn.
    rests: AtomicU32,
}

struct Link {
    handover: Handover,
    waker: AtomicWaker,
}

/// What the session's lock guards.
#[derive(Default)]
struct Session {
    /// It has the socket.
    is_resting: bool,
    /// Of the task that has it, or had it last.
    link: usize,
}

const PING: u32 = 1;
const READ: u32 = 2;
const CLOSE: u32 = 4;

type Guard<'a> = loom::sync::MutexGuard<'a, Session>;

impl Connection {
    fn new(rests: u32) -> Self {
        let link = |_| Link { handover: Handover::new(), waker: AtomicWaker::default() };
        Self {
            links: (0..=rests).map(link).collect(),
            session: loom::sync::Mutex::default(),
            task: loom::sync::Mutex::default(),
            heard: AtomicU32::new(0),
            rests: AtomicU32::new(rests),
        }
    }

    fn lock(&self) -> Guard<'_> {
        self.session.lock().expect("no one panics")
    }

    /// A task begins with the socket, has its first turn, and may rest then.
    fn begin_task(&self, link: usize) {
        let task = StdArc::new(Woken(AtomicBool::new(false)));
        let before = self.task.lock().expect("no one panics").replace(StdArc::clone(&task));
        assert!(before.is_none(), "two tasks have the socket");
        self.turn(&task, link);
        let one_less = |rests: u32| rests.checked_sub(1);
        if self.rests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            self.rest(link);
        }
    }

    fn turn(&self, task: &StdArc<Woken>, link: usize) {
        let Link { handover, waker } = &self.links[link];
        waker.register(&Waker::from(StdArc::clone(task)));
        self.heard.fetch_or(handover.take(), Ordering::Relaxed);
    }

    /// The task would rest, as `Sessions::rest` does. If there is a note, it has another turn.
    fn rest(&self, link: usize) {
        let mut session = self.lock();
        let task = self.task.lock().expect("no one panics").take().expect("it is this one");
        drop(self.links[link].waker.take());
        if self.links[link].handover.rest() {
            session.is_resting = true;
            return;
        }
        *self.task.lock().expect("no one panics") = Some(StdArc::clone(&task));
        drop(session);
        self.turn(&task, link);
    }

    /// With the session's lock, which is released: the connection gets a task and another link, in which the task finds these notes.
    fn wake(&self, mut session: Guard<'_>, notes: u32) {
        session.is_resting = false;
        session.link += 1;
        let link = session.link;
        let _ = self.links[link].handover.post(notes);
        drop(session);
        self.begin_task(link);
    }

    /// With the session's lock: a note for the task.
    fn post_with(&self, session: &Guard<'_>, note: u32) {
        let Link { handover, waker } = &self.links[session.link];
        assert_eq!(handover.post(note), Holder::Task, "with the lock, the holder is seen");
        waker.take().into_iter().for_each(Waker::wake);
    }

    /// A step wants something: at rest it acts at once; otherwise it leaves a note, after the session's lock was released, as
    /// `Sessions::carry_out` does.
    fn post(&self, note: u32) {
        let session = self.lock();
        if session.is_resting {
            return self.wake(session, note);
        }
        let Link { handover, waker } = &self.links[session.link];
        drop(session);
        match handover.post(note) {
            Holder::Task => waker.take().into_iter().for_each(Waker::wake),
            Holder::Session => {
                let session = self.lock();
                if session.is_resting { self.wake(session, note) } else { self.post_with(&session, note) }
            }
        }
    }

    /// Has the connection closed, if it has a task: it has sent too much of what has no end.
    fn cut(&self) {
        let link = self.lock().link;
        let Link { handover, waker } = &self.links[link];
        match handover.post_to_task(CLOSE) {
            Holder::Task => waker.take().into_iter().for_each(Waker::wake),
            Holder::Session => _ = self.heard.fetch_or(CLOSE, Ordering::Relaxed),
        }
    }

    /// With the session's lock: a fan-out. At rest the kernel does not take all of it, and the rest is for a task.
    fn deliver(&self) {
        let session = self.lock();
        if session.is_resting { self.wake(session, READ) } else { self.post_with(&session, READ) }
    }

    /// Another connection takes the session over.
    fn take_over(&self) {
        self.post(CLOSE);
    }

    /// There is something to read.
    fn readable(&self) {
        let session = self.lock();
        if session.is_resting {
            self.wake(session, 0);
        }
    }

    /// When all is quiet, one has the socket, and every note was heard or will be.
    fn check(&self, posted: u32) {
        let Session { is_resting, link } = *self.lock();
        let task = self.task.lock().expect("no one panics").take();
        assert_eq!(is_resting, task.is_none(), "one has the socket");
        let left = self.links[link].handover.take();
        assert_eq!(left & Handover::RESTING != 0, is_resting);
        let unheard = left & !Handover::RESTING;
        match task {
            Some(task) => assert!(unheard == 0 || task.take(), "nobody wakes the task for {unheard:#b}"),
            // Whoever has left one there has seen that nobody reads it, and has woken the connection.
            None => assert_eq!(unheard, 0, "nobody hears a note at rest"),
        }
        assert_eq!(self.heard.load(Ordering::Relaxed) | unheard, posted, "a note is lost");
    }
}

/// The first task of a connection, and the next, go to rest, while two others do something.
fn two_meet_a_connection(posted: u32, first: fn(&Connection), second: fn(&Connection)) {
    for rests in [1, 2] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let connection = Arc::new(Connection::new(rests));
            let others = [first, second].map(|act| {
                let connection = Arc::clone(&connection);
                thread::spawn(move || act(&connection))
            });
            connection.begin_task(0);
            for other in others {
                other.join().expect("it does not panic");
            }
            connection.check(posted);
        });
    }
}

#[test]
fn a_connection_at_rest_has_one_owner_and_no_note_is_lost() {
    two_meet_a_connection(PING, |one| one.post(PING), Connection::readable);
    two_meet_a_connection(PING | READ, |one| one.post(PING), Connection::deliver);
    two_meet_a_connection(PING | CLOSE, |one| one.post(PING), Connection::take_over);
    two_meet_a_connection(READ, Connection::deliver, Connection::readable);
    two_meet_a_connection(READ | CLOSE, Connection::deliver, Connection::take_over);
    two_meet_a_connection(CLOSE, Connection::take_over, Connection::readable);
    two_meet_a_connection(READ, Connection::deliver, Connection::deliver);
    two_meet_a_connection(CLOSE, Connection::cut, Connection::readable);
}

/// One slot of an arena, as `arena/mod.rs` uses it. What is in it is written and read without any order of its own.
#[derive(Default)]
struct Slot {
    life: Option<Life>,
    content: AtomicU64,
    /// How often it was given up and not taken again.
    vacant: loom::sync::Mutex<u32>,
}

impl Slot {
    fn new() -> Self {
        Self { life: Some(Life::new()), ..Self::default() }
    }

    fn life(&self) -> &Life {
        self.life.as_ref().expect("it is made with one")
    }

    /// Puts something in, if nothing is. Its hold is the caller's.
    fn enter(&self, content: u64) -> bool {
        if std::mem::take(&mut *self.vacant.lock().expect("no one panics")) == 0 {
            return false;
        }
        self.content.store(content, Ordering::Relaxed);
        self.life().begin();
        true
    }

    fn release(&self) {
        if self.life().release() {
            self.content.store(0, Ordering::Relaxed);
            let mut vacant = self.vacant.lock().expect("no one panics");
            *vacant += 1;
            assert_eq!(*vacant, 1, "it is given up once");
        }
    }

    /// Looks for one of its things. What is found has this content for as long as it is held.
    fn look(&self, generation: u32, content: u64) {
        if self.life().hold_if(generation) {
            assert_eq!(self.content.load(Ordering::Relaxed), content, "of another");
            assert_eq!(self.life().generation(), generation);
            self.release();
        }
    }
}

/// A thing leaves its slot and another comes, while two threads look for the first and for the second.
#[test]
fn a_look_up_finds_its_own_or_nothing() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        *slot.vacant.lock().expect("no one panics") = 1;
        assert!(slot.enter(10));
        let first = slot.life().generation();
        let second = first + 1;
        let others = [(first, 10), (second, 20)].map(|(generation, content)| {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.look(generation, content))
        });
        slot.release();
        let has_entered = slot.enter(20);
        for other in others {
            other.join().expect("it does not panic");
        }
        if has_entered {
            assert_eq!(slot.life().generation(), second);
            slot.release();
        }
        assert!(!slot.life().hold_any(), "nobody holds it");
        assert_eq!(*slot.vacant.lock().expect("no one panics"), 1, "another may have it");
    });
}

/// A channel with some subscribers, as `channel/fan_out.rs` sweeps it, in runs of one.
struct Audience {
    state: loom::sync::Mutex<State>,
    /// As many tasks share a sweep.
    most_tasks: usize,
    /// A task that leaves says so only when it takes the lock for the next time.
    leaves_late: bool,
    /// Tasks that were started.
    tasks: loom::sync::Mutex<Vec<thread::JoinHandle<()>>>,
    is_told: [AtomicBool; SUBSCRIBERS],
}

const SUBSCRIBERS: usize = 2;

/// What the channel's lock guards.
#[derive(Default)]
struct State {
    sweep: Sweep,
    last: u32,
    has_read: [u32; SUBSCRIBERS],
    is_waiting: [bool; SUBSCRIBERS],
}

impl Audience {
    fn new(most_tasks: usize, leaves_late: bool) -> Self {
        let state = State { is_waiting: [true; SUBSCRIBERS], ..State::default() };
        Self {
            state: loom::sync::Mutex::new(state),
            most_tasks,
            leaves_late,
            tasks: loom::sync::Mutex::default(),
            is_told: std::array::from_fn(|_| AtomicBool::new(false)),
        }
    }

    fn lock(&self) -> loom::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no one panics")
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

    /// Goes on with the sweep by one run. Returns whether there is more to claim.
    fn wake_some(this: &Arc<Self>, by_task: bool) -> bool {
        let mut run = None;
        let (has_more, missing) = {
            let mut state = this.lock();
            let State { sweep, is_waiting, .. } = &mut *state;
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
            this.tell(one);
        }
        for _ in 0..missing {
            let audience = Arc::clone(this);
            let task = thread::spawn(move || {
                while Self::wake_some(&audience, true) {}
                if audience.leaves_late {
                    audience.lock().sweep.leave();
                }
            });
            this.tasks.lock().expect("no one panics").push(task);
        }
        has_more
    }

    /// A subscriber reads to the end, and waits again.
    fn tell(&self, one: usize) {
        assert!(!self.is_told[one].swap(true, Ordering::AcqRel), "told by two at the same time");
        self.is_told[one].swap(false, Ordering::AcqRel);
        let mut state = self.lock();
        state.has_read[one] = state.last;
        state.is_waiting[one] = true;
    }

    /// When all is quiet. Returns whether everyone has read all there is.
    fn is_quiet(&self) -> bool {
        loop {
            let Some(task) = self.tasks.lock().expect("no one panics").pop() else { break };
            task.join().expect("it does not panic");
        }
        let mut state = self.lock();
        let all_have_read = state.has_read == [state.last; SUBSCRIBERS];
        assert!(!all_have_read || state.sweep.published(), "no sweep is under way");
        all_have_read
    }
}

/// One publishes twice, and maybe another once. Returns how often somebody was not told.
fn untold(most_tasks: usize, has_other: bool, leaves_late: bool) -> usize {
    let untold = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&untold);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let audience = Arc::new(Audience::new(most_tasks, leaves_late));
        let other = has_other.then(|| {
            let audience = Arc::clone(&audience);
            thread::spawn(move || Audience::publish(&audience))
        });
        Audience::publish(&audience);
        if !has_other {
            Audience::publish(&audience);
        }
        other.into_iter().for_each(|other| other.join().expect("it does not panic"));
        if !audience.is_quiet() {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    untold.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn everyone_is_told_of_the_last_however_many_tasks_share_a_sweep() {
    for (most_tasks, has_other) in [(1, false), (1, true), (2, false)] {
        assert_eq!(untold(most_tasks, has_other, false), 0);
    }
}

/// Why a task leaves with the lock held under which it found nothing to claim.
#[test]
fn a_task_that_left_later_would_leave_someone_untold() {
    assert!(untold(1, true, true) > 0, "the model must find it");
}
