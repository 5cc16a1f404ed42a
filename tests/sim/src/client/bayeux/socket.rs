//! Bayeux over a WebSocket: a handshake if there is no session yet, then one `/meta/connect` after another,
//! interleaved with other messages.

use rand::RngExt;
use serde_json::json;

use super::{BayeuxCommand, ExpectedReply};
use crate::client::actions::MAX_OUTGOING;
use crate::client::frames::{self, PING, TEXT};
use crate::client::{Carrier, ClientLink};
use crate::fault::Fault;
use crate::schedule::ClientNumber;
use crate::world::Simulation;

impl Simulation {
    /// Opens a WebSocket, and sends a connect on it, or a handshake if the client has no session.
    pub(super) fn open_bayeux_socket(&mut self, number: ClientNumber) {
        let faults = self.faults_now();
        let connection = self.new_connection(number);
        let client = &mut self.clients[number as usize];
        let rng = &mut client.rng;
        let read_chunks = (faults.allows(Fault::SlowReader) && rng.random_bool(0.1))
            .then(|| (rng.random_range(1..200), rng.random_range(1..5_000_000_000)));
        let mut link = ClientLink::of_bayeux(Carrier::BayeuxSocket, connection, read_chunks);
        link.ignores_pings = faults.allows(Fault::LostPong) && rng.random_bool(0.1);
        link.is_late = faults.allows(Fault::LatePong) && rng.random_bool(0.3);
        // Some clients send a command before the connect. The server answers it independently of the
        // session's connection.
        let asks_first = rng.random_bool(0.1);
        if link.ignores_pings {
            self.fault_counts.count(Fault::LostPong);
        }
        client.link = Some(link);
        let address = client.address;
        let wire = self.connection(connection).expect("a new connection").wire.clone();
        let socket = wire.server_socket();
        if let Some(bayeux) = &mut self.clients[number as usize].bayeux {
            bayeux.socket = Some(wire);
        }
        self.trace.log(self.now, format_args!("client {number} opens a WebSocket ({connection})"));
        let task = self.server.serve_bayeux_socket(socket, address);
        self.serve(connection, task);
        if self.clients[number as usize].session().is_none() {
            return self.handshake_on_socket(number);
        }
        if asks_first {
            self.send_random_command(number);
        }
        if self.clients[number as usize].is_linked_by(connection) {
            self.connect_on_socket(number);
        }
    }

    /// Abandons the current session, if any, and opens a new one on the WebSocket.
    pub(super) fn handshake_on_socket(&mut self, number: ClientNumber) {
        let Some((handshake, body)) = self.next_handshake(number) else { return };
        let client = &mut self.clients[number as usize];
        let (Some(link), Some(bayeux)) = (&mut client.link, &mut client.bayeux) else { return };
        link.greeted = false;
        bayeux.forget_session();
        bayeux.connect = None;
        bayeux.handshake = Some(handshake);
        self.send_text_on_socket(number, &body);
    }

    fn connect_on_socket(&mut self, number: ClientNumber) {
        let Some((connect, messages)) = self.next_connect(number, "websocket") else { return };
        let (ack, beside) = (connect.ack, connect.beside);
        let client = &mut self.clients[number as usize];
        let session = client.session().unwrap_or_default().to_owned();
        let Some(bayeux) = &mut client.bayeux else { return };
        bayeux.connect = Some(connect);
        bayeux.expected.extend(beside.map(|id| ExpectedReply {
            session,
            id,
            channel: "/meta/none".to_owned(),
            command: None,
        }));
        self.trace.log(self.now, format_args!("client {number} connects on its WebSocket with {ack:?}"));
        self.send_text_on_socket(number, &json!(messages).to_string());
    }

