//! A connection, from the client's perspective.

use std::collections::VecDeque;

use encke_core::dialect::StartPosition;
use rand::RngExt;
use tungstenite::protocol::frame::coding::OpCode;

use super::frames;
use crate::fault::Fault;
use crate::schedule::{ClientNumber, ConnectionNumber};
use crate::world::Simulation;

/// Transport and dialect of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Carrier {
    #[default]
    WebSocket,
    Events,
    Poll,
    /// A request with a `/meta/connect`.
    Connect,
    /// A WebSocket with Bayeux.
    BayeuxSocket,
}

#[derive(Debug, Default)]
pub(crate) struct ClientLink {
    pub(crate) connection: ConnectionNumber,
    pub(crate) carrier: Carrier,
    /// Bytes received and not yet parsed.
    pub(super) incoming: Vec<u8>,
    /// Bytes that the kernel has not accepted yet.
    pub(crate) outgoing: VecDeque<u8>,
    /// Whether the head of the response was parsed. `true` for transports without a head.
    pub(super) head_read: bool,
    /// Channel in the URL of a poll that opens a session.
    pub(super) channel: Option<usize>,
    /// Channels and patterns in the URL of an event stream.
    pub(super) logs: Vec<usize>,
    /// Id of the last event, until it is processed.
    pub(super) event_id: Option<String>,
    /// Event id with positions that the client sent when connecting.
    pub(super) offered: Option<String>,
    /// Whether the server has confirmed the session on this connection.
    pub(crate) greeted: bool,
    /// Last seq received on this connection. `None` before the first one, if the start is unknown.
    pub(super) read: Option<u64>,
    pub(super) offer: Option<ResumeOffer>,
    pub(super) pending_commands: VecDeque<PendingCommand>,
    /// Time until which the client reads nothing.
    pub(super) paused_until: u64,
    /// Number of bytes that the client reads at a time, and nanoseconds that it waits after each read.
    /// `None`: no limit.
    pub(super) read_chunks: Option<(usize, u64)>,
    /// Whether the client leaves pings unanswered.
    pub(super) ignores_pings: bool,
    /// Whether the client may answer pings late.
    pub(super) is_late: bool,
}

/// Session and seq that a client sends to resume.
#[derive(Clone, Debug)]
pub(super) struct ResumeOffer {
    pub(super) session: String,
    pub(super) seq: Option<u64>,
    /// Whether the seq is higher than any that the server has sent.
    pub(super) is_future: bool,
}

/// A command that has no reply yet.
#[derive(Debug)]
pub(super) struct PendingCommand {
    pub(super) id: u64,
    pub(super) command: SentCommand,
}

/// A command, with the data needed to check its reply.
#[derive(Debug)]
pub(super) enum SentCommand {
    /// Subscribes to a channel or pattern, from this start.
    Subscribe(usize, StartPosition<'static>),
    /// Publishes the message with this number.
    Publish(u64),
    /// Calls a method that returns this number.
    Call(u64),
    Other,
}

impl ClientLink {
    pub(crate) fn is_websocket(&self) -> bool {
        matches!(self.carrier, Carrier::WebSocket | Carrier::BayeuxSocket)
    }

    pub(crate) fn is_poll(&self) -> bool {
        matches!(self.carrier, Carrier::Poll | Carrier::Connect)
    }

    /// Returns whether the client has processed everything received, and reads without delay.
    pub(crate) fn is_attentive(&self, now: u64) -> bool {
        self.greeted && self.incoming.is_empty() && self.paused_until <= now && self.read_chunks.is_none()
    }

    /// Lets the client read and answer without delay from now on.
    pub(crate) fn end_faults(&mut self) {
        (self.paused_until, self.read_chunks) = (0, None);
        (self.ignores_pings, self.is_late) = (false, false);
    }
}

impl Simulation {
    pub(super) fn open_link(&mut self, number: ClientNumber, carrier: Carrier) -> ConnectionNumber {
        let connection = self.new_connection(number);
        let read_chunks = self
            .injects(Fault::SlowReader, 0.1)
            .then(|| (self.rng.random_range(1..200), self.rng.random_range(1..5_000_000_000)));
        let is_poll = matches!(carrier, Carrier::Poll | Carrier::Connect);
        let ignores_pings = !is_poll && self.injects(Fault::LostPong, 0.1);
        let is_late = self.faults_now().allows(Fault::LatePong) && self.rng.random_bool(0.3);
        self.clients[number].link = Some(ClientLink {
            connection,
            carrier,
            head_read: carrier != Carrier::Events,
            read_chunks,
            ignores_pings,
            is_late,
            ..ClientLink::default()
        });
        connection
    }

    pub(super) fn send_frame(&mut self, number: ClientNumber, opcode: OpCode, payload: &[u8]) {
        self.send_bytes(number, &frames::encode(opcode, payload));
    }

    pub(super) fn send_bytes(&mut self, number: ClientNumber, bytes: &[u8]) {
        let Some(link) = &mut self.clients[number].link else { return };
        link.outgoing.extend(bytes);
        let connection = link.connection;
        self.flush(connection);
    }
}
