//! Tests the lock-free synchronization of `arena/` and `parking/` under every interleaving that loom can find.
//!
//! The files under test are compiled a second time, on loom's atomics. Testing the whole crate under `--cfg
//! loom` is not possible: that would also build Tokio for loom, without its sockets.

mod sync {
    pub(super) use super::primitives::{AtomicU64, Ordering, fence};
    pub(super) use loom::sync::atomic::AtomicU32;
}

#[path = "../../timeouts/tests/loom/sync.rs"]
mod primitives;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "only a signal keeps a connection from being parked in these tests, which export nothing"
)]
#[path = "../src/parking/handover.rs"]
mod handover;
#[allow(dead_code, unreachable_pub, reason = "these tests need only part of it, and export nothing")]
#[path = "../src/arena/slot_state.rs"]
mod slot_state;

use std::sync::Arc as StdArc;
use std::task::Waker;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use handover::{ConnectionOwner, Handover};
use primitives::{AtomicU64, AtomicWaker, Ordering, WakeFlag};
use slot_state::SlotState;

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
