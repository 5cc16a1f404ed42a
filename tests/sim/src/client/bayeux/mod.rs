//! Bayeux clients over long-polling and WebSockets, with and without acknowledgements.

mod answer;
mod commands;
mod connecting;
mod log_position;
mod session_model;
mod socket;

pub(crate) use answer::BayeuxReply;
pub(super) use answer::{SERVICE, SERVICE_DATA};
pub(crate) use commands::{BayeuxCommand, ExpectedReply, session_of_handshake};
use connecting::PendingConnect;
use log_position::BayeuxSubscription;
pub(crate) use session_model::BayeuxSessionModel;

use rand::RngExt;
use rand::rngs::SmallRng;

use super::MAX_SNAPSHOTS;
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
    /// Replies expected on the WebSocket, except the answers to the connect and to the handshake.
    expected: Vec<ExpectedReply>,
    /// Handshake on the WebSocket that has not been answered.
    handshake: Option<ExpectedReply>,
    socket: Option<SharedWire>,
    /// When to send the next connect on the WebSocket.
    connects_at: u64,
    /// Whether the client has sent invalid messages on the WebSocket.
    pub(super) is_confused: bool,
}

impl Bayeux {
    /// Creates a client. Half of the clients are pages of two browsers.
    pub(super) fn new(rng: &mut SmallRng) -> Self {
        let browser = rng.random_bool(0.5).then(|| rng.random_range(1..3));
        Self { browser, ..Self::default() }
    }

    /// Records the loss of the connection that carries the connect. The bytes that the server's kernel has
    /// accepted are kept for later checks.
    pub(super) fn lose_answer(&mut self) {
        let wire = self.connect.take().and_then(|connect| connect.wire);
        if let (Some(wire), Some(model)) = (wire, &mut self.model) {
            model.lose_connection(wire);
        }
    }

    /// Records the loss of the WebSocket and of everything pending on it.
    pub(super) fn lose_socket(&mut self) {
        let (had_connect, socket) = (self.connect.take().is_some(), self.socket.take());
        if let Some(model) = &mut self.model {
            model.lose_socket(socket.filter(|_| had_connect));
        }
        (self.handshake, self.is_confused) = (None, false);
        for expected in std::mem::take(&mut self.expected) {
            self.commands_lost(&expected.session);
        }
    }

    pub(crate) fn acknowledges(&self) -> bool {
        self.model.as_ref().is_some_and(|model| model.acknowledges)
    }

    pub(crate) fn has_pending_connect(&self) -> bool {
        self.connect.is_some()
    }

    /// Records that pending commands may or may not have been executed.
    pub(super) fn commands_lost(&mut self, session: &str) {
        let Some(model) = self.model.as_mut().filter(|model| model.session == session) else { return };
        for subscription in &mut model.logs {
            if matches!(subscription, BayeuxSubscription::Requested(..)) {
                *subscription = BayeuxSubscription::Uncertain;
            }
        }
    }

    pub(super) fn forget_session(&mut self) {
        self.model = None;
        self.snapshots.clear();
        self.expected.clear();
    }

    pub(super) fn save_snapshot(&mut self) {
        let is_certain = |model: &&BayeuxSessionModel| {
            model.acknowledges && !model.logs.iter().any(|it| matches!(it, BayeuxSubscription::Requested(..)))
        };
        if let Some(model) = self.model.as_ref().filter(is_certain)
            && self.snapshots.len() < MAX_SNAPSHOTS
        {
            let mut model = model.clone();
            model.has_gone_back = true;
            // A reloaded page does not remember the pause.
            model.pause(Some(0));
            self.snapshots.push(model);
        }
    }
}
