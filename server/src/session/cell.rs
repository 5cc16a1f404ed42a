use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use encke_core::Timestamp;
use encke_core::dialect::DialectName;
use encke_core::session::outbox::Slot;
use encke_core::session::{ConnectionKind, Phase, Session};
use parking_lot::Mutex;

use super::Channel;
use super::at_rest::AtRest;
use super::id::{ResumeToken, Secret, SessionId};
use super::link::Link;
use super::step::token_deadline;
use super::subscriptions::Followed;
use super::suspended::PlaceInLine;
use crate::admission::Rate;
use crate::auth::Identity;
use crate::channel::{Member, Subscriber};
use crate::clock::Clock;
use crate::timeouts::{Owners, TimerCell};

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

/// One session. Owned by the registry and by the task of its connection.
#[derive(Debug)]
pub(crate) struct SessionCell {
    pub(super) id: SessionId,
    /// Unknown in a session of an earlier process, until its client has come back with it.
    pub(super) secret: OnceLock<Secret>,
    pub(super) timer: Arc<TimerCell>,
    /// Of its client's commands, on whichever connection.
    pub(crate) commands: Rate,
    /// Of its client's frames.
    pub(crate) frames: Rate,
    pub(super) state: Mutex<SessionState>,
}

/// With the two counts of its `Arc`, 384 bytes: what the allocator gives for it. With one more, it would be 448.
const _: () = assert!(size_of::<SessionCell>() <= 368);

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
    /// Set while attached.
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
    pub(super) fn is_attached_to(&self, link: &Link) -> bool {
        self.machine.phase() == Phase::Attached(link.id)
    }

    /// Tells the machine when its client's token expires: before every step, since the wall clock may have been set.
    pub(super) fn note_token(&mut self, clock: &Clock, now: Timestamp) {
        if let Some(expires) = self.identity.expires() {
            self.machine.token_expires(token_deadline(expires, clock, now));
        }
    }

    /// Tells the machine when its connection last received bytes: before every step, because the machine decides by it.
    pub(super) fn note_received(&mut self) {
        if let Some(link) = &self.link {
            self.machine.received(link.received_at());
        }
    }
}

impl SessionCell {
    pub(super) fn new(
        owners: &Owners<Self>,
        id: SessionId,
        secret: impl Into<OnceLock<Secret>>,
        state: SessionState,
    ) -> Arc<Self> {
        let secret = secret.into();
        Arc::new_cyclic(|this| {
            let timer = owners.new_timer(Weak::clone(this));
            Self {
                id,
                secret,
                timer,
                commands: Rate::default(),
                frames: Rate::default(),
                state: Mutex::new(state),
            }
        })
    }

    #[must_use]
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// What its client needs to come back.
    #[must_use]
    pub(crate) fn resume_token(&self) -> ResumeToken {
        let secret = *self.secret.get().expect("whoever speaks for the session has come with its secret");
        ResumeToken { id: self.id, secret }
    }
}

impl SessionCell {
    /// Has the session's connection read, if it has one: there may be something new for it.
    pub(super) fn wake_to_read(self: &Arc<Self>) {
        self.connection_reads(self.state.lock()).into_iter().for_each(Waker::wake);
    }

    /// The client is told all of how to poll. Returns whether that is the first time.
    pub(crate) fn advise_all(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().advised.all, true)
    }

    /// Whether the client was told all of how to poll.
    pub(crate) fn is_advised(&self) -> bool {
        self.state.lock().advised.all
    }

    /// The client is told to pause before its next poll, or is no longer. Returns whether it was to.
    pub(crate) fn advise_pause(&self, pause: bool) -> bool {
        std::mem::replace(&mut self.state.lock().advised.pause, pause)
    }

    /// Where the session is in its life.
    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().machine.phase()
    }

    /// Whether the session is between two polls, of which the last came over this connection.
    pub(crate) fn is_between_polls(&self, link: &Link) -> bool {
        let state = self.state.lock();
        state.machine.phase() == Phase::BetweenPolls
            && state.link.as_ref().is_some_and(|last| last.id == link.id)
    }
}

impl Subscriber for SessionCell {
    fn tell_readable(self: &Arc<Self>, slot: Slot) -> Option<Waker> {
        let mut state = self.state.lock();
        state.machine.outbox_mut().mark_ready(slot);
        self.connection_reads(state)
    }

    fn move_on(self: &Arc<Self>, from: &Arc<Channel>, to: &Arc<Channel>, cut: Option<u64>) {
        Self::move_on(self, from, to, cut);
    }

    fn member(&self) -> Member {
        Self::member(self)
    }
}
