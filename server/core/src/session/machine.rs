use std::collections::VecDeque;
use std::sync::Arc;

use super::deadline::DeadlineTable;
use super::{
    Attach, Carrier, ConnectionId, ConnectionInput, Deadline, Event, Input, Output, ResumeKind, Timeouts,
    Transition,
};
use crate::Timestamp;
use crate::close::{CloseCode, CloseReason, SuspendReason};
use crate::dialect::json::Heartbeat;

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has a connection.
    Attached(ConnectionId),
    /// It waits for its client to come back.
    Suspended,
    /// It is over. Nothing more happens.
    Closed(CloseReason),
}

/// Where the current connection is in asking its client for a sign of life.
#[derive(Clone, Copy, Debug)]
enum PingState {
    /// Nothing asked.
    Quiet,
    /// A ping is asked for, its bytes not yet in the kernel.
    Writing,
    /// The ping is on its way. [`Deadline::Pong`] is armed, unless a write is held.
    Outstanding { sent_at: Timestamp },
    /// The answer is overdue since `due`; the connection is looking at what the kernel holds.
    Probing { sent_at: Timestamp, due: Timestamp },
}

/// The state machine of one session. See the [module](super) for how to drive it.
#[derive(Debug)]
pub struct Session {
    timeouts: Arc<Timeouts>,
    phase: Phase,
    carrier: Carrier,
    ping: PingState,
    /// Bytes wait that the kernel does not take: `write_timeout` of the transport governs instead of Pong.
    write_held: bool,
    deadlines: DeadlineTable,
    /// The latest time told: a clock that goes backwards stands still here.
    now: Timestamp,
    opened_at: Timestamp,
    heard_at: Timestamp,
    /// The `heard_at` that the Ping deadline was armed by: what was heard after it puts the ping off.
    quiet_since: Timestamp,
    /// The number of the last message sent.
    seq: u64,
    events: u32,
    /// What one call brought about, at most [`Session::MAX_OUTPUTS`]: drained by the caller after each.
    outputs: VecDeque<Output>,
}

impl Session {
    /// The most outputs that one call leaves.
    pub const MAX_OUTPUTS: usize = 16;

    /// Begins a session with its first connection.
    #[must_use]
    pub fn open(now: Timestamp, timeouts: Arc<Timeouts>, attach: Attach) -> Self {
        let mut session = Self {
            timeouts,
            phase: Phase::Suspended,
            carrier: attach.carrier,
            ping: PingState::Quiet,
            write_held: false,
            deadlines: DeadlineTable::default(),
            now,
            opened_at: now,
            heard_at: now,
            quiet_since: now,
            seq: 0,
            events: 0,
            outputs: VecDeque::new(),
        };
        if let Some(lifetime) = session.timeouts.lifetime {
            session.deadlines.arm(Deadline::Lifetime, now + lifetime);
        }
        session.put_off_idle();
        session.attach(attach, Transition::Opened);
        session
    }

