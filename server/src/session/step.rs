use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::session::{
    ConnectionId, ConnectionInput, Deadline, Input, LifecycleEvent, Outbox, Output, Outputs, Phase, Session,
    SessionTimeouts, Step,
};

use super::at_rest::Woken;
use super::cell::{SessionCell, SessionState};
use super::id::SessionId;
use super::link::{Link, Notes, Posted};
use super::sessions::Sessions;
use super::subscriptions::Followed;
use crate::clock::{Clock, UnixTime};
use crate::timeouts::RequestedDeadline;

impl Sessions {
    /// Something happened to a session.
    pub(crate) fn handle(&self, session: &SessionCell, input: Input) {
        self.step(session, |state, step| state.machine.handle(step, input));
    }

    /// Something happened to a connection of a session. Returns whether the session is still attached to it.
    pub(crate) fn handle_connection(
        &self,
        session: &SessionCell,
        connection: ConnectionId,
        input: ConnectionInput,
    ) -> bool {
        self.step(session, |state, step| {
            state.machine.handle(step, Input::Connection(connection, input));
            state.is_attached_to(connection)
        })
    }

    /// A deadline of the session in this slot may have passed. If the task of its connection has something to do now, its waker is added
    /// to `wakers`.
    pub(crate) fn handle_timeout(&self, slot: u32, wakers: &mut Vec<Waker>) {
        // The timer may be from the time of another. Then this one looks at its deadlines for nothing.
        let Some(session) = self.cells.at(slot) else { return };
        let look = |state: &mut SessionState, step: &mut Step<'_>| state.machine.handle_timeout(step);
        self.step_and_wake(&session, self.timeouts.clock().now(), look, |waker| wakers.push(waker));
    }

    /// Takes messages from a session's outbox, if the session is attached to this connection. This is no step: neither
    /// phase nor deadlines depend on what is taken, and a delivery is too frequent to look at them.
    pub(super) fn with_outbox<R>(
        session: &SessionCell,
        link: &Link,
        take: impl FnOnce(&mut Outbox<Followed>) -> R,
    ) -> Option<R> {
        let mut state = session.lock();
        state.is_attached_to(link.id).then(|| take(state.machine.outbox_mut()))
    }

