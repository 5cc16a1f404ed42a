//! Heartbeats: when a session sends a ping, and what counts as an answer.

use super::Session;
use super::carrier::Carrier;
use super::phase::PhaseTag;
use super::ping_state::PingState;
use crate::Timestamp;
use crate::close::{CloseCode, SuspendReason};
use crate::session::{ConnectionId, Deadline, DeliveryMode, Output, StepContext};

#[derive(Clone, Copy, Debug)]
pub(super) struct SentPing {
    at: Timestamp,
    /// Seq of the last message encoded before the ping.
    seq: u64,
}

impl<C> Session<C> {
    pub(super) fn ping_due(&mut self, step: &mut StepContext<'_>, current: ConnectionId, due: Timestamp) {
        let received_since = self.last_received_at.since(self.marked_at);
        if self.carrier == Carrier::FrameStream && !received_since.is_zero() {
            // Shift the deadline rather than restarting it, to preserve the random spread of the first pings.
            self.arm_ping(due + received_since);
            return;
        }
        self.fired(step, Deadline::Ping, due);
        self.ping = PingState::Writing;
        step.outputs.push(Output::Ping(current));
    }

    pub(super) fn ping_sent(&mut self, step: &mut StepContext<'_>, seq: u64) {
        if self.ping == PingState::Writing {
            (self.marked_at, self.ping_seq) = (self.now, seq);
            self.await_pong(step);
        }
    }

    /// Returns the ping that was sent and has not been answered.
    fn sent_ping(&self) -> Option<SentPing> {
        let is_sent = matches!(self.ping, PingState::Outstanding | PingState::Probing);
        is_sent.then_some(SentPing { at: self.marked_at, seq: self.ping_seq })
    }

    pub(super) fn pong_due(&mut self, step: &mut StepContext<'_>, current: ConnectionId, due: Timestamp) {
        if let Some(ping) = self.sent_ping()
            && !self.settle_ping(step, current, ping)
        {
            self.ping = PingState::Probing;
            // Keep the due time for the report in case the deadline has really passed.
            self.deadlines.arm(Deadline::Pong, due);
            step.outputs.push(Output::Probe(current));
        }
    }

    pub(super) fn probed(&mut self, step: &mut StepContext<'_>, current: ConnectionId) {
        if let Some((ping, due)) = self.probed_ping()
            && !self.settle_ping(step, current, ping)
        {
            self.fired(step, Deadline::Pong, due);
            step.outputs.push(Output::Close(current, CloseCode::PongTimeout));
            self.lose_connection(step, SuspendReason::PongTimeout);
        }
    }

    /// Restarts the full timeout for an overdue ping that is queued behind data the peer is still receiving.
    pub(super) fn ping_delayed(&mut self, step: &mut StepContext<'_>, current: ConnectionId) {
        if let Some((ping, _)) = self.probed_ping()
            && !self.settle_ping(step, current, ping)
        {
            self.await_pong(step);
        }
    }

    /// Returns the overdue ping for which the kernel is being probed, with the time its answer was due.
    fn probed_ping(&self) -> Option<(SentPing, Timestamp)> {
        let due = self.deadlines.heartbeat.filter(|_| self.ping == PingState::Probing)?;
        Some((self.sent_ping()?, due))
    }

    fn await_pong(&mut self, step: &mut StepContext<'_>) {
        self.ping = PingState::Outstanding;
        self.deadlines.disarm(Deadline::Pong);
        if !matches!(self.phase_tag, PhaseTag::WriteHeld) {
            self.deadlines.arm(Deadline::Pong, self.now + step.timeouts.pong_timeout);
        }
    }

