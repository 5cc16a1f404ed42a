use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

#[cfg(all(test, feature = "simulation"))]
use encke_base::fail_point::{self, FailPoint};
use encke_base::metrics::Metrics;
use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::session::{
    ConnectionId, ConnectionInput, Deadline, Input, LifecycleEvent, Output, Phase, SessionTimeouts,
    StepContext,
};
use encke_timeouts::Timeouts;

use super::ended_sessions::EndedSessions;
use super::event_sink::EventSink;
use super::online_users::OnlineUsers;
use super::parked_outputs::{act_for_parked, signals_of};
use super::step_in_progress::{Step, requested_deadline};
use super::suspended_sessions::SuspendedSessions;
use super::timeline::{SessionHistory, Timeline};
use crate::session::channels::SessionOutbox;
use crate::session::id::SessionId;
use crate::session::panics::unless_panicked;
use crate::session::subscriptions::{
    ClientInput, CommandSource, DeliveryBatch, Subscriptions, deliver_pending, signal_parked,
};
use crate::session::table::{
    DirectoryWrites, Mailbox, Posted, SessionCell, SessionLifecycle, SessionState, SessionTable, StateGuard,
    Unparked,
};

/// Performs the steps of sessions, which make all changes to phases and deadlines.
pub(crate) struct Lifecycle {
    pub(super) table: Arc<SessionTable>,
    pub(super) subscriptions: Arc<Subscriptions>,
    pub(super) suspended: SuspendedSessions,
    pub(super) ended: EndedSessions,
    timeline: Timeline,
    pub(super) timeouts: Arc<Timeouts>,
    settings: SessionTimeouts,
    pub(super) metrics: Arc<Metrics>,
    events: Box<dyn EventSink>,
    /// Cached result of [`EventSink::wants_order`].
    in_order: bool,
    /// `None` if no webhook subscribes to user events.
    pub(super) online: Option<OnlineUsers>,
    /// `None` if sessions are not shared with other servers.
    pub(super) writes: Option<Arc<DirectoryWrites>>,
}

impl Lifecycle {
    #[expect(clippy::too_many_arguments, reason = "what all sessions share")]
    pub(super) fn new(
        table: Arc<SessionTable>,
        subscriptions: Arc<Subscriptions>,
        timeouts: Arc<Timeouts>,
        settings: SessionTimeouts,
        metrics: Arc<Metrics>,
        events: Box<dyn EventSink>,
        online: Option<OnlineUsers>,
        writes: Option<Arc<DirectoryWrites>>,
    ) -> Arc<Self> {
        let lifecycle = Arc::new(Self {
            table,
            subscriptions,
            suspended: SuspendedSessions::default(),
            ended: EndedSessions::default(),
            timeline: Timeline::new(timeouts.clock().unix_now()),
            timeouts,
            settings,
            metrics,
            in_order: events.wants_order(),
            events,
            online,
            writes,
        });
        let weak = Arc::downgrade(&lifecycle);
        lifecycle.table.set_lifecycle(weak);
        lifecycle
    }

    pub(crate) fn settings(&self) -> &SessionTimeouts {
        &self.settings
    }

    /// Passes a client's service message to the server's own code. Returns whether it was accepted.
    pub(crate) fn service_message(&self, session: &SessionCell, channel: &str, data: &str) -> bool {
        self.events.service_message(session.id(), session.identity().user(), channel, data)
    }

    /// Returns the recent lifecycle events of a session, which may have ended. `None` if the session does not
    /// exist and none of its events is still stored.
    pub(crate) fn history_of(&self, session: SessionId) -> Option<SessionHistory> {
        // Check this before reading the events: an end is recorded before the session leaves the registry.
        let exists = self.table.registry().get(session).is_some();
        let history = self.timeline.history_of(session);
        (exists || !history.events.is_empty()).then_some(history)
    }

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