    /// Takes in what happened at `now`, after firing what was already due.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        self.handle_timeout(now);
        match (self.phase, input) {
            (Phase::Closed(_), _) => {}
            (_, Input::Attach(attach)) if attach.seq.is_some_and(|seq| seq > self.seq) => {}
            (Phase::Attached(current), Input::Attach(attach)) if attach.connection == current => {}
            (Phase::Attached(current), Input::Attach(attach)) => {
                self.outputs.push_back(Output::Close(current, CloseCode::Replaced));
                self.attach(attach, Transition::Resumed(ResumeKind::TakeOver));
            }
            (Phase::Suspended, Input::Attach(attach)) => {
                self.attach(attach, Transition::Resumed(ResumeKind::Reconnect));
            }
            (Phase::Attached(current), Input::Connection(connection, input)) if connection == current => {
                self.handle_connection(current, input);
            }
            // A replaced or lost connection has nothing to say any more.
            (Phase::Attached(_) | Phase::Suspended, Input::Connection(..)) => {}
            (Phase::Attached(current), Input::Disconnect) => {
                self.outputs.push_back(Output::Close(current, CloseCode::Disconnected));
                self.suspend(SuspendReason::Disconnected);
            }
            (Phase::Suspended, Input::Disconnect) => {}
            (Phase::Attached(current), Input::Close(reason)) => {
                self.outputs.push_back(Output::Close(current, reason.close_code()));
                self.end(reason);
            }
            (Phase::Suspended, Input::Close(reason)) => self.end(reason),
        }
    }

    fn handle_connection(&mut self, current: ConnectionId, input: ConnectionInput) {
        match input {
            ConnectionInput::PingSent => self.ping_sent(),
            ConnectionInput::Pong { seq } => self.pong(seq),
            ConnectionInput::Ack { seq } if seq <= self.seq => {}
            ConnectionInput::Ack { .. } => {
                self.outputs.push_back(Output::Close(current, CloseCode::ProtocolError));
                self.end(CloseReason::ProtocolError);
            }
            ConnectionInput::Command => self.put_off_idle(),
            ConnectionInput::WriteHeld => self.hold_write(),
            ConnectionInput::WriteResumed => self.resume_write(),
            ConnectionInput::Probed => self.probed(current),
            ConnectionInput::TokenRefreshed(expires) => self.arm_token(expires),
            ConnectionInput::Ended(reason) => self.suspend(reason),
            ConnectionInput::Close(reason) => {
                self.outputs.push_back(Output::Close(current, reason.close_code()));
                self.end(reason);
            }
        }
    }

    /// Fires what is due. Early or stale calls change nothing.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        while let Some((due, deadline)) = self.deadlines.earliest().filter(|(due, _)| *due <= self.now) {
            self.deadlines.disarm(deadline);
            self.fire(deadline, due);
        }
    }

    fn fire(&mut self, deadline: Deadline, due: Timestamp) {
        match (self.phase, deadline) {
            (Phase::Attached(current), Deadline::Ping) => self.ping_due(current, due),
            (Phase::Attached(current), Deadline::Pong) => self.pong_due(current, due),
            (Phase::Attached(current), Deadline::PollHold) => {
                self.fired(deadline, due);
                self.outputs.push_back(Output::AnswerPoll(current));
            }
            (Phase::Attached(current), Deadline::Token) => {
                self.fired(deadline, due);
                self.outputs.push_back(Output::Close(current, CloseCode::TokenExpired));
                self.suspend(SuspendReason::TokenExpired);
            }
            (Phase::Suspended, Deadline::Reconnect) => {
                self.fired(deadline, due);
                self.end(CloseReason::ReconnectWindow);
            }
            (phase, Deadline::Idle | Deadline::Lifetime) => {
                let reason =
                    if deadline == Deadline::Idle { CloseReason::Idle } else { CloseReason::Lifetime };
                self.fired(deadline, due);
                if let Phase::Attached(current) = phase {
                    self.outputs.push_back(Output::Close(current, reason.close_code()));
                }
                self.end(reason);
            }
            (phase, deadline) => unreachable!("{deadline:?} is never armed while {phase:?}"),
        }
    }

    /// What is to be done, oldest first.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if output.is_none() {
            // Ten thousand sessions shall not keep ten thousand empty buffers.
            self.outputs = VecDeque::new();
        }
        output
    }

    /// When [`Session::handle_timeout`] wants to be called next, and for what.
    #[must_use]
    pub fn next_deadline(&self) -> Option<(Timestamp, Deadline)> {
        self.deadlines.earliest()
    }

    /// Whether a ping was asked for whose bytes have not left yet: [`Deadline::Pong`] is armed as soon as they have.
    #[must_use]
    pub fn is_writing_ping(&self) -> bool {
        matches!(self.ping, PingState::Writing)
    }

    /// Every armed deadline.
    pub fn deadlines(&self) -> impl Iterator<Item = (Timestamp, Deadline)> + '_ {
        self.deadlines.armed()
    }

    /// Notes that bytes arrived on the current connection at `at`. Fires nothing: it is to be told before
    /// [`Session::handle`] and [`Session::handle_timeout`], which decide by it.
    pub fn heard(&mut self, at: Timestamp) {
        self.heard_at = self.heard_at.max(at);
    }

    /// Where the session is in its life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The number of the last message sent.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// When the session began.
    #[must_use]
    pub fn opened_at(&self) -> Timestamp {
        self.opened_at
    }

    /// When the client was last heard of.
    #[must_use]
    pub fn heard_at(&self) -> Timestamp {
        self.heard_at
    }

    fn attach(&mut self, attach: Attach, transition: Transition) {
        self.phase = Phase::Attached(attach.connection);
        self.carrier = attach.carrier;
        self.ping = PingState::Quiet;
        self.write_held = false;
        self.heard_at = self.now;
        self.deadlines.disarm(Deadline::Pong);
        self.deadlines.disarm(Deadline::Reconnect);
        self.arm_token(attach.token_expires);
        match attach.carrier {
            Carrier::Stream(_) => {
                let half = self.timeouts.ping_interval / 2;
                let spread = half.mul_f64(f64::from(attach.entropy) / f64::from(u32::MAX));
                self.deadlines.disarm(Deadline::PollHold);
                self.arm_ping(self.now + half + spread);
            }
            Carrier::Poll => {
                self.deadlines.disarm(Deadline::Ping);
                self.deadlines.arm(Deadline::PollHold, self.now + self.timeouts.poll_hold);
            }
        }
        self.tell(transition);
    }

    fn suspend(&mut self, reason: SuspendReason) {
        self.phase = Phase::Suspended;
        self.ping = PingState::Quiet;
        self.write_held = false;
        for deadline in [Deadline::Ping, Deadline::Pong, Deadline::PollHold, Deadline::Token] {
            self.deadlines.disarm(deadline);
        }
        self.deadlines.arm(Deadline::Reconnect, self.now + self.timeouts.reconnect_window);
        self.tell(Transition::Suspended(reason));
    }

    fn end(&mut self, reason: CloseReason) {
        self.phase = Phase::Closed(reason);
        self.ping = PingState::Quiet;
        self.deadlines.disarm_all();
        self.tell(match reason {
            CloseReason::ReconnectWindow => Transition::Expired,
            reason => Transition::Closed(reason),
        });
    }

    fn ping_due(&mut self, current: ConnectionId, due: Timestamp) {
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

    fn ping_sent(&mut self) {
        if matches!(self.ping, PingState::Writing) {
            self.ping = PingState::Outstanding { sent_at: self.now };
            if !self.write_held {
                self.deadlines.arm(Deadline::Pong, self.now + self.timeouts.pong_timeout);
            }
        }
    }

    fn pong_due(&mut self, current: ConnectionId, due: Timestamp) {
        if let PingState::Outstanding { sent_at } = self.ping
            && !self.settle_ping(sent_at)
        {
            self.ping = PingState::Probing { sent_at, due };
            self.outputs.push_back(Output::Probe(current));
        }
    }

    fn probed(&mut self, current: ConnectionId) {
        if let PingState::Probing { sent_at, due } = self.ping
            && !self.settle_ping(sent_at)
        {
            self.fired(Deadline::Pong, due);
            self.outputs.push_back(Output::Close(current, CloseCode::PongTimeout));
            self.suspend(SuspendReason::PongTimeout);
        }
    }

    /// A pong counts only up to the outstanding ping's `seq`; one that answers nothing is allowed and ignored.
    fn pong(&mut self, seq: u64) {
        if let PingState::Outstanding { sent_at } | PingState::Probing { sent_at, .. } = self.ping
            && seq == self.seq
        {
            self.heard(self.now);
            self.outputs.push_back(Output::RoundTrip(self.now.since(sent_at)));
            self.settle_ping(sent_at);
        }
    }

    /// Ends the ping sent at `sent_at` if anything was heard since, and arms the next.
    fn settle_ping(&mut self, sent_at: Timestamp) -> bool {
        if self.heard_at < sent_at {
            return false;
        }
        self.ping = PingState::Quiet;
        self.deadlines.disarm(Deadline::Pong);
        let from = match self.carrier {
            // A client that watches for the messages wants them in a steady beat.
            Carrier::Stream(Heartbeat::Message) => sent_at,
            Carrier::Stream(Heartbeat::Frame) | Carrier::Poll => self.heard_at,
        };
        self.arm_ping(from + self.timeouts.ping_interval);
        true
    }

    fn arm_ping(&mut self, at: Timestamp) {
        self.quiet_since = self.heard_at;
        self.deadlines.arm(Deadline::Ping, at);
    }

    fn hold_write(&mut self) {
        self.write_held = true;
        self.deadlines.disarm(Deadline::Pong);
        if let PingState::Probing { sent_at, .. } = self.ping {
            self.ping = PingState::Outstanding { sent_at };
        }
    }

    fn resume_write(&mut self) {
        self.write_held = false;
        if let PingState::Outstanding { .. } = self.ping {
            // The peer has just read: it gets the whole time to answer.
            self.deadlines.arm(Deadline::Pong, self.now + self.timeouts.pong_timeout);
        }
    }

    fn put_off_idle(&mut self) {
        if let Some(idle) = self.timeouts.idle {
            self.deadlines.arm(Deadline::Idle, self.now + idle);
        }
    }

    fn arm_token(&mut self, expires: Option<Timestamp>) {
        match expires {
            Some(at) => self.deadlines.arm(Deadline::Token, at),
            None => self.deadlines.disarm(Deadline::Token),
        }
    }

    fn fired(&mut self, deadline: Deadline, due: Timestamp) {
        self.outputs.push_back(Output::Fired(deadline, due));
    }

    fn tell(&mut self, transition: Transition) {
        self.events += 1;
        self.outputs.push_back(Output::Event(Event { number: self.events, transition }));
    }
}
