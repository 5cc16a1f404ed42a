use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use arrayvec::ArrayVec;
use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::session::{
    Attach, ConnectionId, ConnectionInput, ConnectionKind, Deadline, Heartbeat, Input, LifecycleEvent,
    Outbox, Output, Phase, Session, SessionTimeouts,
};

use super::Hooks;
use super::cell::{SessionCell, SessionState, Transport};
use super::id::{ResumeToken, Secret, SessionId};
use super::link::{Link, Notes};
use crate::auth::{Identity, UnixTime, unix_now};
use crate::channel::{ChannelName, Channels};
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::timeouts::{Timeouts, Wish};
use crate::transport::Place;

/// A connection that wants a session.
#[derive(Clone, Debug)]
pub(crate) struct AttachRequest {
    /// The resume token that its client offers, whatever that is.
    pub(crate) resume: Option<String>,
    /// The last message its client has.
    pub(crate) seq: Option<u64>,
    /// Who its client is.
    pub(crate) identity: Identity,
    /// How it wants to be asked for signs of life.
    pub(crate) heartbeat: Heartbeat,
    /// How its bytes travel.
    pub(crate) transport: Transport,
}

/// A connection that has a session.
#[derive(Debug)]
pub(crate) struct Attached {
    /// Its session.
    pub(crate) session: Arc<SessionCell>,
    /// Whether it is the one it asked for.
    pub(crate) recovered: bool,
    pub(crate) link: Arc<Link>,
    /// The channels that the client's new token does not allow it to follow any more.
    pub(crate) revoked: Vec<ChannelName>,
}

/// Why a connection gets no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There are as many sessions as there may be.
    Overloaded,
    /// The server is going away.
    Draining,
    /// The session is another user's.
    NotTheUser,
    /// The session that it asks for is not there, and it wants no other.
    Gone,
    /// It is over already, and its client has come back on another.
    Late,
}

/// What sessions may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    /// Sessions, suspended ones included.
    pub(crate) sessions: usize,
    /// What each remembers of what it was sent, in messages.
    pub(crate) unacked: usize,
    /// Channels that each may follow.
    pub(crate) subscriptions: usize,
}

/// All sessions, and the one way in which anything happens to them.
pub(crate) struct Sessions {
    registry: Registry,
    pub(super) limits: SessionLimits,
    timeouts: Arc<Timeouts>,
    settings: Arc<SessionTimeouts>,
    pub(super) channels: Arc<Channels>,
    pub(super) metrics: Arc<Metrics>,
    hooks: Box<dyn Hooks>,
    connections: AtomicU64,
    draining: AtomicBool,
}

/// What one step of a session brought about, to be carried out when its lock is released.
type Outputs = ArrayVec<Output, { <Session>::MAX_OUTPUTS }>;

impl Sessions {
    /// No sessions yet.
    pub(crate) fn new(
        limits: SessionLimits,
        timeouts: Arc<Timeouts>,
        settings: SessionTimeouts,
        channels: Arc<Channels>,
        metrics: Arc<Metrics>,
        hooks: Box<dyn Hooks>,
    ) -> Self {
        Self {
            registry: Registry::new(limits.sessions),
            limits,
            timeouts,
            settings: Arc::new(settings),
            channels,
            metrics,
            hooks,
            connections: AtomicU64::new(0),
            draining: AtomicBool::new(false),
        }
    }

    /// The table of sessions.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The timeouts of every session.
    pub(crate) fn settings(&self) -> &SessionTimeouts {
        &self.settings
    }

