//! Heartbeats: when a session sends a ping, and what counts as an answer.

use super::Session;
use super::carrier::Carrier;
use crate::Timestamp;
use crate::close::{CloseCode, SuspendReason};
use crate::session::{ConnectionId, Deadline, Delivery, Heartbeat, Output, Step};

/// The ping of the current connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PingState {
    /// None. Traffic received after [`Session::marked_at`] postpones the next.
    Idle,
    /// Requested; its bytes are not in the kernel yet.
    Writing,
    /// Sent at [`Session::marked_at`] and not answered. [`Deadline::Pong`] is armed, unless a write is held.
    Outstanding,
    /// The same, and the answer is overdue; the connection is checking what the kernel holds.
    Probing,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SentPing {
    at: Timestamp,
    /// The last message that was encoded before it.
    seq: u64,
}

impl<C> Session<C> {
    pub(super) fn ping_due(&mut self, step: &mut Step<'_>, current: ConnectionId, due: Timestamp) {
        let received_since = self.last_received_at.since(self.marked_at);
        if self.carrier == Carrier::Stream(Heartbeat::Frame) && !received_since.is_zero() {
            // Shifted rather than restarted, so that the spread of the first pings stays.
            self.arm_ping(due + received_since);
            return;
        }
        self.fired(step, Deadline::Ping, due);
        self.ping = PingState::Writing;
        step.outputs.push(Output::Ping(current));
    }

    pub(super) fn ping_sent(&mut self, step: &mut Step<'_>, seq: u64) {
        if self.ping == PingState::Writing {
            (self.marked_at, self.ping_seq) = (self.now, seq);
            self.await_pong(step);
        }
    }

    /// The ping that is sent and not answered.
    fn sent_ping(&self) -> Option<SentPing> {
        let is_sent = matches!(self.ping, PingState::Outstanding | PingState::Probing);
        is_sent.then_some(SentPing { at: self.marked_at, seq: self.ping_seq })
    }

    pub(super) fn pong_due(&mut self, step: &mut Step<'_>, current: ConnectionId, due: Timestamp) {
        if let Some(ping) = self.sent_ping()
            && !self.settle_ping(step, current, ping)
        {
            self.ping = PingState::Probing;
            // For when it is told that it has passed.
            self.deadlines.arm(Deadline::Pong, due);
            step.outputs.push(Output::Probe(current));
        }
    }

    pub(super) fn probed(&mut self, step: &mut Step<'_>, current: ConnectionId) {
        if let Some((ping, due)) = self.probed_ping()
            && !self.settle_ping(step, current, ping)
        {
            self.fired(step, Deadline::Pong, due);
            step.outputs.push(Output::Close(current, CloseCode::PongTimeout));
            self.lose_connection(step, SuspendReason::PongTimeout);
        }
    }

    /// The peer gets as long again.
    pub(super) fn ping_delayed(&mut self, step: &mut Step<'_>, current: ConnectionId) {
        if let Some((ping, _)) = self.probed_ping()
            && !self.settle_ping(step, current, ping)
        {
            self.await_pong(step);
        }
    }

    /// The ping about which the kernel is being asked, and when its answer was due.
    fn probed_ping(&self) -> Option<(SentPing, Timestamp)> {
        let due = self.deadlines.heartbeat().filter(|_| self.ping == PingState::Probing)?;
        Some((self.sent_ping()?, due))
    }

    fn await_pong(&mut self, step: &mut Step<'_>) {
        self.ping = PingState::Outstanding;
        self.deadlines.disarm(Deadline::Pong);
        if !self.write_held {
            self.deadlines.arm(Deadline::Pong, self.now + step.timeouts.pong_timeout);
        }
    }

    /// A pong that answers no ping is allowed, and ignored.
    ///
    /// Browsers answer below JavaScript, so the page may not have seen what came before this ping. It counts as having it
    /// once the next ping is answered: hence this acknowledges up to the ping before. A client that gets nothing twice has
    /// what its machine has.
    pub(super) fn pong_frame(
        &mut self,
        step: &mut Step<'_>,
        current: ConnectionId,
        seq: u64,
        may_ask_on: bool,
    ) {
        if let Some(ping) = self.sent_ping()
            && seq == ping.seq
        {
            let confirmed = match self.delivery {
                Delivery::AtLeastOnce => std::mem::replace(&mut self.unconfirmed, seq),
                Delivery::AtMostOnce => seq,
            };
            self.outbox.acknowledge(confirmed);
            self.answered(step, ping);
            if may_ask_on {
                self.request_acknowledgement(step, current);
            }
        }
    }

    /// The client itself answers, so it has everything sent before the ping.
    pub(super) fn pong_message(&mut self, step: &mut Step<'_>, current: ConnectionId, seq: u64) {
        if let Some(ping) = self.sent_ping()
            && seq <= ping.seq
        {
            self.outbox.acknowledge(seq);
            if seq == ping.seq {
                self.answered(step, ping);
                self.request_acknowledgement(step, current);
            }
        }
    }

    fn answered(&mut self, step: &mut Step<'_>, ping: SentPing) {
        self.received(self.now);
        step.outputs.push(Output::RoundTrip(self.now.since(ping.at)));
        self.end_ping(step, ping);
    }

    /// Ends this ping if anything was received since, and arms the next, or asks at once.
    pub(super) fn settle_ping(&mut self, step: &mut Step<'_>, current: ConnectionId, ping: SentPing) -> bool {
        let is_over = self.end_ping(step, ping);
        if is_over {
            self.request_acknowledgement(step, current);
        }
        is_over
    }

    fn end_ping(&mut self, step: &mut Step<'_>, ping: SentPing) -> bool {
        if self.last_received_at < ping.at {
            return false;
        }
        self.deadlines.disarm(Deadline::Pong);
        let from = match self.carrier {
            // A client that watches for the messages expects them at a steady interval. An event stream is heard only when it is
            // asked, at the end of `pong_timeout`.
            Carrier::Stream(Heartbeat::Message) | Carrier::Events => ping.at,
            Carrier::Stream(Heartbeat::Frame) | Carrier::Poll(_) => self.last_received_at,
        };
        // The answer to a ping that was delayed may come when the next one is due already.
        self.arm_ping(self.now.max(from + step.timeouts.ping_interval));
        true
    }

    /// Requests an acknowledgement, by a ping, before a full ring stops the stream.
    pub(super) fn request_acknowledgement(&mut self, step: &mut Step<'_>, current: ConnectionId) {
        if self.outbox.needs_acknowledgement()
            && self.ping == PingState::Idle
            && matches!(self.carrier, Carrier::Stream(_))
        {
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
        self.write_held = true;
        if self.sent_ping().is_some() {
            self.ping = PingState::Outstanding;
            self.deadlines.disarm(Deadline::Pong);
        }
    }

    pub(super) fn resume_write(&mut self, step: &mut Step<'_>) {
        self.write_held = false;
        if self.ping == PingState::Outstanding {
            // The peer has just read: it gets the full timeout to answer.
            self.deadlines.arm(Deadline::Pong, self.now + step.timeouts.pong_timeout);
        }
    }
}
