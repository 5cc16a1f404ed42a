//! Bayeux clients over long-polling and WebSockets, with and without acknowledgements.

mod answer;
mod commands;
mod connecting;
mod session_model;
mod socket;
mod socket_reading;

use std::collections::VecDeque;

pub(crate) use answer::BayeuxReply;
pub(crate) use commands::{BayeuxCommand, session_of_handshake};
pub(crate) use session_model::{BayeuxSessionModel, BayeuxSubscription};

use encke_core::Timestamp;
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::wire::SharedWire;

/// State of a Bayeux client.
#[derive(Debug, Default)]
pub(crate) struct Bayeux {
    pub(crate) model: Option<BayeuxSessionModel>,
    /// Id of its browser, if it is a page of one.
    browser: Option<u128>,
    /// Earlier states that it may go back to, if it acknowledges.
    snapshots: Vec<BayeuxSessionModel>,
    /// The connect without an answer.
    connect: Option<PendingConnect>,
    /// Replies expected on its WebSocket, without the one to the connect.
    expected: VecDeque<ExpectedReply>,
    /// The handshake on its WebSocket without a reply.
    handshake: Option<PendingHandshake>,
    /// Its WebSocket.
    socket: Option<SharedWire>,
    /// Time of the next connect on its WebSocket.
    connects_at: u64,
    /// It has sent invalid messages on its WebSocket.
    is_confused: bool,
    /// Last message id.
    ids: u64,
}

/// A `/meta/connect` without an answer.
#[derive(Debug)]
struct PendingConnect {
    /// Connection of its request. `None` if it was sent on a WebSocket.
    wire: Option<SharedWire>,
    /// Time at which it was sent, in the server's time.
    since: Timestamp,
    id: u64,
    /// Id of another message in the same request.
    beside: Option<u64>,
    /// The acknowledgement that it contains.
    ack: Option<u64>,
    /// The acknowledgement is for something that was never sent.
    is_future: bool,
    /// It asks for an immediate answer.
    is_due: bool,
}

/// A reply expected on a WebSocket.
#[derive(Debug)]
struct ExpectedReply {
    session: String,
    id: u64,
    channel: String,
    /// The command that it answers, if that matters.
    command: Option<BayeuxCommand>,
}

/// A handshake on a WebSocket.
#[derive(Debug)]
struct PendingHandshake {
    id: u64,
    acknowledges: bool,
}

impl Bayeux {
    /// Creates a client. Half of the clients are pages of two browsers.
    pub(crate) fn new(rng: &mut SmallRng) -> Self {
        let browser = rng.random_bool(0.5).then(|| rng.random_range(1..3));
        Self { browser, ..Self::default() }
    }

    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Drops the connection of its connect. What the server's kernel accepted is recorded.
    pub(crate) fn lose_answer(&mut self) {
        let wire = self.connect.take().and_then(|connect| connect.wire);
        if let (Some(wire), Some(model)) = (wire, &mut self.model) {
            model.lose_connection(wire);
        }
    }

    /// Drops its WebSocket and everything pending on it.
    pub(crate) fn lose_socket(&mut self) {
        let (had_connect, socket) = (self.connect.take().is_some(), self.socket.take());
        if let Some(model) = &mut self.model {
            model.lose_socket(socket.filter(|_| had_connect));
        }
        (self.handshake, self.is_confused) = (None, false);
        for expected in std::mem::take(&mut self.expected) {
            self.request_lost(&expected.session);
        }
    }

    /// Returns whether its session uses acknowledgements.
    pub(crate) fn acknowledges(&self) -> bool {
        self.model.as_ref().is_some_and(|model| model.acknowledges)
    }

    /// Returns whether a connect is pending.
    pub(crate) fn has_pending_connect(&self) -> bool {
        self.connect.is_some()
    }

    /// Records that pending commands may or may not have been executed.
    pub(crate) fn request_lost(&mut self, session: &str) {
        let Some(model) = self.model.as_mut().filter(|model| model.session == session) else { return };
        for subscription in &mut model.logs {
            if matches!(subscription, BayeuxSubscription::Requested(..)) {
                *subscription = BayeuxSubscription::Unknown;
            }
        }
    }

    fn forget_session(&mut self) {
        self.model = None;
        self.snapshots.clear();
        self.expected.clear();
    }
}
