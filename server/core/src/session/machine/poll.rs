//! Polls: what is held, what lies between two of them, and how long a client may stay away.

use std::time::Duration;

use super::carrier::{Carrier, PollState};
use super::{Phase, Session};
use crate::Timestamp;
use crate::close::{CloseCode, CloseReason};
use crate::session::{
    Attach, ConnectionId, ConnectionKind, Deadline, Delivery, Output, Request, Step, WhenFull,
};

impl<C> Session<C> {
    /// Holds a request for what is new: a poll, or a stream's.
    pub(super) fn hold(&mut self, step: &mut Step<'_>, current: ConnectionId, hold: Duration) {
        if hold.is_zero() {
            self.answer_held(step, current);
        } else {
            self.deadlines.arm(Deadline::PollHold, self.now + hold.min(step.timeouts.poll_hold));
        }
    }

    /// Has the request that is held answered. After this, a poll hears nothing more.
    pub(super) fn answer_held(&mut self, step: &mut Step<'_>, current: ConnectionId) {
        self.begin_answer();
        step.outputs.push(Output::AnswerPoll(current));
    }

    /// The answer is under way: no output asks for another.
    pub(super) fn begin_answer(&mut self) {
        self.deadlines.disarm(Deadline::PollHold);
        if let Carrier::Poll(state) = &mut self.carrier {
            *state = PollState::Answering;
        }
    }

    /// The answer of a poll has reached the kernel.
    pub(super) fn poll_answered(&mut self, step: &mut Step<'_>, pause: Duration) {
        if let Carrier::Poll(state) = &mut self.carrier {
            *state = PollState::Answered;
            self.await_poll(step, pause);
        }
    }

    /// The poll is over, one way or the other. The next is expected after `pause`.
    ///
    /// A poll that its client or a proxy gives up says nothing of the client, which mostly polls again at once: so this is the
    /// same whether there was an answer or not. Nothing is taken from the outbox before the answer begins, so nothing is lost.
    pub(super) fn await_poll(&mut self, step: &mut Step<'_>, pause: Duration) {
        self.set_phase(Phase::BetweenPolls);
        self.marked_at = self.now;
        let at = self.now + pause + step.timeouts.poll_gap;
        // A client that was asked to wait for longer than the window is gone with the window.
        self.deadlines.arm(Deadline::PollGap, at.min(self.window_end(step)));
    }

    /// The client is there: it has asked for something beside its connection. That tells nothing of a stream, which may be dead.
    pub(super) fn heard_beside(&mut self) {
        if let Carrier::Poll(_) = self.carrier {
            self.received(self.now);
        }
    }

    /// What was sent last may not have arrived.
    pub(super) fn answer_lost(&mut self) {
        if let Carrier::Poll(state) = &mut self.carrier {
            *state = PollState::Answering;
        }
    }

    /// The client is there, though it does not poll.
    pub(super) fn put_off_poll_gap(&mut self, step: &mut Step<'_>) {
        self.received(self.now);
        let at = self.now + step.timeouts.poll_gap;
        let armed = self.deadlines.client().unwrap_or(at);
        self.deadlines.arm(Deadline::PollGap, at.max(armed).min(self.window_end(step)));
    }

    /// The client is there, though it does not come back.
    pub(super) fn put_off_reconnect(&mut self, step: &mut Step<'_>) {
        self.received(self.now);
        self.deadlines.arm(Deadline::Reconnect, self.window_end(step));
    }

    /// Until when the client may come back: a window after it was last heard, but no more than two after its last
    /// connection. So a client that only sends commands does not keep a session that nobody reads.
    pub(super) fn window_end(&self, step: &Step<'_>) -> Timestamp {
        let window = step.timeouts.reconnect_window;
        let left_at = self.marked_at;
        (left_at.max(self.last_received_at) + window).min(left_at + window + window)
    }

