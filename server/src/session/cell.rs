use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use encke_core::Timestamp;
use encke_core::dialect::DialectName;
use encke_core::session::outbox::Slot;
use encke_core::session::{ConnectionId, ConnectionKind, Phase, Session};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use super::Channel;
use super::at_rest::AtRest;
use super::id::{ResumeToken, Secret, SessionId};
use super::link::Link;
use super::step::token_deadline;
use super::subscriptions::Followed;
use super::suspended::PlaceInLine;
use crate::admission::{Permit, Rate};
use crate::arena::{Arena, Held, Life, Ref, Slot as ArenaSlot};
use crate::auth::Identity;
use crate::channel::{Member, Subscriber};
use crate::clock::Clock;
use crate::timeouts::{Timer, TimerRef};

/// How a connection's bytes travel. Its names are for the admin API and for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Transport {
    /// RFC 6455.
    WebSocket,
    /// Server-sent events.
    #[serde(rename = "sse")]
    #[strum(serialize = "sse")]
    Events,
    /// Requests that are held until there is something to answer: long-polling.
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

/// One session after the other, in a slot of the arena. Held by the registry, and by the task of its connection.
///
/// Nothing in it is changed by more than one thread at a time, and none of it while nobody holds it but by [`SessionCell::enter`].
#[derive(Debug)]
pub(crate) struct SessionCell {
    index: u32,
    life: Life,
    id: SharedId,
    /// Unknown in a session of an earlier process, until its client has come back with it. Locked for a copy.
    secret: Mutex<Option<Secret>>,
    /// It is in the registry. Written with the registry's lock.
    listed: AtomicBool,
    /// Of its client's commands, on whichever connection.
    pub(crate) commands: Rate,
    /// Of its client's frames.
    pub(crate) frames: Rate,
    /// Nothing, while nobody holds it.
    state: Mutex<Option<SessionState>>,
}

/// A server holds them by the hundred thousand.
const _: () = assert!(size_of::<SessionCell>() <= 360);

/// All sessions.
pub(crate) type Cells = Arena<SessionCell>;

/// A session, for a task that outlives whoever starts it.
pub(crate) type SessionHandle = Held<SessionCell>;

/// Which session. It finds nothing once that is over.
pub(crate) type SessionRef = Ref;

/// A session's state, locked.
pub(super) type StateGuard<'a> = MappedMutexGuard<'a, SessionState>;

/// An id that is written once for each session of a slot, before anyone looks.
#[derive(Debug, Default)]
struct SharedId([AtomicU64; 2]);

/// What the session's client was told of how to poll, and keeps in mind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Advised {
    /// All there is to tell.
    pub(super) all: bool,
    /// To pause.
    pub(super) pause: bool,
}

/// What the lock guards. Never held across an await, a send or a hook.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) machine: Session<Followed>,
    /// Set while attached to a connection that is awake, and between polls.
    pub(super) link: Option<Arc<Link>>,
    pub(super) transport: Transport,
    pub(super) dialect: DialectName,
    pub(super) advised: Advised,
    /// Who its client is.
    pub(super) identity: Identity,
    /// Its connection, while that is at rest: it has no task, and whoever has this lock acts for it.
    pub(super) resting: Option<Box<dyn AtRest>>,
    /// Its place among those that are suspended.
    pub(super) suspended: Option<Box<PlaceInLine>>,
}

impl SessionState {
    pub(super) fn is_attached_to(&self, connection: ConnectionId) -> bool {
        self.machine.phase() == Phase::Attached(connection)
    }

    /// Where its connection comes from, if it is at rest.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.resting.as_ref().map(|resting| resting.link().address())
    }

    /// Whether its connection has a permit.
    pub(super) fn has_permit(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.has_permit())
            || self.resting.as_ref().is_some_and(|resting| resting.link().has_permit())
    }

    /// Takes the permit of its connection away.
    pub(super) fn take_permit(&mut self) -> Option<Permit> {
        let awake = self.link.as_ref().and_then(|link| link.take_permit());
        awake.or_else(|| self.resting.as_mut()?.link_mut().take_permit())
    }

    /// Tells the machine when its client's token expires: before every step, since the wall clock may have been set.
    pub(super) fn note_token(&mut self, clock: &Clock, now: Timestamp) {
        if let Some(expires) = self.identity.expires() {
            self.machine.token_expires(token_deadline(expires, clock, now));
        }
    }

    /// Tells the machine when its connection last received bytes: before every step, because the machine decides by it. What comes at rest
    /// it is told at once.
    pub(super) fn note_received(&mut self) {
        if let Some(link) = &self.link {
            self.machine.received(link.received_at());
        }
    }
}

