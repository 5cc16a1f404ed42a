//! A session, and its connection while it is parked.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use encke_base::arena::{Arena, OwnedSlotGuard, Slot as ArenaSlot, SlotState};
use encke_base::locks::{MappedMutexGuard, Mutex, MutexGuard, level};
use encke_core::Timestamp;
use encke_core::dialect::DialectName;
use encke_core::session::Session;
use encke_timeouts::{Timer, TimerRef};

use super::mailbox::{Mailbox, ParkedMailbox};
use super::pending_work::{DeliveryOutcome, PendingWork, ReadOutcome};
use super::rare_state::RareState;
use crate::admission::RateLimiter;
use crate::auth::Identity;
use crate::session::arrival::Arrival;
use crate::session::channels::{SessionOutbox, SubscribedChannel};
use crate::session::id::{ResumeSecret, ResumeToken, SessionId};
use crate::session::session_ref::SessionRef;
use crate::session::transport::Transport;

/// A slot of the arena, used by one session after another. Handles keep the session in it alive: the registry
/// has one, and so does the task of the session's connection.
///
/// Only one thread changes the cell at a time. While there is no handle to the cell, only
/// [`SessionCell::occupy`] changes it.
pub(crate) struct SessionCell {
    index: u32,
    life: SlotState,
    id: AtomicSessionId,
    /// Secret half of the resume token. `None` for a restored session until its client has presented it.
    /// Locked only to copy it.
    secret: Mutex<Option<ResumeSecret>>,
    /// Whether the session is in the registry. Written while holding the registry's lock.
    listed: AtomicBool,
    /// Rate of the client's commands, across its connections.
    pub(crate) commands: RateLimiter,
    /// Rate of the client's frames, across its connections.
    pub(crate) frames: RateLimiter,
    /// State of the session; `None` while there is no handle to the cell.
    state: Mutex<Option<SessionState>, level::Session>,
}

/// The size matters because a server has hundreds of thousands of cells.
const _: () = assert!(size_of::<SessionCell>() <= 360);

/// Arena of all sessions.
pub(crate) type Cells = Arena<SessionCell>;

/// Owned reference to a session, for a task that outlives its caller.
pub(crate) type SessionHandle = OwnedSlotGuard<SessionCell>;

/// Guard of a session's locked state.
pub(crate) type StateGuard<'a> = MappedMutexGuard<'a, SessionState>;

/// Session id, written once for each session that uses the slot, before other threads read it.
#[derive(Debug, Default)]
struct AtomicSessionId([AtomicU64; 2]);

/// Polling advice that the client has received and remembers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollAdvice {
    /// Whether the client received the full advice.
    pub(crate) all: bool,
    /// Whether the client was advised to pause between polls.
    pub(crate) pause: bool,
}

/// State that the session's lock protects. The lock is never held across an await, a send or a hook.
#[derive(Debug)]
pub(crate) struct SessionState {
    pub(crate) machine: Session<SubscribedChannel>,
    /// Mailbox of the connection's task. Set while the session is attached to a connection that has a task,
    /// and between polls.
    pub(crate) mailbox: Option<Arc<Mailbox>>,
    pub(crate) transport: Transport,
    pub(crate) dialect: DialectName,
    /// When the request of the session's latest connection arrived, relative to others.
    pub(crate) arrival: Arrival,
    pub(crate) poll_advice: PollAdvice,
    pub(crate) identity: Identity,
    /// The connection, while it is parked. A parked connection has no task; the thread that holds this lock
    /// acts for it.
    pub(crate) parked: Option<Box<dyn ParkedConnection>>,
    /// State that few sessions have. `None` if all of it is empty.
    pub(crate) rare: Option<Box<RareState>>,
}

/// A parked connection, implemented in `connection/parked.rs` for all transports. The session's lock is held
/// during all calls except [`ParkedConnection::unpark`], and none of them blocks.
pub(crate) trait ParkedConnection: fmt::Debug + Send {
    fn mailbox(&self) -> &ParkedMailbox;

    fn mailbox_mut(&mut self) -> &mut ParkedMailbox;