    /// Applies a client's input. Returns whether the session still accepts input from this source afterwards.
    pub(crate) fn handle_client_input(
        &self,
        session: &SessionCell,
        source: CommandSource,
        input: ClientInput,
    ) -> bool {
        let is_current = self.step(session, |state, step| {
            state.machine.handle(step, source.input(input));
            source.is_current(state)
        });
        let is_current = is_current.unwrap_or(false);
        // The acknowledgement may have made room for more messages, and the connection does not know about
        // it.
        if source.is_out_of_band()
            && is_current
            && matches!(input, ClientInput::Ack { .. } | ClientInput::Pong { .. })
        {
            deliver_pending(&self.table, session);
        }
        is_current
    }

    /// Takes a batch of messages to send on a connection. `None` if the session is no longer attached to the
    /// connection, or if it panicked; what `take` has written must be discarded.
    pub(crate) fn take_outgoing(
        &self,
        session: &SessionCell,
        mailbox: &Mailbox,
        take: impl FnOnce(&mut SessionOutbox) -> DeliveryBatch,
    ) -> Option<DeliveryBatch> {
        let take = |state: &mut SessionState| {
            state.is_attached_to(mailbox.id).then(|| take(state.machine.outbox_mut()))
        };
        // This is not a step: neither the phase nor the deadlines depend on the messages taken, and deliveries
        // are too frequent for checking deadlines each time.
        let batch = self.table.change(session, take).flatten()?;
        if batch.needs_sent_notification {
            self.handle_connection(session, mailbox.id, ConnectionInput::Sent);
        }
        Some(batch)
    }

    /// Fires the deadlines that are due for the session in this slot. If the task of its connection has work
    /// to do, its waker is added to `wakers`.
    pub(crate) fn handle_timeout(&self, slot: u32, wakers: &mut Vec<Waker>) {
        // The timer may have been armed for an earlier session in this slot. In that case nothing is due, and
        // the check has no effect.
        let Some(session) = self.table.get_at(slot) else { return };
        let fire = |state: &mut SessionState, step: &mut StepContext<'_>| state.machine.handle_timeout(step);
        self.step_and_wake(&session, self.timeouts.clock().now(), fire, |waker| wakers.push(waker));
    }

