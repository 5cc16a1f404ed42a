//! Bayeux over a WebSocket: a handshake if there is no session yet, then one `/meta/connect` after another,
//! interleaved with other messages.

use rand::RngExt;
use serde_json::json;

use super::answer::{self, BayeuxMessage, BayeuxReply};
use super::{BayeuxCommand, ExpectedReply};
use crate::client::Carrier;
use crate::scenario::nanos;
use crate::schedule::{ClientNumber, ConnectionNumber};
use crate::world::Simulation;

impl Simulation {
    /// Opens a WebSocket, and sends a connect on it, or a handshake if the client has no session.
    pub(super) fn open_bayeux_socket(&mut self, number: ClientNumber) {
        let connection = self.open_link(number, Carrier::BayeuxSocket);
        self.trace.log(self.now, format_args!("client {number} opens a WebSocket ({connection})"));
        let wire = self.wire(connection);
        let client = &mut self.clients[number];
        let task = self.server.serve_bayeux_socket(wire.server_socket(), client.address);
        let Some(bayeux) = &mut client.bayeux else { return };
        bayeux.socket = Some(wire);
        let has_session = bayeux.model.is_some();
        self.serve(connection, task);
        if !has_session {
            return self.handshake_on_socket(number);
        }
        // Some clients send a command before the connect. The server answers it independently of the
        // session's connection.
        if self.rng.random_bool(0.1) {
            self.send_random_command(number);
        }
        if self.clients[number].is_linked_by(connection) {
            self.connect_on_socket(number);
        }
    }

    /// Abandons the current session, if any, and opens a new one on the WebSocket.
    fn handshake_on_socket(&mut self, number: ClientNumber) {
        let (handshake, body) = self.next_handshake();
        let client = &mut self.clients[number];
        let (Some(link), Some(bayeux)) = (&mut client.link, &mut client.bayeux) else { return };
        link.greeted = false;
        bayeux.forget_session();
        bayeux.connect = None;
        bayeux.handshake = Some(handshake);
        self.send_text(number, &body, 0);
    }

    fn connect_on_socket(&mut self, number: ClientNumber) {
        let Some((connect, messages)) = self.next_connect(number, "websocket") else { return };
        let client = &mut self.clients[number];
        let session = client.session().unwrap_or_default().to_owned();
        let Some(bayeux) = &mut client.bayeux else { return };
        let (channel, command) = ("/meta/none".to_owned(), BayeuxCommand::Other);
        bayeux.expected.extend(connect.beside.map(|id| ExpectedReply { session, id, channel, command }));
        bayeux.connect = Some(connect);
        self.send_text(number, &json!(messages).to_string(), 0);
    }

    /// Keeps the client going once there are no faults: sends the next connect, or closes a WebSocket without
    /// a session.
    pub(crate) fn continue_on_socket(&mut self, number: ClientNumber) {
        let Some(bayeux) = &self.clients[number].bayeux else { return };
        match (&bayeux.model, &bayeux.handshake) {
            (Some(_), _) if bayeux.connect.is_none() => self.connect_on_socket(number),
            (None, None) => self.lose_link(number),
            _ => {}
        }
    }

    pub(crate) fn act_on_bayeux_socket(&mut self, number: ClientNumber) {
        let Some(bayeux) = &self.clients[number].bayeux else { return };
        match (&bayeux.model, &bayeux.handshake, self.rng.random_range(0..80)) {
            (None, None, 0..60) | (Some(_), _, 0) => self.handshake_on_socket(number),
            (None, None, _) => self.leave_link(number),
            (None, Some(_), 0..20) => self.inject_connection_fault(number),
            (None, Some(_), _) => {}
            (Some(_), ..) if bayeux.connect.is_none() && self.now >= bayeux.connects_at => {
                self.connect_on_socket(number);
            }
            (Some(_), ..) => self.act_on_link(number),
        }
    }