    /// Registers the socket with the poller, which reports when it becomes readable.
    fn watch(&mut self, session: &SessionCell) -> io::Result<()>;

    /// Whether, since the last ping, the kernel has seen evidence that the peer is alive.
    fn is_alive(&self) -> bool;

    /// Reads from the socket. Input proves that the peer is alive; the caller reports it to the session.
    fn read(&mut self, session: &SessionCell, now: Timestamp) -> ReadOutcome;

    /// Writes a ping and returns its seq. `sent` is the seq of the last message or gap that was sent.
    fn write_ping(&mut self, sent: u64) -> Result<u64, PendingWork>;

    /// Sends the messages in the outbox.
    fn deliver(&mut self, session: &SessionCell, outbox: &mut SessionOutbox) -> DeliveryOutcome;

    /// Starts the connection's task, or closes the connection if its session no longer needs it. Called
    /// without holding locks.
    fn unpark(self: Box<Self>, session: &SessionCell, mailbox: Arc<Mailbox>, work: PendingWork);
}

impl SessionCell {
    /// Starts a session in this vacant slot. The caller must be the only one with access to it.
    pub(crate) fn occupy(&self, id: SessionId, secret: Option<ResumeSecret>, state: SessionState) {
        self.id.set(id);
        *self.secret.lock() = secret;
        self.commands.reset();
        self.frames.reset();
        *self.state.lock() = Some(state);
    }

    /// Returns a weak reference to this session.
    pub(crate) fn reference(&self) -> SessionRef {
        SessionRef::of(self)
    }

    #[must_use]
    pub(crate) fn id(&self) -> SessionId {
        self.id.get()
    }

    /// Returns the client's secret, if it is known to this process.
    pub(crate) fn secret(&self) -> Option<ResumeSecret> {
        *self.secret.lock()
    }

    /// Stores the secret that the client has presented.
    pub(crate) fn set_secret(&self, secret: ResumeSecret) {
        *self.secret.lock() = Some(secret);
    }

    /// Returns the timer of the slot, shared by the sessions that use the slot in turn. The timer may expire
    /// for a session that has already ended, which has no effect.
    pub(crate) fn timer(&self) -> TimerRef<'static> {
        Timer::Slot(self.index)
    }

    /// Whether the session is in the registry.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_listed(&self, listed: bool) {
        self.listed.store(listed, Ordering::Relaxed);
    }

    // Inlined because every ping and every delivery begins here.
    #[inline]
    #[track_caller]
    pub(crate) fn lock(&self) -> StateGuard<'_> {
        MutexGuard::map(self.state.lock(), |state| state.as_mut().expect("a cell with a handle has a state"))
    }

    /// Returns the token with which the client resumes the session.
    #[must_use]
    pub(crate) fn resume_token(&self) -> ResumeToken {
        let secret = self.secret().expect("an attached client has presented its secret");
        ResumeToken { id: self.id(), secret }
    }
}

impl ArenaSlot for SessionCell {
    fn vacant(index: u32) -> Self {
        Self {
            index,
            life: SlotState::new(),
            id: AtomicSessionId::default(),
            secret: Mutex::new(None),
            listed: AtomicBool::new(false),
            commands: RateLimiter::default(),
            frames: RateLimiter::default(),
            state: Mutex::new(None),
        }
    }

    fn index(&self) -> u32 {
        self.index
    }

    fn slot_state(&self) -> &SlotState {
        &self.life
    }

    fn clear(&self) {
        *self.secret.lock() = None;
        let state = self.state.lock().take();
        // Drop the state after releasing the lock, because the state may own values that take locks.
        drop(state);
    }
}

impl AtomicSessionId {
    fn set(&self, id: SessionId) {
        let number = id.number();
        for (half, shift) in self.0.iter().zip([64, 0]) {
            #[expect(clippy::cast_possible_truncation, reason = "it is taken apart")]
            half.store((number >> shift) as u64, Ordering::Relaxed);
        }
    }

    fn get(&self) -> SessionId {
        let [upper, lower] = self.0.each_ref().map(|half| u128::from(half.load(Ordering::Relaxed)));
        SessionId::from_number(upper << 64 | lower)
    }
}