impl SessionCell {
    /// A session begins in this slot, which nobody else has.
    pub(super) fn enter(&self, id: SessionId, secret: Option<Secret>, state: SessionState) {
        self.id.set(id);
        *self.secret.lock() = secret;
        self.commands.reset();
        self.frames.reset();
        *self.state.lock() = Some(state);
    }

    /// What finds it again, and does not keep it.
    pub(crate) fn reference(&self) -> SessionRef {
        Ref::of(self)
    }

    #[must_use]
    pub(crate) fn id(&self) -> SessionId {
        self.id.get()
    }

    /// What only its client knows, if that has been heard here.
    pub(super) fn secret(&self) -> Option<Secret> {
        *self.secret.lock()
    }

    /// Its client has come with its secret.
    pub(super) fn set_secret(&self, secret: Secret) {
        *self.secret.lock() = Some(secret);
    }

    /// The slot's, and so that of one session after the other: it may expire for one that is gone, and so for nothing.
    pub(super) fn timer(&self) -> TimerRef<'static> {
        Timer::OfSlot(self.index)
    }

    /// Whether it is in the registry.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed)
    }

    pub(super) fn list(&self, listed: bool) {
        self.listed.store(listed, Ordering::Relaxed);
    }

    // A ping and a delivery begin here.
    #[inline]
    pub(super) fn lock(&self) -> StateGuard<'_> {
        MutexGuard::map(self.state.lock(), |state| state.as_mut().expect("what is held has a state"))
    }

    /// What its client needs to come back.
    #[must_use]
    pub(crate) fn resume_token(&self) -> ResumeToken {
        let secret = self.secret().expect("whoever speaks for the session has come with its secret");
        ResumeToken { id: self.id(), secret }
    }
}

impl ArenaSlot for SessionCell {
    fn vacant(index: u32) -> Self {
        Self {
            index,
            life: Life::new(),
            id: SharedId::default(),
            secret: Mutex::new(None),
            listed: AtomicBool::new(false),
            commands: Rate::default(),
            frames: Rate::default(),
            state: Mutex::new(None),
        }
    }

    fn index(&self) -> u32 {
        self.index
    }

    fn life(&self) -> &Life {
        &self.life
    }

    fn vacate(&self) {
        *self.secret.lock() = None;
        let state = self.state.lock().take();
        // It may own what has locks of its own.
        drop(state);
    }
}

impl SharedId {
    fn set(&self, id: SessionId) {
        let number = id.number();
        for (half, shift) in self.0.iter().zip([64, 0]) {
            #[expect(clippy::cast_possible_truncation, reason = "it is taken apart")]
            half.store((number >> shift) as u64, Ordering::Relaxed);
        }
    }

    fn get(&self) -> SessionId {
        let [upper, lower] = self.0.each_ref().map(|half| u128::from(half.load(Ordering::Relaxed)));
        SessionId::of_number(upper << 64 | lower)
    }
}

impl SessionCell {
    /// Has the session's connection read, if it has one: there may be something new for it.
    pub(super) fn wake_to_read(&self) {
        self.connection_reads(self.lock()).into_iter().for_each(Waker::wake);
    }

    /// The client is told all of how to poll. Returns whether that is the first time.
    pub(crate) fn advise_all(&self) -> bool {
        !std::mem::replace(&mut self.lock().advised.all, true)
    }

    /// Whether the client was told all of how to poll.
    pub(crate) fn is_advised(&self) -> bool {
        self.lock().advised.all
    }

    /// The client is told to pause before its next poll, or is no longer. Returns whether it was to.
    pub(crate) fn advise_pause(&self, pause: bool) -> bool {
        std::mem::replace(&mut self.lock().advised.pause, pause)
    }

    /// Where the session is in its life.
    pub(crate) fn phase(&self) -> Phase {
        self.lock().machine.phase()
    }

    /// Whether the session is between two polls, of which the last came over this connection.
    pub(crate) fn is_between_polls(&self, link: &Link) -> bool {
        let state = self.lock();
        state.machine.phase() == Phase::BetweenPolls
            && state.link.as_ref().is_some_and(|last| last.id == link.id)
    }
}

impl Subscriber for SessionRef {
    type Home = Cells;

    fn is_there(&self, cells: &Cells) -> bool {
        cells.has(*self)
    }

    fn tell_readable(&self, cells: &Cells, slot: Slot) -> Option<Waker> {
        let session = cells.get(*self)?;
        let mut state = session.lock();
        state.machine.outbox_mut().mark_ready(slot);
        session.connection_reads(state)
    }

    fn move_on(&self, cells: &Cells, from: &Arc<Channel>, to: &Arc<Channel>, cut: Option<u64>) {
        if let Some(session) = cells.get(*self) {
            session.move_on(from, to, cut);
        }
    }

    fn member(&self, cells: &Cells, channel: &Channel) -> Option<Member> {
        cells.get(*self)?.member(channel)
    }
}