    /// Keeps the client going once there are no faults: sends the next connect, or closes a WebSocket without
    /// a session.
    pub(crate) fn continue_on_socket(&mut self, number: ClientNumber) {
        let client = &self.clients[number as usize];
        let Some(bayeux) = &client.bayeux else { return };
        match (&bayeux.model, &bayeux.handshake) {
            (Some(_), _) if bayeux.connect.is_none() => self.connect_on_socket(number),
            (None, None) => self.lose_link(number),
            _ => {}
        }
    }

    pub(in crate::client) fn act_on_bayeux_socket(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        let (Some(link), Some(bayeux)) = (&client.link, &client.bayeux) else { return };
        if link.outgoing.len() > MAX_OUTGOING {
            return;
        }
        if bayeux.model.is_none() {
            return match (&bayeux.handshake, client.rng.random_range(0..4)) {
                (None, 0..3) => self.handshake_on_socket(number),
                (None, _) => {
                    self.lose_link(number);
                    self.plan_to_connect(number);
                }
                (Some(_), 0) => self.inject_connection_fault(number),
                (Some(_), _) => {}
            };
        }
        if bayeux.connect.is_none() && self.now >= bayeux.connects_at {
            return self.connect_on_socket(number);
        }
        match client.rng.random_range(0..80) {
            0..4 => self.save_bayeux_snapshot(number),
            4..8 => self.pause_reading(number),
            8..10 => self.send_frame(number, PING, b"anyone there?"),
            10..12 if self.faults_now().allows(Fault::BadInput) => self.send_invalid_input_on_socket(number),
            12 => self.handshake_on_socket(number),
            13..30 => self.inject_connection_fault(number),
            _ => self.send_random_command(number),
        }
    }

    pub(super) fn send_on_socket(
        &mut self,
        number: ClientNumber,
        body: String,
        command: BayeuxCommand,
        published_to: u8,
    ) {
        let client = &mut self.clients[number as usize];
        let session = client.session().unwrap_or_default().to_owned();
        let (Some(link), Some(bayeux)) = (&client.link, &mut client.bayeux) else { return };
        let connection = link.connection;
        if let Some((id, channel, then)) = command.message() {
            let (channel, after) = (channel.to_owned(), session.clone());
            bayeux.expected.push_back(ExpectedReply { session, id, channel, command: Some(command) });
            bayeux.expected.extend(then.map(|id| ExpectedReply {
                session: after,
                id,
                channel: "/meta/none".to_owned(),
                command: None,
            }));
        }
        if let Some(connection) = self.connection_mut(connection) {
            connection.published_to |= published_to;
        }
        self.trace.log(self.now, format_args!("client {number} sends {}", body.get(..150).unwrap_or(&body)));
        self.send_text_on_socket(number, &body);
    }

    /// Sends invalid messages. Their replies are not expected.
    fn send_invalid_input_on_socket(&mut self, number: ClientNumber) {
        self.fault_counts.count(Fault::BadInput);
        let client = &mut self.clients[number as usize];
        let (Some(link), Some(bayeux)) = (&mut client.link, &mut client.bayeux) else { return };
        bayeux.is_confused = true;
        match client.rng.random_range(0..7) {
            0 => frames::write(TEXT, b"this is not JSON", &mut link.outgoing),
            1 => frames::write(0x2, b"[]", &mut link.outgoing),
            2 => frames::write(TEXT, &[0xFF, 0xFE], &mut link.outgoing),
            3 => link.outgoing.extend([0xF1, 0x00]),
            4 => frames::write(TEXT, b"[]", &mut link.outgoing),
            5 => {
                for _ in 0..70 {
                    frames::write(TEXT, b"[{\"channel\":\"/meta/none\"}]", &mut link.outgoing);
                }
            }
            _ => frames::write(TEXT, b"[{},7,{\"channel\":\"/a\",\"data\":1}]", &mut link.outgoing),
        }
        let connection = link.connection;
        self.flush(connection);
    }

    fn send_text_on_socket(&mut self, number: ClientNumber, text: &str) {
        self.send_frame(number, TEXT, text.as_bytes());
    }
}
