//! Polls: holding them, waiting for the next one, and the time limit for reconnecting.

use std::time::Duration;

use super::carrier::{Carrier, PollState};
use super::{Phase, Session};
use crate::Timestamp;
use crate::close::{CloseCode, CloseReason};
use crate::session::{
    Attach, ClientPosition, ConnectionId, ConnectionKind, Deadline, DeliveryMode, Output, RequestInput,
    StepContext, WhenFull,
};

impl<C> Session<C> {
    /// Holds a request for messages: a poll, or a Bayeux `/meta/connect` over a WebSocket.
    pub(super) fn hold(&mut self, step: &mut StepContext<'_>, current: ConnectionId, hold: Duration) {
        if hold.is_zero() {
            self.answer_held(step, current);
        } else {
            self.deadlines.arm(Deadline::PollHold, self.now + hold.min(step.timeouts.poll_hold));
        }
    }

    /// Requests that the held request be answered. For a poll, this is the last output.
    pub(super) fn answer_held(&mut self, step: &mut StepContext<'_>, current: ConnectionId) {
        self.begin_answer();
        self.outbox.release_gaps();
        step.outputs.push(Output::AnswerPoll(current));
    }

    /// Records that the answer has begun, so that no output requests another.
    pub(super) fn begin_answer(&mut self) {
        self.deadlines.disarm(Deadline::PollHold);
        if let Carrier::Poll(state) = &mut self.carrier {
            *state = PollState::Answering;
        }
    }

    /// Records that the answer to a poll has reached the kernel.
    pub(super) fn poll_answered(&mut self, step: &mut StepContext<'_>, pause: Duration) {
        if let Carrier::Poll(state) = &mut self.carrier {
            *state = PollState::Answered;
            self.await_poll(step, pause);
        }
    }

    /// Ends the poll, answered or not. The next one is expected after `pause`.
    ///
    /// An abandoned poll says little about the client, because clients and proxies abandon polls and usually
    /// poll again immediately. Therefore both cases are treated alike. No messages are lost, because nothing
    /// is taken from the outbox before the answer begins.
    pub(super) fn await_poll(&mut self, step: &mut StepContext<'_>, pause: Duration) {
        self.set_phase(Phase::BetweenPolls);
        self.marked_at = self.now;
        let at = self.now + pause + step.timeouts.poll_gap;
        // Do not let a long pause extend the reconnect window.
        self.deadlines.arm(Deadline::PollGap, at.min(self.window_end(step)));
    }

    /// Records activity of the client outside its connection. It is ignored for a stream, where it proves
    /// nothing about the connection.
    pub(super) fn note_request_activity(&mut self) {
        if let Carrier::Poll(_) = self.carrier {
            self.received(self.now);
        }
    }

    /// Records that the last answer may not have arrived.
    pub(super) fn answer_lost(&mut self) {
        if let Carrier::Poll(state) = &mut self.carrier {
            *state = PollState::Answering;
        }
    }

    /// Postpones the deadline of the next poll, because the client is active although it does not poll.
    pub(super) fn postpone_poll_gap(&mut self, step: &mut StepContext<'_>) {
        self.received(self.now);
        let at = self.now + step.timeouts.poll_gap;
        let armed = self.deadlines.client.unwrap_or(at);
        self.deadlines.arm(Deadline::PollGap, at.max(armed).min(self.window_end(step)));
    }

    /// Postpones the end of the reconnect window, because the client is active although it has not
    /// reconnected.
    pub(super) fn postpone_reconnect(&mut self, step: &mut StepContext<'_>) {
        self.received(self.now);
        self.deadlines.arm(Deadline::Reconnect, self.window_end(step));
    }

    /// Returns the time until which the client may reconnect: one window after its last activity, but at most
    /// two windows after its last connection. The limit prevents a client that only sends commands from
    /// keeping alive a session whose messages are never read.
    pub(super) fn window_end(&self, step: &StepContext<'_>) -> Timestamp {
        let window = step.timeouts.reconnect_window;
        let left_at = self.marked_at;
        (left_at.max(self.last_received_at) + window).min(left_at + window + window)
    }

    /// Handles a request received outside the connection. `current` is the connection, if there is one.
    pub(super) fn handle_request(
        &mut self,
        step: &mut StepContext<'_>,
        current: Option<ConnectionId>,
        request: RequestInput,
    ) {
        match request {
            RequestInput::Activity => {}
            // Clients on an event stream are not required to send commands, so a single command does not arm
            // the deadline.
            RequestInput::Command if self.deadlines.idle.is_some() => self.postpone_idle(step),
            RequestInput::Command => {}
            RequestInput::Ack { seq } if seq <= self.outbox.seq() => self.outbox.acknowledge(seq),
            RequestInput::Ack { .. } => self.end(step, current, CloseReason::ProtocolError),
            RequestInput::TokenRefreshed(expires) => self.arm_token(expires),
        }
    }