    /// Processes a received array of messages and replies.
    pub(crate) fn receive_bayeux_text(
        &mut self,
        number: ClientNumber,
        connection: ConnectionNumber,
        text: &str,
    ) {
        let (mut messages, replies) = match answer::read(text) {
            Ok(received) => received,
            Err(error) => return self.violate("wire", format!("client {number} reads {error}")),
        };
        self.trace.log(self.now, format_args!("client {number} reads {messages:?}, {replies:?}"));
        let Some(bayeux) = &mut self.clients[number].bayeux else { return };
        if let Some(handshake) = &bayeux.handshake {
            // All other messages belong to the abandoned session.
            let reply = replies.iter().find(|reply| handshake.is_answered_by(reply));
            if let (Some(reply), BayeuxCommand::Handshake { acknowledges }) = (reply, &handshake.command) {
                let acknowledges = *acknowledges;
                bayeux.handshake = None;
                self.receive_handshake(number, acknowledges, reply);
                self.mark_greeted(number);
            }
            return;
        }
        if bayeux.model.is_none() {
            // The client has already abandoned its session.
            return;
        }
        let connect = bayeux.connect.as_ref().map(|connect| connect.id);
        let answers = |reply: &BayeuxReply| connect.is_some_and(|id| reply.is_to("/meta/connect", id));
        if !replies.iter().any(answers) {
            self.receive_lone_messages(number, &std::mem::take(&mut messages));
        }
        for reply in replies {
            let client = &self.clients[number];
            if self.violation.is_some() || !client.is_linked_by(connection) || client.session().is_none() {
                return;
            }
            if answers(&reply) {
                self.receive_answer_on_socket(number, connection, &std::mem::take(&mut messages), &reply);
            } else {
                self.receive_expected_reply(number, &reply);
            }
        }
    }

    /// Records that the server has confirmed the client's session on the current connection.
    fn mark_greeted(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number];
        let Some(session) = client.session().map(ToOwned::to_owned) else { return };
        let Some(link) = &mut client.link else { return };
        link.greeted = true;
        let connection = link.connection;
        if let Some(connection) = self.connection_mut(connection) {
            connection.session = Some(session);
        }
    }

    /// Processes messages that arrive without the reply to a connect. Only clients that do not use
    /// acknowledgements may receive such messages.
    fn receive_lone_messages(&mut self, number: ClientNumber, messages: &[BayeuxMessage]) {
        if messages.is_empty() {
            return;
        }
        self.mark_greeted(number);
        self.totals.deliveries += messages.len() as u64;
        let (truth, bayeux) = (&self.truth, self.clients[number].bayeux.as_mut());
        let Some(model) = bayeux.and_then(|bayeux| bayeux.model.as_mut()) else { return };
        if model.acknowledges {
            let what =
                format!("client {number} uses acknowledgements, but reads {messages:?} outside an answer");
            return self.violate("seqs", what);
        }
        if let Err(what) = messages.iter().try_for_each(|message| model.message(message, truth, true)) {
            self.violate("exactly once or a gap", format!("client {number}: {what}"));
        }
    }

    fn receive_answer_on_socket(
        &mut self,
        number: ClientNumber,
        connection: ConnectionNumber,
        messages: &[BayeuxMessage],
        reply: &BayeuxReply,
    ) {
        let bayeux = self.clients[number].bayeux.as_mut();
        let Some(connect) = bayeux.and_then(|bayeux| bayeux.connect.take()) else { return };
        // A connect that arrived before the session's latest one is answered with a pause: the session keeps its other
        // connection.
        let is_pausing = reply.interval().is_some_and(|interval| interval > 0);
        if reply.successful() && !is_pausing {
            self.mark_greeted(number);
        } else if let Some(link) = self.clients[number].link.as_mut().filter(|_| is_pausing) {
            link.greeted = false;
        }
        let pause = self.receive_connect_answer(number, connection, messages, reply, &connect);
        if self.violation.is_some() {
            return;
        }
        let is_busy = self.is_busy();
        let Some(bayeux) = &mut self.clients[number].bayeux else { return };
        let has_session = bayeux.model.is_some();
        // Some clients send no connect for a while, but answer pings.
        let rests = is_busy && has_session && self.rng.random_bool(0.1);
        let longest_rest = if rests { 2 * nanos(self.scenario.config.session.ping_interval) } else { 1 };
        bayeux.connects_at = self.now + pause.max(self.rng.random_range(0..longest_rest));
        match self.rng.random_range(0..20) {
            // Open another session on the same socket, if the server leaves it open.
            0..10 if !has_session && is_busy => self.handshake_on_socket(number),
            _ if !has_session => self.leave_link(number),
            // Continue on another connection, of either transport.
            0 if is_busy => {
                self.lose_link(number);
                self.plan_to_act(number, pause);
            }
            _ => self.plan_to_act(number, pause),
        }
    }

    fn receive_expected_reply(&mut self, number: ClientNumber, reply: &BayeuxReply) {
        let Some(bayeux) = &mut self.clients[number].bayeux else { return };
        // Search for the reply: in one array, the reply to a message that waits for the engine comes after
        // the others.
        match bayeux.expected.iter().position(|expected| expected.is_answered_by(reply)) {
            Some(at) => {
                let mut expected = bayeux.expected.remove(at);
                expected.command.answered(&self.server);
                self.receive_bayeux_reply(number, expected, reply);
            }
            None if bayeux.is_confused => {}
            None => {
                let what = format!("client {number} expects {:?}, but reads {reply}", bayeux.expected);
                self.violate("replies", what);
            }
        }
    }
}