    /// Performs one step of one session. All changes to a session's phase and deadlines are made in steps.
    /// Returns `None` if the step panicked, in which case the session has been closed.
    ///
    /// Of the state machine, only the outbox is also changed elsewhere, by [`SessionTable::change`]: when a
    /// connection takes messages, and when a subscription begins, ends or becomes readable. None of these
    /// affects a deadline.
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
        // First, because a client that resumes too late comes online again.
        if let Some(online) = &self.online {
            online.check_deadline(session.reference(), state, now);
        }
        let context = &mut StepContext { now, timeouts: &self.settings, outputs: &mut step.outputs };
        let result = act(state, context);
        #[cfg(all(test, feature = "simulation"))]
        fail_point::reach(FailPoint::SessionChange);
        let after = state.machine.phase();
        // Between polls, the mailbox is kept for the client's address; the task of the last poll ends by
        // itself.
        if !after.has_client() {
            state.mailbox = None;
        }
        let has_ended = matches!(after, Phase::Closed(_));
        if has_ended && step.subscriptions.is_none() {
            let SessionState { machine, identity, .. } = state;
            step.subscriptions = Some(self.subscriptions.clear(session, identity, machine.outbox_mut()));
        }
        if before != after {
            let address = step.mailbox.as_deref().map(Mailbox::address).or_else(|| state.parked_address());
            self.suspended.phase_changed(session.id(), state, address);
        }
        if let Some(online) = &self.online
            && before != after
        {
            online.phase_changed(session.reference(), state, before, now);
        }
        if before != after {
            self.note_phase(session, state, step, after);
        }
        let has_farewell = step.outputs.iter().any(|output| matches!(output, Output::Close(..)));
        let context = &mut StepContext { now, timeouts: &self.settings, outputs: &mut step.outputs };
        if let Some(unparked) = act_for_parked(state, session, before, context) {
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
            self.ended.record(
                session.id(),
                || self.table.restored_credentials().digest_of(session),
                before,
                reason,
            );
        }
        if self.in_order {
            self.report_in_order(session.id(), state, step);
        }
        let offline_at = self.online.as_ref().and_then(|online| online.deadline(session.reference(), state));
        let slack = self.timeouts.slack();
        let deadline = requested_deadline(&state.machine, now, offline_at, slack, &self.settings);
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
            subscriptions
                .iter()
                .for_each(|subscription| self.subscriptions.complete_unsubscribe(subscription));
        }
        for &output in &step.outputs {
            if is_end(output) && step.reports_end_later {
                self.table.remove(session, &session.identity());
            } else if let Some(waker) = self.carry_out(session, step.mailbox.as_deref(), step.now, output) {
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
                Posted::Parked => signal_parked(&self.table, session, connection, signals),
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

    fn report_in_order(&self, session: SessionId, state: &SessionState, step: &Step<'_>) {
        for &output in &step.outputs {
            if let Output::Event(event) = output
                && !(is_end(output) && step.reports_end_later)
            {
                self.events.session_event_in_order(session, state.identity.shared_user().as_ref(), event);
            }
        }
    }

    /// Reports the last event of a session that has ended, once the directory has confirmed the end.
    pub(crate) fn report_end(&self, session: &SessionCell, event: LifecycleEvent) {
        if self.in_order {
            let user = session.identity().shared_user();
            self.events.session_event_in_order(session.id(), user.as_ref(), event);
        }
        self.report(session, event);
    }

    fn report(&self, session: &SessionCell, event: LifecycleEvent) {
        let (name, reason) = (event.transition.name(), event.transition.reason());
        let identity = session.identity();
        self.timeline.record(session.id(), event, self.timeouts.clock().unix_now());
        if event.transition.is_end() {
            self.table.remove(session, &identity);
        }
        let (session, user) = (session.id(), identity.user());
        self.metrics.sessions.event(name, reason);
        tracing::info!(%session, user, number = event.number, reason, "{name}");
        self.events.session_event(session, user, event);
    }

    /// Ends a session after a panic in a step.
    #[cold]
    fn end_panicked(&self, mut state: StateGuard<'_>, mut step: Step<'_>) {
        step.outputs.clear();
        // The connection may have been unparked during the step, which gives it a new mailbox.
        let mailbox = state.mailbox.take().filter(|mailbox| step.before == Phase::Attached(mailbox.id));
        step.mailbox = mailbox.or(step.mailbox);
        let (mut outbox, before) = (None, step.before);
        let abandon = |state: &mut SessionState, context: &mut StepContext<'_>| {
            outbox = Some(state.machine.abandon(context, before));
        };
        _ = unless_panicked(|| self.change(&mut state, &mut step, abandon));
        drop(state);
        let session = step.session;
        tracing::error!(session = %session.id(), "panic while a session was being changed; the session is closed");
        _ = unless_panicked(|| self.finish(&mut step, std::task::Waker::wake));
        let identity = session.identity();
        // The outbox may be inconsistent. If it has lost a subscription, the channel still has the subscriber,
        // but finds no session to notify.
        _ = unless_panicked(|| {
            for subscription in outbox.into_iter().flat_map(|mut outbox| outbox.clear()) {
                self.subscriptions.join_leave().enqueue_leave(session, &identity, &subscription);
                self.subscriptions.complete_unsubscribe(&subscription);
            }
        });
        // These have no effect unless the session had already ended before the panic.
        self.table.remove(session, &identity);
        if let Some(online) = &self.online {
            online.remove(session.reference(), &session.lock());
        }
    }
}

fn is_end(output: Output) -> bool {
    matches!(output, Output::Event(event) if event.transition.is_end())
}

impl SessionLifecycle for Lifecycle {
    fn messages_sent(&self, session: &SessionCell, connection: ConnectionId) {
        self.handle_connection(session, connection, ConnectionInput::Sent);
    }

    #[cold]
    fn end_half_changed(&self, session: &SessionCell, state: StateGuard<'_>) {
        let step = Step::begin(session, &state, self.timeouts.clock().now());
        self.end_panicked(state, step);
    }
}
