use std::sync::Arc;
use std::sync::atomic::Ordering;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::DialectName;
use encke_core::session::{Attach, ConnectionId, DeliveryMode, Input, Outputs, Phase, Session, StepContext};

use super::attach_request::{AttachRefusal, AttachRequest, Attached};
use super::sessions::Sessions;
use crate::admission::Permit;
use crate::auth::Identity;
use crate::session::arrival::Arrival;
use crate::session::id::{ResumeSecret, ResumeToken, SessionId};
use crate::session::reported_positions::ReportedPositions;
use crate::session::table::{
    Mailbox, PollAdvice, SessionCell, SessionHandle, SessionState, SharedState, token_deadline,
};

impl Sessions {
    /// Attaches a connection to the session it asks for, or to a new one. A connection without a permit may
    /// inherit the permit of the connection that it replaces, so a client can reconnect at the limit even if
    /// the server has not noticed yet that its old connection is lost.
    ///
    /// A connection that has already ended, or whose request arrived before that of the session's connection,
    /// does not take over a session. Its client may have abandoned it and reconnected, and the newer connection
    /// may have been attached first; the late request must not take the session from the newer connection.
    /// `has_ended` is called while the session's lock is held, so that no other connection is attached meanwhile.
    ///
    /// # Errors
    /// Returns an [`AttachRefusal`] if the connection is not given a session.
    pub(crate) fn attach(
        &self,
        request: &AttachRequest,
        permit: Option<Permit>,
        has_ended: impl Fn() -> bool,
    ) -> Result<Attached, AttachRefusal> {
        if self.is_draining() {
            return Err(self.draining_refusal());
        }
        let clock = self.timeouts.clock();
        let now = clock.now();
        let id = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed) + 1);
        let mailbox = Arc::new(Mailbox::new(id, request.address, now, permit));
        let attach = Attach {
            connection: id,
            kind: request.wanted.kind,
            seq: request.wanted.seq,
            delivery: request.wanted.delivery,
            token_expires: request.identity.expires().map(|expires| token_deadline(expires, clock, now)),
            entropy: self.entropy.number(),
        };
        let attached = |session: SessionHandle, recovered, mailbox: Arc<Mailbox>, revoked| {
            mailbox.set_session(session.reference());
            let (transport, dialect) = (request.wanted.kind.into(), request.wanted.dialect);
            Attached { session, recovered, mailbox, transport, dialect, revoked }
        };
        if let Some(offered) = &request.wanted.resume {
            let token = ResumeToken::parse(offered);
            let resumed = match &token {
                Some(token) => self.resume(token, attach, request, &mailbox, &has_ended)?,
                None => None,
            };
            self.metrics.sessions.resumed(resumed.is_some());
            if let Some(session) = resumed {
                let revoked = self.subscriptions.revoke_forbidden(&session);
                return Ok(attached(session, true, mailbox, revoked));
            }
            // Keep the entry if this close code might not reach the client: its connection may have ended,
            // and a Bayeux client may have another message in flight.
            let can_notify = request.wanted.dialect != DialectName::Bayeux && !has_ended();
            let close_code = |token| {
                if can_notify { self.lifecycle.ended.take(token) } else { self.lifecycle.ended.get(token) }
            };
            if let Some(code) = token.as_ref().and_then(close_code) {
                return Err(AttachRefusal::Ended(code));
            }
            if request.has_session {
                return Err(AttachRefusal::Moved);
            }
            if request.wanted.only_resume {
                // If a drain has begun in the meantime, it may be the reason for the session's end.
                return Err(if self.is_draining() {
                    self.draining_refusal()
                } else {
                    AttachRefusal::SessionGone
                });
            }
        }
        if !request.can_open {
            return Err(AttachRefusal::TooManyNewSessions);
        }
        let session = self.open(attach, request, &mailbox)?;
        Ok(attached(session, false, mailbox, Vec::new()))
    }

    /// Finds the session of a resume token.
    pub(crate) fn find(&self, token: &str) -> Option<SessionHandle> {
        self.table.find(&ResumeToken::parse(token)?)
    }

    /// Returns the close code of the session of this resume token, if the session ended without notifying its
    /// client and the client must not reconnect by itself.
    pub(crate) fn unreported_end(&self, token: &str) -> Option<CloseCode> {
        self.lifecycle.ended.get(&ResumeToken::parse(token)?)
    }

    fn resume(
        &self,
        token: &ResumeToken,
        attach: Attach,
        request: &AttachRequest,
        mailbox: &Arc<Mailbox>,
        has_ended: impl Fn() -> bool,
    ) -> Result<Option<SessionHandle>, AttachRefusal> {
        let Some(session) = self.table.find(token) else { return Ok(None) };
        let accepted = self.lifecycle.step(&session, |state, step| {
            if !state.identity.is_same_user(&request.identity) {
                return Err(AttachRefusal::WrongUser);
            }
            // Fire due deadlines first, because one of them may end the session.
            state.machine.handle_timeout(step);
            match state.machine.phase() {
                Phase::Closed(_) => return Ok(false),
                Phase::Moved => return Err(AttachRefusal::Moved),
                Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended => {}
            }
            let is_older =
                |upgraded: Arrival| state.upgraded().is_some_and(|latest| upgraded.precedes(latest));
            let is_late = || {
                has_ended()
                    || request.arrival.precedes(state.arrival)
                    || request.wanted.upgraded.is_some_and(is_older)
            };
            if state.machine.phase().has_client() && is_late() {
                return Err(AttachRefusal::AlreadyReconnected);
            }
            if !mailbox.has_permit() && !state.has_permit() {
                return Err(AttachRefusal::TooManyConnections);
            }
            continue_if_outdated(state, &attach, &request.wanted.positions);
            state.machine.handle(step, Input::Attach(attach));
            let accepted = state.machine.phase() == Phase::Attached(attach.connection);
            if accepted {
                // Move the permit only after acceptance: if the connection is not accepted, the old one keeps
                // its permit.
                mailbox.ensure_permit(|| state.take_permit());
                mailbox.set_start_seq(state.machine.outbox().sent());
                state.mailbox = Some(Arc::clone(mailbox));
                state.transport = request.wanted.kind.into();
                state.dialect = request.wanted.dialect;
                state.arrival = request.arrival;
                state.set_upgraded(request.wanted.upgraded);
                state.identity = request.identity.clone();
                if let Some(shared) = state.shared_mut() {
                    shared.is_outdated = false;
                }
            }
            Ok(accepted)
        });
        let accepted = accepted.unwrap_or(Ok(false))?;
        Ok(accepted.then_some(session))
    }

    fn open(
        &self,
        attach: Attach,
        request: &AttachRequest,
        mailbox: &Arc<Mailbox>,
    ) -> Result<SessionHandle, AttachRefusal> {
        if !mailbox.has_permit() {
            return Err(AttachRefusal::TooManyConnections);
        }
        let now = self.timeouts.clock().now();
        // Drop the `seq`: it belongs to the session that could not be resumed, and a new session has sent
        // nothing.
        let attach = Attach { seq: None, ..attach };
        let outbox = self.subscriptions.new_outbox();
        let mut outputs = Outputs::new();
        let mut step = StepContext { now, timeouts: self.lifecycle.settings(), outputs: &mut outputs };
        let machine = Session::open(&mut step, outbox, attach);
        let mut state = SessionState {
            machine,
            mailbox: Some(Arc::clone(mailbox)),
            transport: request.wanted.kind.into(),
            dialect: request.wanted.dialect,
            arrival: request.arrival,
            poll_advice: PollAdvice::default(),
            identity: request.identity.clone(),
            parked: None,
            rare: None,
        };
        state.set_upgraded(request.wanted.upgraded);
        let (id, secret) = (SessionId::random(&self.entropy), ResumeSecret::random(&self.entropy));
        if let Some(writes) = &self.lifecycle.writes {
            state.set_shared(SharedState::opened(secret.digest(), writes));
        }
        let session = self.table.occupy(id, Some(secret), state);
        let session = session.ok_or(AttachRefusal::TooManySessions)?;
        // Insert the session before its first step, because everything that ends a session also removes it
        // from the registry.
        while self.table.registry().insert(&session).is_err() {
            if !self.evict_suspended() {
                return Err(AttachRefusal::TooManySessions);
            }
        }
        self.metrics.sessions.phase_changed(None, Phase::Attached(attach.connection));
        self.lifecycle.step(&session, |state, step| {
            step.outputs.extend(outputs);
            self.table.add_to_users(&session, state);
            if let Some(shared) = state.shared_mut() {
                shared.enqueue(session.reference(), false);
            }
            if let Some(online) = &self.lifecycle.online {
                online.opened(session.reference(), state);
            }
        });
        self.complete_opening(&session, &request.identity);
        if self.is_draining() {
            // The drain began while this session was being opened.
            self.lifecycle.handle(&session, Input::Close(CloseReason::Draining));
        }
        Ok(session)
    }

    /// Evicts a suspended session to make room for another. Returns whether one was evicted.
    fn evict_suspended(&self) -> bool {
        loop {
            let Some(id) = self.lifecycle.suspended.evict() else { return false };
            let Some(session) = self.table.registry().get(id) else { continue };
            let has_ended = self.lifecycle.step(&session, |state, step| {
                // The client may have reconnected in the meantime.
                let can_evict = state.machine.phase() == Phase::Suspended;
                if can_evict {
                    state.machine.handle(step, Input::Close(CloseReason::Limit));
                }
                can_evict
            });
            if has_ended.unwrap_or(true) {
                return true;
            }
        }
    }

    /// Completes the opening of a session, once lookups by user can find it.
    fn complete_opening(&self, session: &SessionCell, identity: &Identity) {
        if let Some(user) = identity.user() {
            // Check again: the user may have been revoked after the token was checked and before lookups could
            // find this session.
            if self.revocations.check(identity, self.timeouts.clock().unix_now()).is_err() {
                return self.lifecycle.handle(session, Input::Close(CloseReason::Kicked));
            }
            self.subscriptions.subscribe_to_user_log(session, user);
        }
        self.subscriptions.join_token_channels(session, identity, &Identity::ANONYMOUS);
    }
}

