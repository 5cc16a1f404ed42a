use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::session::{
    ConnectionId, ConnectionInput, Deadline, Input, LifecycleEvent, Outbox, Output, Outputs, Phase, Session,
    SessionTimeouts, StepContext,
};
use encke_timeouts::clock::{Clock, UnixTime};
use encke_timeouts::{ArmAction, RequestedDeadline};

use super::cell::{SessionCell, SessionState};
use super::id::SessionId;
use super::mailbox::{Mailbox, Posted, Signals};
use super::panics::unless_panicked;
use super::parked::Unparked;
use super::sessions::Sessions;
use super::subscriptions::SubscribedChannel;
use crate::auth::Identity;
#[cfg(all(test, feature = "simulation"))]
use crate::fail_point::{self, FailPoint};

/// A step in progress, and what remains to be done when the session's lock is released.
pub(super) struct Step<'a> {
    pub(super) session: &'a SessionCell,
    now: Timestamp,
    /// Phase before the step.
    pub(super) before: Phase,
    /// Mailbox that the outputs are posted to: that of the connection before the step.
    pub(super) mailbox: Option<Arc<Mailbox>>,
    pub(super) outputs: Outputs,
    unparked: Option<Unparked>,
    arming: Option<ArmAction>,
    /// Subscriptions of a session that has ended. Boxed because few steps need them but every step has room
    /// for them.
    subscriptions: Option<Box<[SubscribedChannel]>>,
}

impl<'a> Step<'a> {
    #[inline]
    pub(super) fn begin(session: &'a SessionCell, state: &SessionState, now: Timestamp) -> Self {
        Self {
            session,
            now,
            before: state.machine.phase(),
            mailbox: state.mailbox.clone(),
            outputs: Outputs::new(),
            unparked: None,
            arming: None,
            subscriptions: None,
        }
    }
}

impl Sessions {
    /// Applies an input to a session.
    pub(crate) fn handle(&self, session: &SessionCell, input: Input) {
        self.step(session, |state, step| state.machine.handle(step, input));
    }

    /// Applies an input from one of a session's connections. Returns whether the session is still attached to
    /// that connection.
    pub(crate) fn handle_connection(
        &self,
        session: &SessionCell,
        connection: ConnectionId,
        input: ConnectionInput,
    ) -> bool {
        let is_attached = self.step(session, |state, step| {
            state.machine.handle(step, Input::Connection(connection, input));
            state.is_attached_to(connection)
        });
        is_attached.unwrap_or(false)
    }

    /// Fires the deadlines that are due for the session in this slot. If the task of its connection has work
    /// to do, its waker is added to `wakers`.
    pub(crate) fn handle_timeout(&self, slot: u32, wakers: &mut Vec<Waker>) {
        // The timer may have been armed for an earlier session in this slot. In that case nothing is due, and
        // the check has no effect.
        let Some(session) = self.cells.get_at(slot) else { return };
        let fire = |state: &mut SessionState, step: &mut StepContext<'_>| state.machine.handle_timeout(step);
        self.step_and_wake(&session, self.timeouts.clock().now(), fire, |waker| wakers.push(waker));
    }

    /// Takes messages from a session's outbox, if the session is attached to this connection. This is not a
    /// step: neither the phase nor the deadlines depend on the messages taken, and deliveries are too
    /// frequent for checking deadlines each time.
    pub(super) fn with_outbox<R>(
        &self,
        session: &SessionCell,
        mailbox: &Mailbox,
        take: impl FnOnce(&mut Outbox<SubscribedChannel>) -> R,
    ) -> Option<R> {
        let take = |state: &mut SessionState| {
            state.is_attached_to(mailbox.id).then(|| take(state.machine.outbox_mut()))
        };
        session.change(take, |state| self.end_half_changed(session, state)).flatten()
    }