    /// One step of one session. Every change of a session's phase and deadlines is made here. Only its outbox changes elsewhere:
    /// [`Self::with_outbox`], and [`tell_readable`](crate::channel::Subscriber), which marks a subscription as readable.
    pub(super) fn step<R>(
        &self,
        session: &SessionCell,
        act: impl FnOnce(&mut SessionState, &mut Step<'_>) -> R,
    ) -> R {
        self.step_at(session, self.timeouts.clock().now(), act)
    }

    /// A step for what happened then: a moment ago at most.
    pub(super) fn step_at<R>(
        &self,
        session: &SessionCell,
        now: Timestamp,
        act: impl FnOnce(&mut SessionState, &mut Step<'_>) -> R,
    ) -> R {
        self.step_and_wake(session, now, act, Waker::wake)
    }

    /// Acts under the session's lock. The wheel, the connection, metrics, logs and hooks are told after it is released.
    fn step_and_wake<R>(
        &self,
        session: &SessionCell,
        now: Timestamp,
        act: impl FnOnce(&mut SessionState, &mut Step<'_>) -> R,
        mut wake: impl FnMut(Waker),
    ) -> R {
        let mut outputs = Outputs::new();
        let (result, link, action, followed, woken) = {
            let mut state = session.lock();
            state.note_received();
            state.note_token(self.timeouts.clock(), now);
            let link = state.link.clone();
            let before = state.machine.phase();
            let mut step = Step { now, timeouts: &self.settings, outputs: &mut outputs };
            let result = act(&mut state, &mut step);
            let after = state.machine.phase();
            // Between polls, it tells where the client was last; its task leaves it by itself.
            if !matches!(after, Phase::Attached(_) | Phase::BetweenPolls) {
                state.link = None;
            }
            let has_ended = matches!(after, Phase::Closed(_));
            // In a box, since hardly any step has them, and every step moves this.
            let followed = has_ended.then(|| self.leave_all(session, &mut state));
            if before != after {
                let address = link.as_deref().map(Link::address).or_else(|| state.address());
                self.suspended.phase_changed(session.id(), &mut state, address);
            }
            self.metrics.sessions.phase_changed(Some(before), after);
            let has_farewell = outputs.iter().any(|output| matches!(output, Output::Close(..)));
            let step = &mut Step { now, timeouts: &self.settings, outputs: &mut outputs };
            let woken = state.act_at_rest(session, before, step);
            // What else it is asked is left there.
            let link = woken.as_ref().map(|woken| Arc::clone(&woken.link)).or(link);
            if let Phase::Closed(reason) = after
                && before != after
                // The connection that is to say so may have ended, and nobody know yet: a client that comes back after a kick has not heard.
                && (!has_farewell || reason == CloseReason::Kicked)
            {
                self.untold.ended(session.id(), || self.unclaimed.digest_of(session), before, reason);
            }
            if self.in_order {
                self.report_in_order(session.id(), &state, &outputs);
            }
            let deadline = requested_deadline(&state.machine, now, self.timeouts.slack(), &self.settings);
            (result, link, self.timeouts.request(session.timer(), deadline), followed, woken)
        };
        self.timeouts.carry_out(session.timer(), action);
        Woken::begin(woken, session);
        if let Some(followed) = followed {
            followed.iter().for_each(|followed| self.release(followed));
        }
        for &output in &outputs {
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
        if let Some((connection, notes)) = notes_of(output) {
            return match link.filter(|link| link.id == connection)?.post(notes) {
                Posted::Task(waker) => waker,
                // Just now, since the session's lock was released.
                Posted::AtRest => session.post_at_rest(connection, notes),
            };
        }
        match output {
            Output::Ping(_)
            | Output::Probe(_)
            | Output::Close(..)
            | Output::AnswerPoll(_)
            | Output::Superseded(_) => {}
            Output::RoundTrip(time) => self.metrics.sessions.ping_round_trip(time),
            Output::Fired(deadline, due) => {
                let slack = if deadline == Deadline::Ping { self.timeouts.slack() } else { Duration::ZERO };
                self.metrics.timers.deadline_fired(deadline, now.since(due + slack));
            }
            Output::Event(event) => self.report(session, event),
        }
        None
    }

    /// The session has ended, and follows nothing any more.
    fn leave_all(&self, session: &SessionCell, state: &mut SessionState) -> Box<[Followed]> {
        let followed: Box<[_]> = state.machine.outbox_mut().clear().collect();
        for followed in &followed {
            self.note_left(session, &state.identity, &followed.channel);
        }
        followed
    }

    fn report_in_order(&self, session: SessionId, state: &SessionState, outputs: &[Output]) {
        for output in outputs {
            if let Output::Event(event) = output {
                self.events.session_event_in_order(session, state.identity.shared_user().as_ref(), *event);
            }
        }
    }

    fn report(&self, session: &SessionCell, event: LifecycleEvent) {
        let (name, reason) = (event.transition.name(), event.transition.reason());
        let identity = session.identity();
        self.timeline.note(session.id(), event, self.timeouts.clock().unix_now());
        if event.transition.is_end() {
            self.registry.remove(session);
            self.leave_user(session, &identity);
            self.unclaimed.forget(session);
        }
        let (session, user) = (session.id(), identity.user());
        self.metrics.sessions.event(name, reason);
        tracing::info!(%session, user, number = event.number, reason, "{name}");
        self.events.session_event(session, user, event);
    }
}

/// What an output asks of a connection.
pub(super) fn notes_of(output: Output) -> Option<(ConnectionId, Notes)> {
    match output {
        Output::Ping(connection) => Some((connection, Notes::PING)),
        Output::Probe(connection) => Some((connection, Notes::PROBE)),
        Output::Close(connection, code) => Some((connection, Notes::close(code))),
        Output::AnswerPoll(connection) => Some((connection, Notes::ANSWER)),
        Output::Superseded(connection) => Some((connection, Notes::SUPERSEDED)),
        Output::RoundTrip(_) | Output::Fired(..) | Output::Event(_) => None,
    }
}

/// When a token expires on the server's clock, as the wall clock has it now.
pub(super) fn token_deadline(expires: UnixTime, clock: &Clock, now: Timestamp) -> Timestamp {
    now + expires.since(clock.unix_now())
}

/// Pings have slack, so that they leave in batches. Everything else is exact to the tick, and so is a ping when another
/// deadline lies within its slack.
fn requested_deadline<C>(
    machine: &Session<C>,
    now: Timestamp,
    slack: Duration,
    timeouts: &SessionTimeouts,
) -> RequestedDeadline {
    let next = machine.next_deadline(timeouts);
    if machine.is_writing_ping() {
        // Pong is about to be armed. Expecting it saves the wheel one entry a ping; an expiry for nothing is harmless.
        let pong = now + timeouts.pong_timeout;
        return RequestedDeadline::exact(next.map_or(pong, |(at, _)| at.min(pong)).as_nanos());
    }
    let Some((at, deadline)) = next else { return RequestedDeadline::NONE };
    let is_soft = deadline == Deadline::Ping && machine.has_only_heartbeat(timeouts, at + slack);
    if is_soft { RequestedDeadline::soft(at.as_nanos()) } else { RequestedDeadline::exact(at.as_nanos()) }
}
