mod carrier;
mod deadlines;
mod due;
mod heartbeat;
mod phase;
mod ping_state;
mod poll;
mod queries;
mod snapshot;

use std::time::Duration;

use carrier::Carrier;
use deadlines::Deadlines;
pub use phase::Phase;
use phase::PhaseTag;
use ping_state::PingState;

use super::{
    Attach, ConnectionId, ConnectionInput, ConnectionKind, Deadline, DeliveryMode, Input, LifecycleEvent,
    Outbox, Output, RequestInput, ResumeKind, StepContext, Transition,
};
use crate::Timestamp;
use crate::close::{CloseCode, CloseReason, SuspendReason};

/// The state machine of one session. `C` is the owner's handle of a channel. The [module](super)
/// documentation explains how to drive it.
#[derive(Debug)]
pub struct Session<C = ()> {
    phase_tag: PhaseTag,
    /// Current connection of the session, or the last one if it has none.
    connection: ConnectionId,
    carrier: Carrier,
    delivery: DeliveryMode,
    ping: PingState,
    /// Seq of the last message encoded before the last ping.
    ping_seq: u64,
    deadlines: Deadlines,
    /// Latest time seen. If the clock goes backwards, the session's time stands still.
    now: Timestamp,
    opened_at: Timestamp,
    last_received_at: Timestamp,
    /// While attached, a reference time of the [ping](PingState). Otherwise, the start of the reconnect
    /// window: when the last connection was lost or the last poll ended.
    marked_at: Timestamp,
    outbox: Outbox<C>,
    /// Last seq that the client's next activity acknowledges: the seq of the last ping answered by a pong
    /// frame on this connection, of the last poll, or of the answer to the last request held on a stream.
    unconfirmed: u64,
    events: u32,
}

/// The size matters because a server holds millions of sessions. The server's channel handle takes 16 bytes.
const _: () = assert!(size_of::<Session<[u64; 2]>>() <= 232);

impl<C> Session<C> {
    /// Opens a session with its first connection.
    #[must_use]
    pub fn open(step: &mut StepContext<'_>, outbox: Outbox<C>, attach: Attach) -> Self {
        let now = step.now;
        let mut session = Self {
            phase_tag: PhaseTag::Suspended,
            connection: attach.connection,
            carrier: attach.kind.into(),
            delivery: attach.delivery,
            ping: PingState::Idle,
            ping_seq: 0,
            deadlines: Deadlines::default(),
            now,
            opened_at: now,
            last_received_at: now,
            marked_at: now,
            outbox,
            unconfirmed: 0,
            events: 0,
        };
        session.attach(step, attach, Some(Transition::Opened));
        session
    }

    fn set_phase(&mut self, phase: Phase) {
        if let Phase::Attached(connection) = phase {
            self.connection = connection;
        }
        self.phase_tag = phase.into();
    }

    /// Fires the deadlines that are due, then handles an input.
    pub fn handle(&mut self, step: &mut StepContext<'_>, input: Input) {
        self.handle_timeout(step);
        self.handle_without_timeouts(step, input);
    }