    /// Handles a pong frame. A pong that matches no outstanding ping is allowed, but ignored.
    ///
    /// Browsers answer pings without involving JavaScript, so the page may not have processed the messages
    /// sent before this ping. They count as received only once the next ping is answered: with
    /// [`DeliveryMode::AtLeastOnce`], a pong acknowledges the messages up to the previous ping. With
    /// [`DeliveryMode::AtMostOnce`], messages count as received once the client's WebSocket implementation
    /// has them.
    pub(super) fn pong_frame(
        &mut self,
        step: &mut StepContext<'_>,
        current: ConnectionId,
        seq: u64,
        can_request_ack: bool,
    ) {
        if let Some(ping) = self.sent_ping()
            && seq == ping.seq
        {
            let confirmed = match self.delivery {
                DeliveryMode::AtLeastOnce => std::mem::replace(&mut self.unconfirmed, seq),
                DeliveryMode::AtMostOnce => seq,
            };
            self.outbox.acknowledge(confirmed);
            self.record_pong(step, ping);
            if can_request_ack {
                self.request_acknowledgement(step, current);
            }
        }
    }

    /// Handles a pong message. The client application itself sent it, so it has received everything sent
    /// before the ping.
    pub(super) fn pong_message(&mut self, step: &mut StepContext<'_>, current: ConnectionId, seq: u64) {
        if let Some(ping) = self.sent_ping()
            && seq <= ping.seq
        {
            self.outbox.acknowledge(seq);
            if seq == ping.seq {
                self.record_pong(step, ping);
                self.request_acknowledgement(step, current);
            }
        }
    }

    fn record_pong(&mut self, step: &mut StepContext<'_>, ping: SentPing) {
        self.received(self.now);
        step.outputs.push(Output::RoundTrip(self.now.since(ping.at)));
        self.end_ping_if_answered(step, ping);
    }

    /// Ends the ping if anything was received since it was sent, and arms the next one, or sends it
    /// immediately if an acknowledgement is needed. Returns whether the ping was ended.
    pub(super) fn settle_ping(
        &mut self,
        step: &mut StepContext<'_>,
        current: ConnectionId,
        ping: SentPing,
    ) -> bool {
        let is_over = self.end_ping_if_answered(step, ping);
        if is_over {
            self.request_acknowledgement(step, current);
        }
        is_over
    }

    fn end_ping_if_answered(&mut self, step: &mut StepContext<'_>, ping: SentPing) -> bool {
        if self.last_received_at < ping.at {
            return false;
        }
        self.deadlines.disarm(Deadline::Pong);
        let from = match self.carrier {
            // Clients that rely on ping messages expect them at a steady interval. On an event stream, the
            // server notices received data only when it probes the kernel at the end of `pong_timeout`.
            Carrier::MessageStream | Carrier::Events => ping.at,
            Carrier::FrameStream | Carrier::Poll(_) => self.last_received_at,
        };
        // If the ping was delayed, the next one may already be due when the answer arrives.
        self.arm_ping(self.now.max(from + step.timeouts.ping_interval));
        true
    }

    /// Sends a ping to request an acknowledgement before a full ring stops the stream.
    pub(super) fn request_acknowledgement(&mut self, step: &mut StepContext<'_>, current: ConnectionId) {
        if self.outbox.needs_acknowledgement() && self.ping == PingState::Idle && self.carrier.is_stream() {
            self.deadlines.disarm(Deadline::Ping);
            self.ping = PingState::Writing;
            step.outputs.push(Output::Ping(current));
        }
    }

    pub(super) fn arm_ping(&mut self, at: Timestamp) {
        (self.ping, self.marked_at) = (PingState::Idle, self.last_received_at);
        self.deadlines.arm(Deadline::Ping, at);
    }

    pub(super) fn hold_write(&mut self) {
        self.phase_tag = PhaseTag::WriteHeld;
        if self.sent_ping().is_some() {
            self.ping = PingState::Outstanding;
            self.deadlines.disarm(Deadline::Pong);
        }
    }

    pub(super) fn resume_write(&mut self, step: &mut StepContext<'_>) {
        self.phase_tag = PhaseTag::Attached;
        if self.ping == PingState::Outstanding {
            // The peer has just read data, so it gets the full timeout to answer.
            self.deadlines.arm(Deadline::Pong, self.now + step.timeouts.pong_timeout);
        }
    }
}