    /// What the client asks for beside its connection, `current`, if it has one.
    pub(super) fn take_request(
        &mut self,
        step: &mut Step<'_>,
        current: Option<ConnectionId>,
        request: Request,
    ) {
        match request {
            Request::Heard => {}
            // A client that can only listen need not send commands, also when it has sent one.
            Request::Command if self.deadlines.idle().is_some() => self.postpone_idle(step),
            Request::Command => {}
            Request::Ack { seq } if seq <= self.outbox.seq() => self.outbox.acknowledge(seq),
            Request::Ack { .. } => self.end(step, current, CloseReason::ProtocolError),
            Request::TokenRefreshed(expires) => self.arm_token(expires),
        }
    }

    /// Another connection takes the place of `current`.
    pub(super) fn release(&mut self, step: &mut Step<'_>, current: ConnectionId, next: ConnectionKind) {
        match (self.carrier, next) {
            (Carrier::Poll(PollState::Held), ConnectionKind::Poll { .. }) => {
                step.outputs.push(Output::Superseded(current));
            }
            _ => self.say_farewell(step, current, CloseCode::Replaced),
        }
    }

    /// A poll that is being answered already gets no second answer.
    pub(super) fn say_farewell(&mut self, step: &mut Step<'_>, current: ConnectionId, code: CloseCode) {
        if !matches!(self.carrier, Carrier::Poll(PollState::Answering | PollState::Answered)) {
            step.outputs.push(Output::Close(current, code));
        }
    }

    /// Has the outbox go on where the client of a new connection is.
    pub(super) fn resume_outbox(&mut self, attach: &Attach) {
        let is_answered = self.carrier == Carrier::Poll(PollState::Answered);
        if let (ConnectionKind::Poll { .. }, Some(seq)) = (attach.kind, attach.seq) {
            // One that was away is told again: it does not ask for ever.
            let has_heard = is_answered && self.phase() != Phase::Suspended;
            return self.resume_after(seq, has_heard);
        }
        self.unconfirmed = 0;
        let when_full = match attach.kind {
            ConnectionKind::Stream(_) | ConnectionKind::Poll { .. } => WhenFull::Stop,
            ConnectionKind::Events => WhenFull::Wrap,
        };
        match (attach.seq, attach.delivery) {
            (None, Delivery::AtMostOnce) => {
                if is_answered {
                    self.outbox.acknowledge(self.outbox.sent());
                }
                self.outbox.resume_with_gaps(when_full, is_answered);
            }
            (seq, _) => self.outbox.resume(seq, when_full),
        }
    }

    /// The client has everything up to `seq`, and gets again what follows. Of two requests that overlap, the one that arrives
    /// last may be the older: so what is acknowledged here is forgotten only with the next.
    fn resume_after(&mut self, seq: u64, has_heard: bool) {
        let confirmed = std::mem::replace(&mut self.unconfirmed, seq);
        self.outbox.resume_keeping(seq, confirmed, has_heard);
    }

    /// A stream's client asks for what is new.
    pub(super) fn hold_on_stream(
        &mut self,
        step: &mut Step<'_>,
        current: ConnectionId,
        hold: Duration,
        seq: Option<u64>,
    ) {
        if !matches!(self.carrier, Carrier::Stream(_)) || seq.is_some_and(|seq| seq > self.outbox.seq()) {
            return;
        }
        match (seq, self.delivery) {
            // It asks because the answer before has arrived.
            (Some(seq), _) => self.resume_after(seq, true),
            // It asks because the answer before has arrived, and all that was sent before that.
            (None, Delivery::AtMostOnce) => self.outbox.acknowledge(self.unconfirmed),
            (None, Delivery::AtLeastOnce) => {}
        }
        self.hold(step, current, hold);
    }

    /// A stream's request was answered.
    pub(super) fn hold_released(&mut self, step: &mut Step<'_>, current: ConnectionId) {
        if let Carrier::Stream(_) = self.carrier {
            self.deadlines.disarm(Deadline::PollHold);
            if self.delivery == Delivery::AtMostOnce {
                self.unconfirmed = self.outbox.sent();
                // Before the answer, pongs may have acknowledged no more.
                self.request_acknowledgement(step, current);
            }
        }
    }
}
