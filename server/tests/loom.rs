//! Tests the lock-free synchronization of `arena/` and `parking/`, and the sweeps of `channel/`, under every
//! interleaving that loom can find.
//!
//! The files under test are compiled a second time, on loom's atomics. Testing the whole crate under `--cfg
//! loom` is not possible: that would also build Tokio for loom, without its sockets.

mod sync {
    pub(super) use super::primitives::{AtomicU64, Ordering, fence};
    pub(super) use loom::sync::atomic::AtomicU32;
}

#[path = "../timeouts/tests/loom/sync.rs"]
mod primitives;

#[allow(dead_code, reason = "only a signal keeps a connection from being parked in these tests")]
#[path = "../src/parking/handover.rs"]
mod handover;
#[allow(dead_code, reason = "these tests need only part of it")]
#[path = "../src/arena/slot_state.rs"]
mod slot_state;
#[path = "../src/channel/sweep.rs"]
mod sweep;

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize;
use std::task::Waker;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32};
use loom::thread;

use handover::{ConnectionOwner, Handover};
use primitives::{AtomicU64, AtomicWaker, Ordering, WakeFlag};
use slot_state::SlotState;
use sweep::Sweep;

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
        let task = WakeFlag::new();
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
