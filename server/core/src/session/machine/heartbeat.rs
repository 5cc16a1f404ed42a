//! How a session asks its client for signs of life, and what it makes of the answers.

use super::Session;
use crate::Timestamp;
use crate::close::{CloseCode, SuspendReason};
use crate::dialect::json::Heartbeat;
use crate::session::{Carrier, ConnectionId, Deadline, Output};

/// Where the current connection is in asking its client for a sign of life.
#[derive(Clone, Copy, Debug)]
pub(super) enum PingState {
    /// Nothing asked.
    Quiet,
    /// A ping is asked for, its bytes not yet in the kernel.
    Writing,
    /// The ping is on its way. [`Deadline::Pong`] is armed, unless a write is held.
    Outstanding(SentPing),
    /// The answer is overdue since `due`; the connection is looking at what the kernel holds.
    Probing { ping: SentPing, due: Timestamp },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SentPing {
    at: Timestamp,
    /// The last message that was encoded before it.
    seq: u64,
}

impl<C> Session<C> {
    pub(super) fn ping_due(&mut self, current: ConnectionId, due: Timestamp) {
        let heard_since = self.heard_at.since(self.quiet_since);
        if self.carrier == Carrier::Stream(Heartbeat::Frame) && !heard_since.is_zero() {
            // Shifted rather than begun anew: the spread that the first ping was given stays.
            self.arm_ping(due + heard_since);
            return;
        }
        self.fired(Deadline::Ping, due);
        self.ping = PingState::Writing;
        self.outputs.push_back(Output::Ping(current));
    }

    pub(super) fn ping_sent(&mut self, seq: u64) {
        match (self.ping, self.carrier) {
            (PingState::Writing, Carrier::Events) => {
                // No answer can come. That the kernel takes it, and its peer the bytes, has to do.
                self.ping = PingState::Quiet;
                self.arm_ping(self.now + self.timeouts.ping_interval);
            }
            (PingState::Writing, Carrier::Stream(_) | Carrier::Poll) => {
                self.ping = PingState::Outstanding(SentPing { at: self.now, seq });
                if !self.write_held {
                    self.deadlines.arm(Deadline::Pong, self.now + self.timeouts.pong_timeout);
                }
            }
            _ => {}
        }
    }

    pub(super) fn pong_due(&mut self, current: ConnectionId, due: Timestamp) {
        if let PingState::Outstanding(ping) = self.ping
            && !self.settle_ping(current, ping)
        {
            self.ping = PingState::Probing { ping, due };
            self.outputs.push_back(Output::Probe(current));
        }
    }

    pub(super) fn probed(&mut self, current: ConnectionId) {
        if let PingState::Probing { ping, due } = self.ping
            && !self.settle_ping(current, ping)
        {
            self.fired(Deadline::Pong, due);
            self.outputs.push_back(Output::Close(current, CloseCode::PongTimeout));
            self.suspend(SuspendReason::PongTimeout);
        }
    }

    /// A pong that answers no ping is allowed, and ignored.
    ///
    /// Browsers answer below JavaScript: the page may not have seen what came before the ping. It has when it has had the
    /// time until the next ping was answered.
    pub(super) fn pong_frame(&mut self, current: ConnectionId, seq: u64) {
        if let PingState::Outstanding(ping) | PingState::Probing { ping, .. } = self.ping
            && seq == ping.seq
        {
            self.outbox.acknowledge(std::mem::replace(&mut self.ponged, seq));
            self.answered(current, ping);
        }
    }

    /// The client itself answers, so it has what came before the ping.
    pub(super) fn pong_message(&mut self, current: ConnectionId, seq: u64) {
        if let PingState::Outstanding(ping) | PingState::Probing { ping, .. } = self.ping
            && seq <= ping.seq
        {
            self.outbox.acknowledge(seq);
            if seq == ping.seq {
                self.answered(current, ping);
            }
        }
    }

    pub(super) fn answered(&mut self, current: ConnectionId, ping: SentPing) {
        self.heard(self.now);
        self.outputs.push_back(Output::RoundTrip(self.now.since(ping.at)));
        self.settle_ping(current, ping);
    }

    /// Ends this ping if anything was heard since, and arms the next.
    pub(super) fn settle_ping(&mut self, current: ConnectionId, ping: SentPing) -> bool {
        if self.heard_at < ping.at {
            return false;
        }
        self.ping = PingState::Quiet;
        self.deadlines.disarm(Deadline::Pong);
        let from = match self.carrier {
            // A client that watches for the messages wants them in a steady beat.
            Carrier::Stream(Heartbeat::Message) => ping.at,
            Carrier::Stream(Heartbeat::Frame) | Carrier::Events | Carrier::Poll => self.heard_at,
        };
        self.arm_ping(from + self.timeouts.ping_interval);
        self.ask_if_much_is_unacked(current);
        true
    }

    /// Before a full ring stops the stream, the client is asked how far it is.
    pub(super) fn ask_if_much_is_unacked(&mut self, current: ConnectionId) {
        if self.outbox.wants_acknowledgement()
            && matches!(self.ping, PingState::Quiet)
            && matches!(self.carrier, Carrier::Stream(_))
        {
            self.deadlines.disarm(Deadline::Ping);
            self.ping = PingState::Writing;
            self.outputs.push_back(Output::Ping(current));
        }
    }

    pub(super) fn arm_ping(&mut self, at: Timestamp) {
        self.quiet_since = self.heard_at;
        self.deadlines.arm(Deadline::Ping, at);
    }

    pub(super) fn hold_write(&mut self) {
        self.write_held = true;
        self.deadlines.disarm(Deadline::Pong);
        if let PingState::Probing { ping, .. } = self.ping {
            self.ping = PingState::Outstanding(ping);
        }
    }

    pub(super) fn resume_write(&mut self) {
        self.write_held = false;
        if let PingState::Outstanding(_) = self.ping {
            // The peer has just read: it gets the whole time to answer.
            self.deadlines.arm(Deadline::Pong, self.now + self.timeouts.pong_timeout);
        }
    }
}
