use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::session::outbox::Slot;
use encke_core::session::{Deadline, Phase, Session};
use parking_lot::Mutex;

use super::id::{ResumeToken, Secret, SessionId};
use super::link::{Link, Notes};
use super::store::deadline as token_deadline;
use super::subscriptions::Followed;
use crate::auth::Identity;
use crate::channel::Channel;
use crate::timeouts::{TimerCell, TimerName};

/// How a connection's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// RFC 6455.
    WebSocket,
    /// Server-sent events.
    #[serde(rename = "sse")]
    Events,
}

/// One session. The registry owns it, and the task of its connection.
#[derive(Debug)]
pub(crate) struct SessionCell {
    pub(super) id: SessionId,
    pub(super) secret: Secret,
    pub(super) timer: Arc<TimerCell>,
    pub(super) state: Mutex<SessionState>,
}

/// What the lock guards. Never held across an await, a send or a hook.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) machine: Session<Followed>,
    /// Set while attached.
    pub(super) link: Option<Arc<Link>>,
    pub(super) transport: Transport,
    /// Who its client is.
    pub(super) identity: Identity,
}

impl SessionState {
    /// Tells the machine when its client's token runs out: before every step, since the machine's clock may have been set.
    pub(super) fn note_token(&mut self, now: Timestamp) {
        if let Some(expires) = self.identity.expires() {
            self.machine.token_expires(token_deadline(expires, now));
        }
    }

    /// Tells the machine what its connection has heard: before every step, for it decides by it.
    pub(super) fn note_heard(&mut self) {
        if let Some(link) = &self.link {
            self.machine.received(link.heard_at());
        }
    }
}

/// What can be seen of a session.
#[derive(Debug)]
pub(crate) struct SessionView {
    /// Its name.
    pub(crate) id: SessionId,
    /// Where it is in its life.
    pub(crate) phase: Phase,
    /// How it is, or was last, connected.
    pub(crate) transport: Transport,
    /// Who its client is.
    pub(crate) identity: Identity,
    /// How long ago it began.
    pub(crate) age: Duration,
    /// How long ago its client was last heard of.
    pub(crate) last_heard: Duration,
    /// The number of the last message sent.
    pub(crate) seq: u64,
    /// How many messages it was sent that may not have arrived.
    pub(crate) unacked: usize,
    /// Every armed deadline, and what remains until it.
    pub(crate) deadlines: Vec<(Deadline, Duration)>,
}

impl SessionView {
    /// The phase's name in the admin API.
    pub(crate) fn phase_name(&self) -> &'static str {
        match self.phase {
            Phase::Attached(_) => "attached",
            Phase::Suspended => "suspended",
            Phase::Closed(_) => "closed",
        }
    }
}

impl SessionCell {
    pub(super) fn new(id: SessionId, secret: Secret, state: SessionState) -> Arc<Self> {
        Arc::new_cyclic(|this| {
            let timer = Arc::new(TimerCell::new(TimerName::Session(Weak::clone(this))));
            Self { id, secret, timer, state: Mutex::new(state) }
        })
    }

    /// A session that no client has.
    #[cfg(test)]
    pub(crate) fn of_no_one() -> Arc<Self> {
        let attach = encke_core::session::Attach {
            connection: encke_core::session::ConnectionId(1),
            kind: encke_core::session::ConnectionKind::Events,
            seq: None,
            token_expires: None,
            entropy: 0,
        };
        let outbox = encke_core::session::Outbox::new(1);
        let timeouts = Arc::new(encke_core::session::SessionTimeouts {
            ping_interval: Duration::MAX,
            pong_timeout: Duration::MAX,
            poll_hold: Duration::MAX,
            reconnect_window: Duration::MAX,
            idle: None,
            lifetime: None,
        });
        let machine = Session::open(Timestamp::from_nanos(0), timeouts, outbox, attach);
        let (link, transport, identity) = (None, Transport::Events, Identity::ANONYMOUS);
        Self::new(SessionId::random(), Secret::random(), SessionState { machine, link, transport, identity })
    }

    /// Its name.
    #[must_use]
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// What its client needs to come back.
    #[must_use]
    pub(crate) fn resume_token(&self) -> ResumeToken {
        ResumeToken { id: self.id, secret: self.secret }
    }

    /// The number of the last message sent on its connection: what follows goes on after it.
    #[must_use]
    pub(crate) fn sent(&self) -> u64 {
        self.state.lock().machine.outbox().sent()
    }

    /// Who its client is.
    #[must_use]
    pub(crate) fn identity(&self) -> Identity {
        self.state.lock().identity.clone()
    }

    /// The channels it follows, and how far it has read each.
    #[must_use]
    pub(crate) fn subscriptions(&self) -> Vec<(Arc<Channel>, u64)> {
        let state = self.state.lock();
        let subscriptions = state.machine.outbox().subscriptions();
        subscriptions.map(|view| (Arc::clone(&view.channel.channel), view.cursor)).collect()
    }

    /// One of its channels has something new. Returns the task of its connection, if there is one: it is to be woken.
    #[must_use]
    pub(crate) fn tell_readable(&self, slot: Slot) -> Option<Waker> {
        let mut state = self.state.lock();
        state.machine.outbox_mut().mark_ready(slot);
        state.link.as_ref()?.post(Notes::READ)
    }

    /// What can be seen of it at `now`.
    #[must_use]
    pub(crate) fn view(&self, now: Timestamp) -> SessionView {
        let mut state = self.state.lock();
        state.note_heard();
        let machine = &state.machine;
        SessionView {
            id: self.id,
            phase: machine.phase(),
            transport: state.transport,
            identity: state.identity.clone(),
            age: now.since(machine.opened_at()),
            last_heard: now.since(machine.last_received_at()),
            seq: machine.outbox().seq(),
            unacked: machine.outbox().unacked(),
            deadlines: machine.deadlines().map(|(at, deadline)| (deadline, at.since(now))).collect(),
        }
    }
}