    /// Performs one step of one session. All changes to a session's phase and deadlines are made in steps.
    /// Returns `None` if the step panicked, in which case the session has been closed.
    ///
    /// Only its outbox is also changed elsewhere: in [`Self::with_outbox`], and in
    /// [`notify_readable`](crate::channel::Subscriber), which marks a subscription as readable.
    pub(super) fn step<R>(
        &self,
        session: &SessionCell,
        act: impl FnOnce(&mut SessionState, &mut StepContext<'_>) -> R,
    ) -> Option<R> {
        self.step_at(session, self.timeouts.clock().now(), act)
    }

    /// Like [`Self::step`], but for an event that happened at `now`, at most a moment ago.
    pub(super) fn step_at<R>(
        &self,
        session: &SessionCell,
        now: Timestamp,
        act: impl FnOnce(&mut SessionState, &mut StepContext<'_>) -> R,
    ) -> Option<R> {
        self.step_and_wake(session, now, act, Waker::wake)
    }

    /// Applies `act` while holding the session's lock. The wheel, the connection, metrics, the event log and
    /// hooks are called after the lock is released.
    fn step_and_wake<R>(
        &self,
        session: &SessionCell,
        now: Timestamp,
        act: impl FnOnce(&mut SessionState, &mut StepContext<'_>) -> R,
        wake: impl FnMut(Waker),
    ) -> Option<R> {
        let mut state = session.lock();
        let mut step = Step::begin(session, &state, now);
        let Some(result) = unless_panicked(|| self.change(&mut state, &mut step, act)) else {
            self.end_panicked(state, step);
            return None;
        };
        drop(state);
        if unless_panicked(|| self.finish(&mut step, wake)).is_none() {
            self.end_half_changed(session, session.lock());
            return None;
        }
        Some(result)
    }

    /// Performs the part of a step that needs the session's lock.
    pub(super) fn change<R>(
        &self,
        state: &mut SessionState,
        step: &mut Step<'_>,
        act: impl FnOnce(&mut SessionState, &mut StepContext<'_>) -> R,
    ) -> R {
        let &mut Step { session, now, before, .. } = step;
        state.sync_last_received();
        state.sync_token_expiry(self.timeouts.clock(), now);
        let context = &mut StepContext { now, timeouts: &self.settings, outputs: &mut step.outputs };
        let result = act(state, context);
        #[cfg(all(test, feature = "simulation"))]
        fail_point::reach(FailPoint::SessionChange);
        let after = state.machine.phase();
        // Between polls, the mailbox is kept for the client's address; the task of the last poll ends by
        // itself.
        if !matches!(after, Phase::Attached(_) | Phase::BetweenPolls) {
            state.mailbox = None;
        }
        let has_ended = matches!(after, Phase::Closed(_));
        if has_ended && step.subscriptions.is_none() {
            step.subscriptions = Some(self.clear_subscriptions(session, state));
        }
        if before != after {
            let address = step.mailbox.as_deref().map(Mailbox::address).or_else(|| state.parked_address());
            self.suspended.phase_changed(session.id(), state, address);
        }
        let has_farewell = step.outputs.iter().any(|output| matches!(output, Output::Close(..)));
        let context = &mut StepContext { now, timeouts: &self.settings, outputs: &mut step.outputs };
        if let Some(unparked) = state.act_for_parked(session, before, context) {
            // The remaining outputs for this connection go to its new mailbox.
            step.mailbox = Some(Arc::clone(&unparked.mailbox));
            step.unparked = Some(unparked);
        }
        if let Phase::Closed(reason) = after
            && before != after
            // A kicked client must be notified. The connection that would send the close code may have
            // ended unnoticed, so the code is also kept in case the client reconnects.
            && (!has_farewell || reason == CloseReason::Kicked)
        {
            self.ended.record(session.id(), || self.restored_credentials.digest_of(session), before, reason);
        }
        if self.in_order {
            self.report_in_order(session.id(), state, &step.outputs);
        }
        let deadline = requested_deadline(&state.machine, now, self.timeouts.slack(), &self.settings);
        step.arming = Some(self.timeouts.request(session.timer(), deadline));
        // Counted last: if the step panics, the session still counts as being in its earlier phase.
        self.metrics.sessions.phase_changed(Some(before), after);
        result
    }

    /// Performs the part of a step that follows after the session's lock is released.
    pub(super) fn finish(&self, step: &mut Step<'_>, mut wake: impl FnMut(Waker)) {
        let session = step.session;
        if let Some(arming) = step.arming.take() {
            self.timeouts.carry_out(session.timer(), arming);
        }
        Unparked::start(step.unparked.take(), session);
        if let Some(subscriptions) = step.subscriptions.take() {
            subscriptions.iter().for_each(|subscription| self.complete_unsubscribe(subscription));
        }
        for &output in &step.outputs {
            if let Some(waker) = self.carry_out(session, step.mailbox.as_deref(), step.now, output) {
                wake(waker);
            }
        }
    }

    /// Carries out one output. Returns the waker of the connection's task, if the task must be woken.
    fn carry_out(
        &self,
        session: &SessionCell,
        mailbox: Option<&Mailbox>,
        now: Timestamp,
        output: Output,
    ) -> Option<Waker> {
        if let Some((connection, signals)) = signals_of(output) {
            return match mailbox.filter(|mailbox| mailbox.id == connection)?.post(signals) {
                Posted::Task(waker) => waker,
                // The connection was parked after the session's lock was released.
                Posted::Parked => self.signal_parked(session, connection, signals),
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

    /// Clears all subscriptions of a session that has ended.
    fn clear_subscriptions(
        &self,
        session: &SessionCell,
        state: &mut SessionState,
    ) -> Box<[SubscribedChannel]> {
        let subscriptions: Box<[_]> = state.machine.outbox_mut().clear().collect();
        for subscription in &subscriptions {
            self.enqueue_leave(session, &state.identity, &subscription.channel);
        }
        subscriptions
    }

    fn report_in_order(&self, session: SessionId, state: &SessionState, outputs: &[Output]) {
        for output in outputs {
            if let Output::Event(event) = output {
                self.events.session_event_in_order(session, state.identity.shared_user().as_ref(), *event);
            }
        }
    }

    /// Removes a session that has ended from the tables of all sessions.
    pub(super) fn remove(&self, session: &SessionCell, identity: &Identity) {
        self.registry.remove(session);
        self.remove_from_users(session, identity);
        self.restored_credentials.forget(session);
    }

    fn report(&self, session: &SessionCell, event: LifecycleEvent) {
        let (name, reason) = (event.transition.name(), event.transition.reason());
        let identity = session.identity();
        self.timeline.record(session.id(), event, self.timeouts.clock().unix_now());
        if event.transition.is_end() {
            self.remove(session, &identity);
        }
        let (session, user) = (session.id(), identity.user());
        self.metrics.sessions.event(name, reason);
        tracing::info!(%session, user, number = event.number, reason, "{name}");
        self.events.session_event(session, user, event);
    }
}

/// Returns the connection that an output is for, and the signals to post to it.
pub(super) fn signals_of(output: Output) -> Option<(ConnectionId, Signals)> {
    match output {
        Output::Ping(connection) => Some((connection, Signals::PING)),
        Output::Probe(connection) => Some((connection, Signals::PROBE)),
        Output::Close(connection, code) => Some((connection, Signals::close(code))),
        Output::AnswerPoll(connection) => Some((connection, Signals::ANSWER)),
        Output::Superseded(connection) => Some((connection, Signals::SUPERSEDED)),
        Output::RoundTrip(_) | Output::Fired(..) | Output::Event(_) => None,
    }
}

/// Converts the expiry of a token to the server's clock, using the current wall clock.
pub(super) fn token_deadline(expires: UnixTime, clock: &Clock, now: Timestamp) -> Timestamp {
    now + expires.since(clock.unix_now())
}

/// Returns the deadline to request from the wheel. Pings have slack, so that they can be sent in batches. All
/// other deadlines are exact to the tick, and so is a ping if another deadline lies within its slack.
fn requested_deadline<C>(
    machine: &Session<C>,
    now: Timestamp,
    slack: Duration,
    timeouts: &SessionTimeouts,
) -> RequestedDeadline {
    let next = machine.next_deadline(timeouts);
    if machine.is_writing_ping() {
        // Pong is about to be armed. Requesting it now saves the wheel one insertion per ping, and expiring
        // early has no effect.
        let pong = now + timeouts.pong_timeout;
        return RequestedDeadline::exact(next.map_or(pong, |(at, _)| at.min(pong)).as_nanos());
    }
    let Some((at, deadline)) = next else { return RequestedDeadline::NONE };
    let is_soft = deadline == Deadline::Ping && machine.has_only_heartbeat(timeouts, at + slack);
    if is_soft { RequestedDeadline::soft(at.as_nanos()) } else { RequestedDeadline::exact(at.as_nanos()) }
}