/// Continues the stream of a client that may have received messages from a server that has failed. A client that
/// reports no seq, and accepts duplicates, receives everything after the record.
fn continue_if_outdated(state: &mut SessionState, attach: &Attach, positions: &ReportedPositions) {
    if !state.shared().is_some_and(|shared| shared.is_outdated) {
        return;
    }
    let outbox = state.machine.outbox_mut();
    if attach.seq.map_or(attach.delivery == DeliveryMode::AtMostOnce, |seq| seq > outbox.seq()) {
        outbox.continue_after_loss(
            attach.seq,
            |it| it.channel.read().bounds(),
            |it| positions.offset_in(&it.channel),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use encke_base::entropy::Entropy;
    use encke_base::executor::NoTasks;
    use encke_core::session::{ConnectionKind, Heartbeat};
    use encke_timeouts::Timeouts;
    use encke_timeouts::clock::Clock;

    use super::super::attach_request::SessionRequest;
    use super::*;
    use crate::admission::Permits;
    use crate::config::Settings;
    use crate::events::{HookSink, NoHooks};
    use crate::server::assembly;
    use crate::session::arrival::Arrival;

    fn sessions() -> Arc<Sessions> {
        let config = Settings::default().resolve().expect("the defaults are valid");
        let clock = Arc::new(Clock::new(config.timers.stall_threshold));
        let (timeouts, _) = Timeouts::new(clock, config.timers.ping_slack, config.limits.session_slots());
        let events = Box::new(HookSink(Box::new(NoHooks)));
        assembly::client_services(&config, timeouts, Entropy::system(), Arc::new(NoTasks), events).sessions
    }

    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn request_of(arrival: Arrival) -> AttachRequest {
        AttachRequest {
            arrival,
            wanted: SessionRequest::new(ConnectionKind::Stream(Heartbeat::Frame), DialectName::Json),
            identity: Identity::ANONYMOUS,
            address: ADDRESS,
            has_session: false,
            can_open: true,
        }
    }

    /// The client may have abandoned the older connection, whose request the server reads late. Without a newer
    /// connection, the late request resumes the session.
    #[test]
    fn an_older_connection_does_not_replace_a_newer_one() {
        let stream = ConnectionKind::Stream(Heartbeat::Frame);
        let poll = ConnectionKind::Poll { hold: Duration::from_secs(1) };
        for (kind, dialect) in [
            (stream, DialectName::Json),
            (ConnectionKind::Events, DialectName::Json),
            (poll, DialectName::Json),
            (stream, DialectName::Bayeux),
            (poll, DialectName::Bayeux),
        ] {
            let (sessions, permits) = (sessions(), Permits::new(9, usize::MAX));
            let [older, newer] = [1, 2].map(Arrival::from_bits);
            let attach = |arrival, resume: Option<&str>| {
                let mut request = request_of(arrival);
                request.wanted = SessionRequest::new(kind, dialect);
                request.wanted.resume = resume.map(ToOwned::to_owned);
                sessions.attach(&request, permits.take(ADDRESS), || false)
            };
            let first = attach(older, None).expect("a session");
            let token = first.session.resume_token().expose().to_string();
            attach(older, Some(&token)).expect("the same connection");
            let second = attach(newer, Some(&token)).expect("a newer connection");
            let refused = attach(older, Some(&token)).err();
            assert_eq!(refused, Some(AttachRefusal::AlreadyReconnected), "{kind:?} {dialect:?}");
            sessions.lifecycle.handle(&second.session, Input::Disconnect);
            attach(older, Some(&token)).expect("the newer connection is lost");
        }
    }

    /// A client may open a Bayeux WebSocket long before it sends a message on it. A message on a socket that it has
    /// abandoned may arrive after that on a newer one.
    #[test]
    fn an_older_bayeux_socket_does_not_replace_a_newer_one() {
        let (sessions, permits) = (sessions(), Permits::new(9, usize::MAX));
        let attach = |upgraded: Option<u64>, arrival, resume: Option<&str>| {
            let mut request = request_of(Arrival::from_bits(arrival));
            request.wanted.resume = resume.map(ToOwned::to_owned);
            request.wanted.upgraded = upgraded.map(Arrival::from_bits);
            sessions.attach(&request, permits.take(ADDRESS), || false)
        };
        let first = attach(None, 2, None).expect("a session");
        let token = first.session.resume_token().expose().to_string();
        attach(Some(1), 3, Some(&token)).expect("a socket that was opened before the session");
        attach(Some(4), 5, Some(&token)).expect("a newer socket");
        assert_eq!(attach(Some(1), 6, Some(&token)).err(), Some(AttachRefusal::AlreadyReconnected));
        attach(None, 7, Some(&token)).expect("a newer request");
        attach(Some(1), 8, Some(&token)).expect("the only socket");
    }

    /// At the connection limit, a connection that claims a seq that was never sent is refused, and the
    /// connection that it tried to replace keeps its permit.
    #[test]
    fn refused_take_over_keeps_the_permit() {
        let (sessions, permits) = (sessions(), Permits::new(1, usize::MAX));
        let request = |resume, seq| AttachRequest {
            wanted: SessionRequest {
                resume,
                seq,
                only_resume: true,
                ..SessionRequest::new(ConnectionKind::Events, DialectName::Json)
            },
            ..request_of(Arrival::default())
        };
        let attach = |request| sessions.attach(&request, permits.take(ADDRESS), || false);
        let first = attach(request(None, None)).expect("the first connection");
        let token = Some(first.session.resume_token().expose().to_string());
        let refusal = attach(request(token.clone(), Some(1_000))).err();
        assert_eq!(refusal, Some(AttachRefusal::SessionGone), "a seq that was never sent");
        assert_eq!(permits.taken(), 1, "the first connection still has its permit");
        let second = attach(request(token, Some(0))).expect("a take-over");
        assert!(second.recovered);
        assert_eq!(permits.taken(), 1, "the permit was passed on");
        assert!(second.mailbox.take_permit().is_some());
    }
}
