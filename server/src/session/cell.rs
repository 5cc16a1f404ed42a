use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use encke_core::Timestamp;
use encke_core::dialect::DialectName;
use encke_core::session::outbox::SubscriptionSlot;
use encke_core::session::{ConnectionId, ConnectionKind, Phase, Session};
use encke_timeouts::clock::Clock;
use encke_timeouts::{Timer, TimerRef};

use super::Channel;
use super::id::{ResumeSecret, ResumeToken, SessionId};
use super::mailbox::Mailbox;
use super::parked::ParkedConnection;
use super::sessions::Sessions;
use super::step::token_deadline;
use super::subscriptions::SubscribedChannel;
use super::suspended_sessions::EvictionPosition;
use crate::admission::{Permit, RateLimiter};
use crate::arena::{Arena, OwnedSlotGuard, Slot as ArenaSlot, SlotKey, SlotState};
use crate::auth::Identity;
use crate::channel::{Member, Subscriber};
use crate::locks::{MappedMutexGuard, Mutex, MutexGuard, level};

/// How a connection's bytes are transported. The names appear in the admin API and in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Transport {
    WebSocket,
    /// Server-sent events.
    #[serde(rename = "sse")]
    #[strum(serialize = "sse")]
    Events,
    /// Long polling: a request is held until there is something to send.
    Poll,
}

impl From<ConnectionKind> for Transport {
    fn from(kind: ConnectionKind) -> Self {
        match kind {
            ConnectionKind::Stream(_) => Self::WebSocket,
            ConnectionKind::Events => Self::Events,
            ConnectionKind::Poll { .. } => Self::Poll,
        }
    }
}

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

/// Table in which channels look up the sessions of their subscribers.
#[derive(Debug)]
pub(crate) struct SessionLookup {
    pub(super) cells: Arc<Cells>,
    /// Set when [`Sessions`] is created, after this lookup.
    pub(super) sessions: OnceLock<Weak<Sessions>>,
}

impl SessionLookup {
    /// Creates a table for at most `limit` sessions.
    pub(crate) fn new(limit: usize) -> Self {
        Self { cells: Arc::new(Cells::new(limit)), sessions: OnceLock::new() }
    }

    /// Ends a session after a panic in a change of its state.
    #[cold]
    pub(super) fn end_half_changed(&self, session: &SessionCell, state: StateGuard<'_>) {
        if let Some(sessions) = self.sessions.get().and_then(Weak::upgrade) {
            sessions.end_half_changed(session, state);
        }
    }
}

/// Owned reference to a session, for a task that outlives its caller.
pub(crate) type SessionHandle = OwnedSlotGuard<SessionCell>;

/// Weak reference to a session. It can no longer be resolved once the session has ended.
pub(crate) type SessionRef = SlotKey;

/// Guard of a session's locked state.
pub(super) type StateGuard<'a> = MappedMutexGuard<'a, SessionState>;

/// Session id, written once for each session that uses the slot, before other threads read it.
#[derive(Debug, Default)]
struct AtomicSessionId([AtomicU64; 2]);

/// Polling advice that the client has received and remembers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PollAdvice {
    /// Whether the client received the full advice.
    pub(super) all: bool,
    /// Whether the client was advised to pause between polls.
    pub(super) pause: bool,
}

/// State that the session's lock protects. The lock is never held across an await, a send or a hook.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) machine: Session<SubscribedChannel>,
    /// Mailbox of the connection's task. Set while the session is attached to a connection that has a task,
    /// and between polls.
    pub(super) mailbox: Option<Arc<Mailbox>>,
    pub(super) transport: Transport,
    pub(super) dialect: DialectName,
    pub(super) poll_advice: PollAdvice,
    pub(super) identity: Identity,
    /// The connection, while it is parked. A parked connection has no task; the thread that holds this lock
    /// acts for it.
    pub(super) parked: Option<Box<dyn ParkedConnection>>,
    /// Position of a suspended session in the order of eviction.
    pub(super) eviction_position: Option<Box<EvictionPosition>>,
}

impl SessionState {
    pub(super) fn is_attached_to(&self, connection: ConnectionId) -> bool {
        self.machine.phase() == Phase::Attached(connection)
    }

    /// Returns the address of the parked connection, if there is one.
    pub(super) fn parked_address(&self) -> Option<IpAddr> {
        self.parked.as_ref().map(|parked| parked.mailbox().address())
    }

