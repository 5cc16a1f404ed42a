use std::sync::{Arc, Weak};
use std::task::Waker;

use encke_core::Timestamp;
use encke_core::dialect::DialectName;
use encke_core::session::outbox::Slot;
use encke_core::session::{Phase, Session};
use parking_lot::Mutex;

use super::id::{ResumeToken, Secret, SessionId};
use super::link::{Link, Notes};
use super::step::token_deadline;
use super::subscriptions::Followed;
use super::suspended::PlaceInLine;
use crate::admission::{Holder, Rate};
use crate::auth::Identity;
use crate::channel::Subscriber;
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
}

/// One session. Owned by the registry and by the task of its connection.
#[derive(Debug)]
pub(crate) struct SessionCell {
    pub(super) id: SessionId,
    pub(super) secret: Secret,
    pub(super) timer: Arc<TimerCell>,
    /// Of its client's commands, on whichever connection.
    pub(crate) commands: Rate,
    /// Of its client's frames.
    pub(crate) frames: Rate,
    pub(super) state: Mutex<SessionState>,
}

/// What the lock guards. Never held across an await, a send or a hook.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) machine: Session<Followed>,
    /// Set while attached.
    pub(super) link: Option<Arc<Link>>,
    pub(super) transport: Transport,
    pub(super) dialect: DialectName,
    /// Who its client is.
    pub(super) identity: Identity,
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
        secret: Secret,
        state: SessionState,
    ) -> Arc<Self> {
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

    /// Whom it counts for, with this connection.
    pub(crate) fn holder(&self, link: &Link) -> Holder {
        Holder::new(self.state.lock().identity.shared_user(), link.address)
    }

    /// What its client needs to come back.
    #[must_use]
    pub(crate) fn resume_token(&self) -> ResumeToken {
        ResumeToken { id: self.id, secret: self.secret }
    }
}

impl Subscriber for SessionCell {
    fn tell_readable(&self, slot: Slot) -> Option<Waker> {
        let mut state = self.state.lock();
        state.machine.outbox_mut().mark_ready(slot);
        state.link.as_ref()?.post(Notes::READ)
    }
}