    /// Handles another input in a step that has already fired the due deadlines.
    pub fn handle_without_timeouts(&mut self, step: &mut StepContext<'_>, input: Input) {
        match (self.phase(), input) {
            (
                Phase::BetweenPolls | Phase::Suspended | Phase::Moved,
                Input::Connection(connection, ConnectionInput::AnswerLost),
            ) if self.is_latest_connection(connection) => self.answer_lost(),
            (Phase::Moved, Input::MoveFailed) => self.end(step, None, CloseReason::Draining),
            (Phase::Closed(_) | Phase::Moved, _) | (_, Input::MoveFailed) => {}
            (_, Input::Attach(attach)) if attach.seq.is_some_and(|seq| seq > self.outbox.seq()) => {}
            (Phase::Attached(current), Input::Attach(attach)) if attach.connection == current => {}
            (Phase::Attached(current), Input::Attach(attach)) => {
                self.replace_connection(step, current, attach.kind);
                self.attach(step, attach, self.take_over_event(attach.kind));
            }
            (Phase::BetweenPolls, Input::Attach(attach)) => {
                self.attach(step, attach, self.take_over_event(attach.kind));
            }
            (Phase::Suspended, Input::Attach(attach)) => {
                self.attach(step, attach, Some(Transition::Resumed(ResumeKind::Reconnect)));
            }
            (Phase::Attached(current), Input::Connection(connection, input)) if connection == current => {
                self.handle_connection_input(step, current, input);
            }
            // Ignore input from replaced or lost connections.
            (Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended, Input::Connection(..)) => {}
            (Phase::Attached(current), Input::Request(request)) => {
                self.note_request_activity();
                self.handle_request(step, Some(current), request);
            }
            (Phase::BetweenPolls, Input::Request(request)) => {
                self.postpone_poll_gap(step);
                self.handle_request(step, None, request);
            }
            // Ignore the token itself: the next connection brings its own.
            (Phase::Suspended, Input::Request(RequestInput::TokenRefreshed(_))) => {
                self.postpone_reconnect(step)
            }
            (Phase::Suspended, Input::Request(request)) => {
                self.postpone_reconnect(step);
                self.handle_request(step, None, request);
            }
            (Phase::Attached(current), Input::Disconnect) => {
                self.close_connection(step, current, CloseCode::Disconnected);
                self.lose_connection(step, SuspendReason::Disconnected);
            }
            (Phase::BetweenPolls, Input::Disconnect) => self.suspend(step, SuspendReason::Disconnected),
            (Phase::Suspended, Input::Disconnect) => {}
            (Phase::Attached(current), Input::Move) => {
                self.close_connection(step, current, CloseCode::Moved);
                self.lose_connection(step, SuspendReason::Moved);
                self.set_phase(Phase::Moved);
            }
            (Phase::Attached(current), Input::HandOver) => {
                self.release_connection(step, current);
                self.marked_at = self.now;
                self.hand_over(step);
            }
            (Phase::BetweenPolls, Input::HandOver) => self.hand_over(step),
            (Phase::BetweenPolls, Input::Detach(reason)) => self.suspend(step, reason),
            (Phase::Attached(_) | Phase::Suspended, Input::Detach(_)) => {}
            (Phase::BetweenPolls, Input::Move) => {
                self.suspend(step, SuspendReason::Moved);
                self.set_phase(Phase::Moved);
            }
            (Phase::Attached(current), Input::Fence(code)) => {
                self.close_connection(step, current, code);
                self.ping = PingState::Idle;
                self.set_phase(Phase::Moved);
            }
            (Phase::Suspended, Input::Move | Input::HandOver)
            | (Phase::BetweenPolls | Phase::Suspended, Input::Fence(_)) => self.set_phase(Phase::Moved),
            (Phase::Attached(current), Input::Close(reason)) => self.end(step, Some(current), reason),
            (Phase::BetweenPolls | Phase::Suspended, Input::Close(reason)) => self.end(step, None, reason),
        }
    }

    fn handle_connection_input(
        &mut self,
        step: &mut StepContext<'_>,
        current: ConnectionId,
        input: ConnectionInput,
    ) {
        match input {
            ConnectionInput::PingSent { seq } => self.ping_sent(step, seq),
            ConnectionInput::PongFrame { seq } => self.pong_frame(step, current, seq, true),
            ConnectionInput::LastPongFrame { seq } => self.pong_frame(step, current, seq, false),
            ConnectionInput::PongMessage { seq } => self.pong_message(step, current, seq),
            ConnectionInput::Ack { seq } if seq <= self.outbox.seq() => self.outbox.acknowledge(seq),
            ConnectionInput::Ack { .. } => self.end(step, Some(current), CloseReason::ProtocolError),
            ConnectionInput::Command => self.postpone_idle(step),
            ConnectionInput::Sent if matches!(self.carrier, Carrier::Poll(_)) => self.begin_answer(),
            ConnectionInput::Sent => self.request_acknowledgement(step, current),
            ConnectionInput::Answered { pause } => self.poll_answered(step, pause),
            ConnectionInput::AnswerLost => {}
            ConnectionInput::Hold { hold, seq } => self.hold_on_stream(step, current, hold, seq),
            ConnectionInput::Released => self.hold_released(step, current),
            ConnectionInput::WriteHeld => self.hold_write(),
            ConnectionInput::WriteResumed => self.resume_write(step),
            ConnectionInput::Probed => self.probed(step, current),
            ConnectionInput::PingDelayed => self.ping_delayed(step, current),
            ConnectionInput::TokenRefreshed(expires) => self.arm_token(expires),
            ConnectionInput::Ended(_) if matches!(self.carrier, Carrier::Poll(_)) => {
                self.await_poll(step, Duration::ZERO);
            }
            ConnectionInput::Ended(reason) => self.lose_connection(step, reason),
            ConnectionInput::Close(reason) => self.end(step, Some(current), reason),
        }
    }

