use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::DialectName;
use encke_core::session::{
    Attach, ConnectionId, ConnectionKind, Delivery, Input, Outbox, Outputs, Phase, Session, Step,
};

use super::cell::{Advised, SessionCell, SessionHandle, SessionState, Transport};
use super::id::{ResumeToken, Secret, SessionId};
use super::link::Link;
use super::sessions::Sessions;
use super::step::token_deadline;
use crate::admission::Permit;
use crate::auth::Identity;
use crate::channel::ChannelName;

/// A connection that asks for a session.
#[derive(Clone, Debug)]
pub(crate) struct AttachRequest {
    /// The resume token that its client offers, unchecked.
    pub(crate) resume: Option<String>,
    /// The last message that its client has.
    pub(crate) seq: Option<u64>,
    /// Who its client is.
    pub(crate) identity: Identity,
    /// Where it comes from.
    pub(crate) address: IpAddr,
    /// How its bytes travel, and what it can do.
    pub(crate) kind: ConnectionKind,
    /// What they mean.
    pub(crate) dialect: DialectName,
    /// What its client has that does not say so.
    pub(crate) delivery: Delivery,
    /// Its address has not opened too many sessions lately.
    pub(crate) may_open: bool,
    /// It has no use for a new session.
    pub(crate) only_resume: bool,
}

/// A connection that has a session.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) session: SessionHandle,
    /// Whether this is the session that the client asked for.
    pub(crate) recovered: bool,
    pub(crate) link: Arc<Link>,
    pub(crate) transport: Transport,
    pub(crate) dialect: DialectName,
    /// The channels that the client's new token no longer allows.
    pub(crate) revoked: Vec<ChannelName>,
}

/// Why a connection gets no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The limit of connections is reached, or that of its address.
    TooManyConnections,
    /// The limit of sessions is reached.
    TooManySessions,
    /// The address opens too many sessions.
    TooFast,
    /// The server is going away.
    Draining,
    /// The same, and sessions go on in the next one.
    Moved,
    /// The session is another user's.
    NotTheUser,
    /// The session that the client asks for is gone, and it wants no other.
    Gone,
    /// The session that the client asks for has ended while it had no connection, for a reason that its client has not heard yet.
    Ended(CloseCode),
    /// The connection has ended already; its client has come back on another.
    Late,
}

