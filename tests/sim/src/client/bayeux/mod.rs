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
    /// Id of the browser of which the client is a page, if any.
    browser: Option<u128>,
    /// Earlier states to which a client that uses acknowledgements may go back.
    snapshots: Vec<BayeuxSessionModel>,
    /// Connect that has not been answered.
    connect: Option<PendingConnect>,
    /// Replies expected on the WebSocket, except the answer to the connect.
    expected: VecDeque<ExpectedReply>,
    /// Handshake on the WebSocket that has not been answered.
    handshake: Option<PendingHandshake>,
    socket: Option<SharedWire>,
    /// When to send the next connect on the WebSocket.
    connects_at: u64,
    /// Whether the client has sent invalid messages on the WebSocket.
    is_confused: bool,
    /// Id of the last message sent.
    ids: u64,
}

/// A `/meta/connect` that has not been answered.
#[derive(Debug)]
struct PendingConnect {
    /// Connection that carries the request. `None` if the connect was sent on a WebSocket.
    wire: Option<SharedWire>,
    /// When the connect was sent, by the server's clock.
    since: Timestamp,
    id: u64,
    /// Id of another message in the same request.
    beside: Option<u64>,
    /// Acknowledgement in the connect.
    ack: Option<u64>,
    /// Whether the acknowledgement is for messages that were never sent.
    is_future: bool,
    /// Whether the connect asks for an immediate answer.
    is_due: bool,
}

/// A reply expected on a WebSocket.
#[derive(Debug)]
struct ExpectedReply {
    session: String,
    id: u64,
    channel: String,
    /// Command to which this is the reply, if the client's state depends on it.
    command: Option<BayeuxCommand>,
}

/// A handshake on a WebSocket that has not been answered.
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

    /// Records the loss of the connection that carries the connect. The bytes that the server's kernel has
    /// accepted are kept for later checks.
    pub(crate) fn lose_answer(&mut self) {
        let wire = self.connect.take().and_then(|connect| connect.wire);
        if let (Some(wire), Some(model)) = (wire, &mut self.model) {
            model.lose_connection(wire);
        }
    }

    /// Records the loss of the WebSocket and of everything pending on it.
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

    /// Returns whether the session uses acknowledgements.
    pub(crate) fn acknowledges(&self) -> bool {
        self.model.as_ref().is_some_and(|model| model.acknowledges)
    }

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