    /// Fires the deadlines that are due. Has no effect if none is due.
    pub fn handle_timeout(&mut self, step: &mut StepContext<'_>) {
        if self.phase() == Phase::Moved {
            return;
        }
        self.now = self.now.max(step.now);
        while self.may_be_due(step.timeouts, self.now)
            && let Some((due, deadline)) = self.earliest(step.timeouts).filter(|(due, _)| *due <= self.now)
        {
            if deadline != Deadline::Lifetime {
                self.deadlines.disarm(deadline);
            }
            self.fire(step, deadline, due);
        }
    }

    fn fire(&mut self, step: &mut StepContext<'_>, deadline: Deadline, due: Timestamp) {
        match (self.phase(), deadline) {
            (Phase::Attached(current), Deadline::Ping) => self.ping_due(step, current, due),
            (Phase::Attached(current), Deadline::Pong) => self.pong_due(step, current, due),
            (Phase::Attached(current), Deadline::PollHold) => {
                self.fired(step, deadline, due);
                self.answer_held(step, current);
            }
            (Phase::BetweenPolls, Deadline::PollGap) => {
                self.fired(step, deadline, due);
                self.suspend(step, SuspendReason::PollGap);
            }
            (Phase::Attached(current), Deadline::Token) => {
                self.fired(step, deadline, due);
                self.close_connection(step, current, CloseCode::TokenExpired);
                self.lose_connection(step, SuspendReason::TokenExpired);
            }
            (Phase::BetweenPolls, Deadline::Token) => {
                self.fired(step, deadline, due);
                self.suspend(step, SuspendReason::TokenExpired);
            }
            (Phase::Suspended, Deadline::Reconnect) => {
                self.fired(step, deadline, due);
                self.end(step, None, CloseReason::ReconnectWindow);
            }
            (phase, Deadline::Idle | Deadline::Lifetime) => {
                let reason =
                    if deadline == Deadline::Idle { CloseReason::Idle } else { CloseReason::Lifetime };
                self.fired(step, deadline, due);
                match phase {
                    Phase::Attached(current) => self.end(step, Some(current), reason),
                    _ => self.end(step, None, reason),
                }
            }
            (phase, deadline) => unreachable!("{deadline:?} is never armed while {phase:?}"),
        }
    }

    /// Records that bytes arrived on the current connection at `at`. Fires no deadlines. Must be called
    /// before [`Session::handle`] and [`Session::handle_timeout`], whose decisions depend on it.
    pub fn received(&mut self, at: Timestamp) {
        self.last_received_at = self.last_received_at.max(at);
    }

    /// Records that bytes were read from the current connection during the step at `now`. Uses the time of the
    /// latest step if that is later: a worker may have sent a ping after the kernel reported that bytes can be
    /// read.
    pub fn received_in_step(&mut self, now: Timestamp) {
        self.received(self.now.max(now));
    }

    /// Records that the client's token expires at `at`; this may change when the wall clock is set. Fires no
    /// deadlines. Must be called before [`Session::handle`] and [`Session::handle_timeout`], whose decisions
    /// depend on it.
    pub fn token_expires(&mut self, at: Timestamp) {
        if self.phase().has_client() {
            self.deadlines.arm(Deadline::Token, at);
        }
    }