impl Sessions {
    /// Gives a connection the session it asks for, or a new one. A connection without a permit may take over that of the
    /// connection it replaces: a client whose old connection has not been noticed as lost still gets in.
    ///
    /// A connection that has ended takes nothing over. Its client may have cut it, come back, and have been served on the
    /// newer one first; the late one must not take the session from that. So `has_ended` is asked under the session's lock.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn attach(
        self: &Arc<Self>,
        request: &AttachRequest,
        permit: Option<Permit>,
        has_ended: impl Fn() -> bool,
    ) -> Result<Attached, Refusal> {
        if self.is_draining() {
            return Err(self.draining_refusal());
        }
        let clock = self.timeouts.clock();
        let now = clock.now();
        let id = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed) + 1);
        let link = Arc::new(Link::new(id, request.address, now, permit));
        let attach = Attach {
            connection: id,
            kind: request.kind,
            seq: request.seq,
            delivery: request.delivery,
            token_expires: request.identity.expires().map(|expires| token_deadline(expires, clock, now)),
            entropy: self.entropy.number(),
        };
        let attached = |session: SessionHandle, recovered, link: Arc<Link>, revoked| {
            link.is_of(session.reference());
            let (transport, dialect) = (request.kind.into(), request.dialect);
            Attached { session, recovered, link, transport, dialect, revoked }
        };
        if let Some(offered) = &request.resume {
            let token = ResumeToken::parse(offered);
            let resumed = match &token {
                Some(token) => self.resume(token, attach, request, &link, &has_ended)?,
                None => None,
            };
            self.metrics.sessions.resumed(resumed.is_some());
            if let Some(session) = resumed {
                let revoked = self.revoke(&session);
                return Ok(attached(session, true, link, revoked));
            }
            // A client whose connection has ended does not hear it, and one of Bayeux may have another message under way.
            let is_told = request.dialect != DialectName::Bayeux && !has_ended();
            let told = |token| if is_told { self.untold.take(token) } else { self.untold.get(token) };
            if let Some(code) = token.as_ref().and_then(told) {
                return Err(Refusal::Ended(code));
            }
            if request.only_resume {
                // A drain that has begun since may be what ended it.
                return Err(if self.is_draining() { self.draining_refusal() } else { Refusal::Gone });
            }
        }
        if !request.may_open {
            return Err(Refusal::TooFast);
        }
        let session = self.open(attach, request, &link)?;
        Ok(attached(session, false, link, Vec::new()))
    }

    /// The session that this resume token is of, if there is one.
    pub(crate) fn find(&self, token: &str) -> Option<SessionHandle> {
        self.of_token(&ResumeToken::parse(token)?)
    }

    /// Why the session of this resume token is gone, if it has ended while its client could not be told, which is not to come back by itself.
    pub(crate) fn untold_end(&self, token: &str) -> Option<CloseCode> {
        self.untold.get(&ResumeToken::parse(token)?)
    }

    fn of_token(&self, token: &ResumeToken) -> Option<SessionHandle> {
        self.registry.get(token.id).filter(|session| match session.secret() {
            Some(secret) => secret.matches(&token.secret),
            None => self.unclaimed.claim(session, &token.secret),
        })
    }

    fn resume(
        &self,
        token: &ResumeToken,
        attach: Attach,
        request: &AttachRequest,
        link: &Arc<Link>,
        has_ended: impl Fn() -> bool,
    ) -> Result<Option<SessionHandle>, Refusal> {
        let Some(session) = self.of_token(token) else { return Ok(None) };
        let accepted = self.step(&session, |state, step| {
            if !state.identity.is_same_user(&request.identity) {
                return Err(Refusal::NotTheUser);
            }
            // A deadline that is due may end it right now.
            state.machine.handle_timeout(step);
            match state.machine.phase() {
                Phase::Closed(_) => return Ok(false),
                Phase::Moved => return Err(Refusal::Moved),
                Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended => {}
            }
            if matches!(state.machine.phase(), Phase::Attached(_) | Phase::BetweenPolls) && has_ended() {
                return Err(Refusal::Late);
            }
            if !link.has_permit() && !state.has_permit() {
                return Err(Refusal::TooManyConnections);
            }
            state.machine.handle(step, Input::Attach(attach));
            let accepted = state.machine.phase() == Phase::Attached(attach.connection);
            if accepted {
                // Only now: a connection that is not replaced keeps its permit.
                link.ensure_permit(|| state.take_permit());
                link.begin_after(state.machine.outbox().sent());
                state.link = Some(Arc::clone(link));
                state.transport = request.kind.into();
                state.dialect = request.dialect;
                state.identity = request.identity.clone();
            }
            Ok(accepted)
        })?;
        Ok(accepted.then_some(session))
    }

    fn open(
        self: &Arc<Self>,
        attach: Attach,
        request: &AttachRequest,
        link: &Arc<Link>,
    ) -> Result<SessionHandle, Refusal> {
        if !link.has_permit() {
            return Err(Refusal::TooManyConnections);
        }
        let now = self.timeouts.clock().now();
        // A session that asked to be resumed claims messages that a new one has never sent.
        let attach = Attach { seq: None, ..attach };
        let outbox = Outbox::new(self.limits.unacked);
        let mut outputs = Outputs::new();
        let mut step = Step { now, timeouts: &self.settings, outputs: &mut outputs };
        let machine = Session::open(&mut step, outbox, attach);
        let state = SessionState {
            machine,
            link: Some(Arc::clone(link)),
            transport: request.kind.into(),
            dialect: request.dialect,
            advised: Advised::default(),
            identity: request.identity.clone(),
            resting: None,
            suspended: None,
        };
        let (id, secret) = (SessionId::random(&self.entropy), Secret::random(&self.entropy));
        let session = self.cells.enter(|cell| cell.enter(id, Some(secret), state));
        let session = session.ok_or(Refusal::TooManySessions)?;
        // Before its first step: whatever ends the session removes it from the registry.
        while self.registry.insert(&session).is_err() {
            if !self.end_one_suspended() {
                return Err(Refusal::TooManySessions);
            }
        }
        self.metrics.sessions.phase_changed(None, Phase::Attached(attach.connection));
        self.step(&session, |state, step| {
            step.outputs.extend(outputs);
            self.enter_user(&session, state);
        });
        if let Some(user) = request.identity.user() {
            self.opened_for(&session, user, &request.identity);
        }
        if self.is_draining() {
            // Opened while the others were being closed.
            self.handle(&session, Input::Close(CloseReason::Draining));
        }
        Ok(session)
    }

    /// What follows once the session of a user can be found.
    fn opened_for(self: &Arc<Self>, session: &SessionCell, user: &str, identity: &Identity) {
        // The user may have been revoked after the token was looked at, and before this session could be found.
        if self.revocations.check(identity, self.timeouts.clock().unix_now()).is_err() {
            return self.handle(session, Input::Close(CloseReason::Kicked));
        }
        self.follow_user(session, user);
        self.join_by_token(session, identity, &Identity::ANONYMOUS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Permits;
    use crate::clock::Clock;
    use crate::config::Settings;
    use crate::context;
    use crate::entropy::Entropy;
    use crate::events::{HookSink, NoHooks};
    use crate::executor::NoTasks;
    use crate::timeouts::Timeouts;

    fn sessions() -> Arc<Sessions> {
        let config = Settings::default().resolve().expect("the defaults are valid");
        let clock = Arc::new(Clock::new(config.timers.stall_threshold));
        let (timeouts, _) = Timeouts::new(clock, config.timers.ping_slack, config.limits.slots());
        let events = Box::new(HookSink(Box::new(NoHooks)));
        context::client(&config, timeouts, Entropy::system(), Arc::new(NoTasks), events).sessions
    }

    /// At the limit of connections, a connection that claims a seq that was never sent is refused: the one that it would have
    /// replaced stays, with its permit.
    #[test]
    fn a_refused_take_over_leaves_the_permit_where_it_is() {
        let (sessions, permits) = (sessions(), Permits::new(1, usize::MAX));
        let address = std::net::IpAddr::from([127, 0, 0, 1]);
        let request = |resume, seq| AttachRequest {
            resume,
            seq,
            identity: Identity::ANONYMOUS,
            address,
            kind: ConnectionKind::Events,
            dialect: DialectName::Json,
            delivery: Delivery::AtLeastOnce,
            may_open: true,
            only_resume: true,
        };
        let attach = |request| sessions.attach(&request, permits.take(address), || false);
        let first = attach(request(None, None)).expect("the first connection");
        let token = Some(first.session.resume_token().expose().to_string());
        let refused = attach(request(token.clone(), Some(1_000))).expect_err("a seq of the future");
        assert_eq!(refused, Refusal::Gone);
        assert_eq!(permits.taken(), 1, "the first connection still has its permit");
        let second = attach(request(token, Some(0))).expect("a take-over");
        assert!(second.recovered);
        assert_eq!(permits.taken(), 1, "it was passed on");
        assert!(second.link.take_permit().is_some());
    }
}