    /// Whether the session's connection has a permit.
    pub(super) fn has_permit(&self) -> bool {
        self.mailbox.as_ref().is_some_and(|mailbox| mailbox.has_permit())
            || self.parked.as_ref().is_some_and(|parked| parked.mailbox().has_permit())
    }

    /// Takes the permit of the session's connection.
    pub(super) fn take_permit(&mut self) -> Option<Permit> {
        let from_task = self.mailbox.as_ref().and_then(|mailbox| mailbox.take_permit());
        from_task.or_else(|| self.parked.as_mut()?.mailbox_mut().take_permit())
    }

    /// Passes the token's expiry to the state machine. Called before every step, because the wall clock may
    /// have been set.
    pub(super) fn sync_token_expiry(&mut self, clock: &Clock, now: Timestamp) {
        if let Some(expires) = self.identity.expires() {
            self.machine.token_expires(token_deadline(expires, clock, now));
        }
    }

    /// Passes the time of the connection's last input to the state machine. Called before every step, because
    /// the machine's decisions depend on it. Input of a parked connection is reported when it is read.
    pub(super) fn sync_last_received(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            self.machine.received(mailbox.received_at());
        }
    }
}

impl SessionCell {
    /// Starts a session in this vacant slot. The caller must be the only one with access to it.
    pub(super) fn occupy(&self, id: SessionId, secret: Option<ResumeSecret>, state: SessionState) {
        self.id.set(id);
        *self.secret.lock() = secret;
        self.commands.reset();
        self.frames.reset();
        *self.state.lock() = Some(state);
    }

    /// Returns a weak reference to this session.
    pub(crate) fn reference(&self) -> SessionRef {
        SlotKey::of(self)
    }

    #[must_use]
    pub(crate) fn id(&self) -> SessionId {
        self.id.get()
    }

    /// Returns the client's secret, if it is known to this process.
    pub(super) fn secret(&self) -> Option<ResumeSecret> {
        *self.secret.lock()
    }

    /// Stores the secret that the client has presented.
    pub(super) fn set_secret(&self, secret: ResumeSecret) {
        *self.secret.lock() = Some(secret);
    }

    /// Returns the timer of the slot, shared by the sessions that use the slot in turn. The timer may expire
    /// for a session that has already ended, which has no effect.
    pub(super) fn timer(&self) -> TimerRef<'static> {
        Timer::Slot(self.index)
    }

    /// Whether the session is in the registry.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed)
    }

    pub(super) fn set_listed(&self, listed: bool) {
        self.listed.store(listed, Ordering::Relaxed);
    }

    // Inlined because every ping and every delivery begins here.
    #[inline]
    #[track_caller]
    pub(super) fn lock(&self) -> StateGuard<'_> {
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

impl SessionCell {
    /// Records that the client received the full polling advice. Returns whether this is the first time.
    pub(crate) fn mark_advised(&self) -> bool {
        !std::mem::replace(&mut self.lock().poll_advice.all, true)
    }

    /// Whether the client received the full polling advice.
    pub(crate) fn is_advised(&self) -> bool {
        self.lock().poll_advice.all
    }

    /// Records whether the client is advised to pause before its next poll. Returns the previous value.
    pub(crate) fn set_pause_advised(&self, pause: bool) -> bool {
        std::mem::replace(&mut self.lock().poll_advice.pause, pause)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().machine.phase()
    }

    /// Whether the session is between polls, and its last poll arrived over this connection.
    pub(crate) fn is_between_polls(&self, mailbox: &Mailbox) -> bool {
        let state = self.lock();
        state.machine.phase() == Phase::BetweenPolls
            && state.mailbox.as_ref().is_some_and(|last| last.id == mailbox.id)
    }
}

impl Subscriber for SessionRef {
    type Registry = SessionLookup;

    fn exists(&self, lookup: &SessionLookup) -> bool {
        lookup.cells.contains(*self)
    }

    fn notify_readable(&self, lookup: &SessionLookup, slot: SubscriptionSlot) -> Option<Waker> {
        let session = lookup.cells.get(*self)?;
        session.deliver(lookup, |state| state.machine.outbox_mut().mark_ready(slot))
    }

    fn move_to(&self, lookup: &SessionLookup, from: &Arc<Channel>, to: &Arc<Channel>, cut: Option<u64>) {
        if let Some(session) = lookup.cells.get(*self) {
            session.move_on(lookup, from, to, cut);
        }
    }

    fn member(&self, lookup: &SessionLookup, channel: &Channel) -> Option<Member> {
        lookup.cells.get(*self)?.member(channel)
    }
}