    /// Closes or supersedes the connection `current`, which is being replaced by another one.
    pub(super) fn replace_connection(
        &mut self,
        step: &mut StepContext<'_>,
        current: ConnectionId,
        next: ConnectionKind,
    ) {
        match next {
            ConnectionKind::Poll { .. } => self.release_connection(step, current),
            _ => self.close_connection(step, current, CloseCode::Replaced),
        }
    }

    /// Closes the connection, because its client has another one. A held poll is answered as superseded.
    pub(super) fn release_connection(&mut self, step: &mut StepContext<'_>, current: ConnectionId) {
        match self.carrier {
            Carrier::Poll(PollState::Held) => step.outputs.push(Output::Superseded(current)),
            _ => self.close_connection(step, current, CloseCode::Replaced),
        }
    }

    /// Closes the connection, unless it is a poll that is already being answered.
    pub(super) fn close_connection(
        &mut self,
        step: &mut StepContext<'_>,
        current: ConnectionId,
        code: CloseCode,
    ) {
        if !matches!(self.carrier, Carrier::Poll(PollState::Answering | PollState::Answered)) {
            step.outputs.push(Output::Close(current, code));
        }
    }

    /// Moves the outbox to the position of the client on a new connection.
    pub(super) fn resume_outbox(&mut self, attach: &Attach) {
        let is_answered = self.carrier == Carrier::Poll(PollState::Answered);
        if let (ConnectionKind::Poll { .. }, Some(seq)) = (attach.kind, attach.seq) {
            // A suspended client receives notices again. Unlike a polling client, it cannot cause an endless
            // loop of answers.
            let was_answered = is_answered && self.phase() != Phase::Suspended;
            return self.resume_after(seq, was_answered);
        }
        self.unconfirmed = 0;
        let when_full = match attach.kind {
            ConnectionKind::Stream(_) | ConnectionKind::Poll { .. } => WhenFull::Stop,
            ConnectionKind::Events => WhenFull::Wrap,
        };
        match (attach.seq, attach.delivery) {
            (None, DeliveryMode::AtMostOnce) => {
                if is_answered {
                    self.outbox.acknowledge(self.outbox.sent());
                }
                // Some proxies reset the connection after each answer, so that every answer may be lost.
                let polls_again =
                    matches!(attach.kind, ConnectionKind::Poll { .. }) && self.phase() == Phase::BetweenPolls;
                self.outbox.resume_with_gaps(when_full, is_answered, polls_again);
            }
            (seq, _) => self.outbox.resume(seq, when_full),
        }
    }

    /// Resumes after `seq`, which the client has received. Because overlapping requests may arrive out of
    /// order, the messages that this request acknowledges are kept until the next one.
    fn resume_after(&mut self, seq: u64, was_answered: bool) {
        let confirmed = std::mem::replace(&mut self.unconfirmed, seq);
        self.outbox.resume_keeping(ClientPosition { seq, confirmed }, was_answered);
    }

    /// Handles a request for messages on a stream.
    pub(super) fn hold_on_stream(
        &mut self,
        step: &mut StepContext<'_>,
        current: ConnectionId,
        hold: Duration,
        seq: Option<u64>,
    ) {
        if !self.carrier.is_stream() || seq.is_some_and(|seq| seq > self.outbox.seq()) {
            return;
        }
        match (seq, self.delivery) {
            // The client sends a new request only after the previous answer has arrived.
            (Some(seq), _) => self.resume_after(seq, true),
            // The new request shows that the previous answer has arrived, with everything sent before it.
            (None, DeliveryMode::AtMostOnce) => self.outbox.acknowledge(self.unconfirmed),
            (None, DeliveryMode::AtLeastOnce) => {}
        }
        self.hold(step, current, hold);
    }

    /// Records that the request held on a stream was answered.
    pub(super) fn hold_released(&mut self, step: &mut StepContext<'_>, current: ConnectionId) {
        if self.carrier.is_stream() {
            self.deadlines.disarm(Deadline::PollHold);
            if self.delivery == DeliveryMode::AtMostOnce {
                self.unconfirmed = self.outbox.sent();
                // Until this answer, pongs could not acknowledge anything more.
                self.request_acknowledgement(step, current);
            }
        }
    }
}