    fn attach(&mut self, step: &mut StepContext<'_>, attach: Attach, transition: Option<Transition>) {
        self.resume_outbox(&attach);
        self.set_phase(Phase::Attached(attach.connection));
        self.carrier = attach.kind.into();
        self.delivery = attach.delivery;
        (self.ping, self.marked_at) = (PingState::Idle, self.now);
        self.last_received_at = self.now;
        self.deadlines.disarm_connection_deadlines();
        self.arm_token(attach.token_expires);
        match attach.kind {
            // Clients cannot send commands on an event stream, so they cannot be idle.
            ConnectionKind::Events => self.deadlines.disarm(Deadline::Idle),
            ConnectionKind::Stream(_) | ConnectionKind::Poll { .. } if self.deadlines.idle.is_none() => {
                self.postpone_idle(step)
            }
            ConnectionKind::Stream(_) | ConnectionKind::Poll { .. } => {}
        }
        if let Some(transition) = transition {
            self.emit(step, transition);
        }
        match attach.kind {
            ConnectionKind::Stream(_) | ConnectionKind::Events => {
                let half = step.timeouts.ping_interval / 2;
                let spread = half.mul_f64(f64::from(attach.entropy) / f64::from(u32::MAX));
                self.arm_ping(self.now + half + spread);
            }
            ConnectionKind::Poll { hold } => self.hold(step, attach.connection, hold),
        }
    }

    /// Returns the event for a take-over by the connection `next`; `None` if a poll follows a poll.
    fn take_over_event(&self, next: ConnectionKind) -> Option<Transition> {
        let is_continuation = matches!((self.carrier, next), (Carrier::Poll(_), ConnectionKind::Poll { .. }));
        (!is_continuation).then_some(Transition::Resumed(ResumeKind::TakeOver))
    }

    fn lose_connection(&mut self, step: &mut StepContext<'_>, reason: SuspendReason) {
        self.marked_at = self.now;
        self.suspend(step, reason);
    }

    fn suspend(&mut self, step: &mut StepContext<'_>, reason: SuspendReason) {
        self.set_phase(Phase::Suspended);
        self.begin_window(step);
        self.emit(step, Transition::Suspended(reason));
    }

    fn hand_over(&mut self, step: &mut StepContext<'_>) {
        self.set_phase(Phase::Moved);
        self.begin_window(step);
    }

    fn begin_window(&mut self, step: &StepContext<'_>) {
        self.ping = PingState::Idle;
        self.deadlines.disarm_connection_deadlines();
        self.deadlines.disarm(Deadline::Token);
        self.deadlines.arm(Deadline::Reconnect, self.window_end(step));
    }

    /// Ends the session and closes its connection.
    fn end(&mut self, step: &mut StepContext<'_>, current: Option<ConnectionId>, reason: CloseReason) {
        if let Some(current) = current {
            self.close_connection(step, current, reason.close_code());
        }
        self.set_phase(Phase::Closed(reason));
        self.ping = PingState::Idle;
        self.deadlines.disarm_all();
        self.emit(
            step,
            match reason {
                CloseReason::ReconnectWindow => Transition::Expired,
                reason => Transition::Closed(reason),
            },
        );
    }

    /// Ends a session after a panic while it was being changed. `before` is its phase before that change.
    /// Everything that the change may have left inconsistent is reset, except for the outbox, which is
    /// replaced and returned.
    pub fn abandon(&mut self, step: &mut StepContext<'_>, before: Phase) -> Outbox<C> {
        self.set_phase(before);
        match before {
            Phase::Attached(current) => self.end(step, Some(current), CloseReason::Internal),
            Phase::BetweenPolls | Phase::Suspended | Phase::Moved => {
                self.end(step, None, CloseReason::Internal);
            }
            Phase::Closed(_) => {}
        }
        std::mem::replace(&mut self.outbox, Outbox::new(1))
    }

    fn postpone_idle(&mut self, step: &mut StepContext<'_>) {
        if let Some(idle) = step.timeouts.idle {
            self.deadlines.arm(Deadline::Idle, self.now + idle);
        }
    }

    fn arm_token(&mut self, expires: Option<Timestamp>) {
        match expires {
            Some(at) => self.deadlines.arm(Deadline::Token, at),
            None => self.deadlines.disarm(Deadline::Token),
        }
    }

    fn fired(&mut self, step: &mut StepContext<'_>, deadline: Deadline, due: Timestamp) {
        step.outputs.push(Output::Fired(deadline, due));
    }

    fn emit(&mut self, step: &mut StepContext<'_>, transition: Transition) {
        self.events += 1;
        step.outputs.push(Output::Event(LifecycleEvent { number: self.events, transition }));
    }
}