    /// Gives a connection the session it asks for, or a new one. If there was no place for it, it may have that of a connection
    /// whose session it takes over: who has lost one that nobody has missed yet is not kept out by it.
    ///
    /// One that is over takes nothing over. A client may have cut it, come back, and have been served on the new one first: the
    /// late one must not take the session from that. So `is_over` is asked with the session's lock held.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn attach(
        &self,
        request: &AttachRequest,
        place: Option<Place>,
        is_over: impl Fn() -> bool,
    ) -> Result<Attached, Refusal> {
        if self.draining.load(Ordering::Acquire) {
            return Err(Refusal::Draining);
        }
        let now = self.timeouts.clock().now();
        let id = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed) + 1);
        let link = Arc::new(Link::new(id, now, place));
        let attach = Attach {
            connection: id,
            kind: match request.transport {
                Transport::WebSocket => ConnectionKind::Stream(request.heartbeat),
                Transport::Events => ConnectionKind::Events,
            },
            seq: request.seq,
            token_expires: request.identity.expires().map(|expires| deadline(expires, now)),
            entropy: rand::random(),
        };
        if let Some(offered) = &request.resume {
            let token = ResumeToken::parse(offered);
            let resumed = match token {
                Some(token) => self.resume(&token, attach, request, &link, is_over)?,
                None => None,
            };
            self.metrics.resumed(resumed.is_some());
            if let Some(session) = resumed {
                let revoked = self.revoke(&session);
                return Ok(Attached { session, recovered: true, link, revoked });
            }
            if request.transport == Transport::Events {
                // A drain that has begun since may be what ended it.
                let draining = self.draining.load(Ordering::Acquire);
                return Err(if draining { Refusal::Draining } else { Refusal::Gone });
            }
        }
        let session = self.open(attach, request, &link)?;
        Ok(Attached { session, recovered: false, link, revoked: Vec::new() })
    }

    fn resume(
        &self,
        token: &ResumeToken,
        attach: Attach,
        request: &AttachRequest,
        link: &Arc<Link>,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<Arc<SessionCell>>, Refusal> {
        let found = self.registry.get(token.id);
        let Some(session) = found.filter(|session| session.secret.matches(&token.secret)) else {
            return Ok(None);
        };
        let accepted = self.step(&session, |state, now| {
            if !state.identity.is_same_user(&request.identity) {
                return Err(Refusal::NotTheUser);
            }
            // Due already, it may be about to end.
            state.machine.handle_timeout(now);
            if matches!(state.machine.phase(), Phase::Closed(_)) {
                return Ok(false);
            }
            if matches!(state.machine.phase(), Phase::Attached(_)) && is_over() {
                return Err(Refusal::Late);
            }
            if !link.settle(state.link.as_deref()) {
                return Err(Refusal::Overloaded);
            }
            state.machine.handle(now, Input::Attach(attach));
            let accepted = state.machine.phase() == Phase::Attached(attach.connection);
            if accepted {
                state.link = Some(Arc::clone(link));
                state.transport = request.transport;
                state.identity = request.identity.clone();
            }
            Ok(accepted)
        })?;
        Ok(accepted.then_some(session))
    }

    fn open(
        &self,
        attach: Attach,
        request: &AttachRequest,
        link: &Arc<Link>,
    ) -> Result<Arc<SessionCell>, Refusal> {
        if !link.settle(None) {
            return Err(Refusal::Overloaded);
        }
        let now = self.timeouts.clock().now();
        // A session that asked to be resumed claims messages that a new one has never sent.
        let attach = Attach { seq: None, ..attach };
        let outbox = Outbox::new(self.limits.unacked);
        let machine = Session::open(now, Arc::clone(&self.settings), outbox, attach);
        let state = SessionState {
            machine,
            link: Some(Arc::clone(link)),
            transport: request.transport,
            identity: request.identity.clone(),
        };
        let session = SessionCell::new(SessionId::random(), Secret::random(), state);
        // Before its first step: whatever ends it takes it out again.
        self.registry.insert(Arc::clone(&session)).map_err(|_| Refusal::Overloaded)?;
        self.metrics.session_phase(None, Phase::Attached(attach.connection));
        self.step(&session, |_, _| {});
        if self.draining.load(Ordering::Acquire) {
            // Opened while the others were being closed.
            self.handle(&session, Input::Close(CloseReason::Draining));
        }
        Ok(session)
    }

    /// Something happened to a session.
    pub(crate) fn handle(&self, session: &Arc<SessionCell>, input: Input) {
        self.step(session, |state, now| state.machine.handle(now, input));
    }

    /// Something happened to a connection of a session. Returns whether the session is attached to it still.
    pub(crate) fn handle_connection(
        &self,
        session: &Arc<SessionCell>,
        link: &Link,
        input: ConnectionInput,
    ) -> bool {
        self.step(session, |state, now| {
            state.machine.handle(now, Input::Connection(link.id, input));
            state.machine.phase() == Phase::Attached(link.id)
        })
    }

    /// A deadline of a session may have passed. The task of its connection, if it has something to do now, is added to
    /// `wakers`.
    pub(crate) fn handle_timeout(&self, session: &Arc<SessionCell>, wakers: &mut Vec<Waker>) {
        let look = |state: &mut SessionState, now| state.machine.handle_timeout(now);
        self.step_and_wake(session, look, |waker| wakers.push(waker));
    }

    /// Ends every session, and lets none begin.
    pub(crate) fn drain(&self) {
        const PAGE: usize = 1024;
        self.draining.store(true, Ordering::Release);
        loop {
            // Closing removes them, so the next page is the first again.
            let page = self.registry.after(None, PAGE);
            if page.is_empty() {
                return;
            }
            for session in page {
                self.handle(&session, Input::Close(CloseReason::Draining));
            }
        }
    }

    /// One step of one session.
    pub(super) fn step<R>(
        &self,
        session: &Arc<SessionCell>,
        act: impl FnOnce(&mut SessionState, Timestamp) -> R,
    ) -> R {
        self.step_and_wake(session, act, Waker::wake)
    }

    /// Under the session's lock what happens, after it what follows from that.
    fn step_and_wake<R>(
        &self,
        session: &Arc<SessionCell>,
        act: impl FnOnce(&mut SessionState, Timestamp) -> R,
        mut wake: impl FnMut(Waker),
    ) -> R {
        let now = self.timeouts.clock().now();
        let mut outputs = Outputs::new();
        let (result, link, told) = {
            let mut state = session.state.lock();
            state.note_heard();
            state.note_token(now);
            let link = state.link.clone();
            let before = state.machine.phase();
            let result = act(&mut state, now);
            let after = state.machine.phase();
            if !matches!(after, Phase::Attached(_)) {
                state.link = None;
            }
            self.metrics.session_phase(Some(before), after);
            while let Some(output) = state.machine.poll_output() {
                outputs.push(output);
            }
            let wish = wish(&state.machine, now, self.timeouts.slack(), self.settings.pong_timeout);
            (result, link, self.timeouts.want(&session.timer, wish))
        };
        self.timeouts.tell_wheel(&session.timer, told);
        for output in outputs {
            if let Some(waker) = self.carry_out(session, link.as_deref(), now, output) {
                wake(waker);
            }
        }
        result
    }

    /// Returns the task of the connection, if it has something to do now.
    fn carry_out(
        &self,
        session: &SessionCell,
        link: Option<&Link>,
        now: Timestamp,
        output: Output,
    ) -> Option<Waker> {
        let post = |connection: ConnectionId, notes: Notes| {
            link.filter(|link| link.id == connection).and_then(|link| link.post(notes))
        };
        match output {
            Output::Ping(connection) => return post(connection, Notes::PING),
            Output::Probe(connection) => return post(connection, Notes::PROBE),
            Output::Close(connection, code) => return post(connection, Notes::close(code)),
            // No transport attaches polls.
            Output::AnswerPoll(_) => {}
            Output::RoundTrip(time) => self.metrics.ping_round_trip(time),
            Output::Fired(deadline, due) => {
                let slack = if deadline == Deadline::Ping { self.timeouts.slack() } else { Duration::ZERO };
                self.metrics.deadline_fired(deadline, now.since(due + slack));
            }
            Output::Event(event) => self.tell(session, event),
        }
        None
    }

    fn tell(&self, session: &SessionCell, event: LifecycleEvent) {
        let (name, reason) = (event.transition.name(), event.transition.reason());
        if event.transition.is_end() {
            self.registry.remove(session.id);
            self.release_all(session);
        }
        let session = session.id;
        self.metrics.session_event(name, reason);
        tracing::info!(%session, number = event.number, reason, "{name}");
        if catch_unwind(AssertUnwindSafe(|| self.hooks.session_event(session, event))).is_err() {
            tracing::error!(%session, name, "a hook panicked");
        }
    }
}

/// When a token runs out, on the server's clock, as the machine's clock has it now.
pub(super) fn deadline(expires: UnixTime, now: Timestamp) -> Timestamp {
    now + expires.since(unix_now())
}

/// Pings have slack, so that they leave in batches. Everything else is exact to the tick, also what comes due
/// within a ping's slack.
fn wish<C>(machine: &Session<C>, now: Timestamp, slack: Duration, pong_timeout: Duration) -> Wish {
    let Some((at, deadline)) = machine.next_deadline() else { return Wish::NONE };
    if machine.is_writing_ping() {
        // Pong is about to be armed. Expecting it spares the wheel one entry a ping; an expiry for nothing is harmless.
        return Wish::exact(at.min(now + pong_timeout).as_nanos());
    }
    let alone = || machine.deadlines().all(|(other, which)| which == Deadline::Ping || other > at + slack);
    if deadline == Deadline::Ping && alone() { Wish::soft(at.as_nanos()) } else { Wish::exact(at.as_nanos()) }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("len", &self.registry.len()).finish_non_exhaustive()
    }
}
