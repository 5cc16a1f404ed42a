//! Bayeux over a WebSocket: a handshake, if there is no session yet, then one `/meta/connect` after another, and all else between.

use rand::RngExt;
use serde_json::json;

use super::{Asks, Expected};
use crate::client::acting::MOST_OUTGOING;
use crate::client::frames::{self, PING, TEXT};
use crate::client::{Carrier, Link};
use crate::fault::Fault;
use crate::schedule::ClientNumber;
use crate::world::World;

impl World {
    /// It opens a WebSocket, and asks on it for its session.
    pub(super) fn open_bayeux_socket(&mut self, number: ClientNumber) {
        let faults = self.faults_now();
        let connection = self.new_connection(number);
        let client = &mut self.clients[number as usize];
        let rng = &mut client.rng;
        let sips = (faults.allows(Fault::SlowReader) && rng.random_bool(0.1))
            .then(|| (rng.random_range(1..200), rng.random_range(1..5_000_000_000)));
        let mut link = Link::of_bayeux(Carrier::BayeuxSocket, connection, sips);
        link.is_mute = faults.allows(Fault::LostPong) && rng.random_bool(0.1);
        link.is_late = faults.allows(Fault::LatePong) && rng.random_bool(0.3);
        // What comes before the connect is answered beside whatever connection the session has.
        let asks_first = rng.random_bool(0.1);
        if link.is_mute {
            self.fault_counts.count(Fault::LostPong);
        }
        client.link = Some(link);
        let address = client.address;
        let wire = self.connection(connection).expect("it is new").wire.clone();
        let socket = wire.server_socket();
        if let Some(bayeux) = &mut self.clients[number as usize].bayeux {
            bayeux.socket = Some(wire);
        }
        self.trace.say(self.now, format_args!("client {number} opens a WebSocket ({connection})"));
        let task = self.server.serve_bayeux_socket(socket, address);
        self.serve(connection, task);
        if self.clients[number as usize].session().is_none() {
            return self.handshake_on_socket(number);
        }
        if asks_first {
            self.ask_something(number);
        }
        if self.clients[number as usize].is_linked_by(connection) {
            self.connect_on_socket(number);
        }
    }

    /// It opens a session, and gives up the one that it has.
    pub(super) fn handshake_on_socket(&mut self, number: ClientNumber) {
        let Some((opening, body)) = self.next_handshake(number) else { return };
        let client = &mut self.clients[number as usize];
        let (Some(link), Some(bayeux)) = (&mut client.link, &mut client.bayeux) else { return };
        link.greeted = false;
        bayeux.forget_session();
        bayeux.connect = None;
        bayeux.opening = Some(opening);
        self.say_on_socket(number, &body);
    }

    /// It asks for what is new.
    fn connect_on_socket(&mut self, number: ClientNumber) {
        let Some((connect, messages)) = self.next_connect(number, "websocket") else { return };
        let (ack, beside) = (connect.ack, connect.beside);
        let client = &mut self.clients[number as usize];
        let session = client.session().unwrap_or_default().to_owned();
        let Some(bayeux) = &mut client.bayeux else { return };
        bayeux.connect = Some(connect);
        bayeux.expected.extend(beside.map(|id| Expected {
            session,
            id,
            channel: "/meta/none".to_owned(),
            asks: None,
        }));
        self.trace.say(self.now, format_args!("client {number} connects on its WebSocket with {ack:?}"));
        self.say_on_socket(number, &json!(messages).to_string());
    }

    /// It goes on with what it does on its WebSocket, where nothing goes wrong.
    pub(crate) fn ask_on(&mut self, number: ClientNumber) {
        let client = &self.clients[number as usize];
        let Some(bayeux) = &client.bayeux else { return };
        match (&bayeux.page, &bayeux.opening) {
            (Some(_), _) if bayeux.connect.is_none() => self.connect_on_socket(number),
            (None, None) => self.lose_link(number),
            _ => {}
        }
    }

    pub(in crate::client) fn act_on_bayeux_socket(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        let (Some(link), Some(bayeux)) = (&client.link, &client.bayeux) else { return };
        if link.outgoing.len() > MOST_OUTGOING {
            return;
        }
        if bayeux.page.is_none() {
            return match (&bayeux.opening, client.rng.random_range(0..4)) {
                (None, 0..3) => self.handshake_on_socket(number),
                (None, _) => {
                    self.lose_link(number);
                    self.plan_to_connect(number);
                }
                (Some(_), 0) => self.trouble(number),
                (Some(_), _) => {}
            };
        }
        if bayeux.connect.is_none() && self.now >= bayeux.connects_at {
            return self.connect_on_socket(number);
        }
        match client.rng.random_range(0..80) {
            0..4 => self.remember_page_of_bayeux(number),
            4..8 => self.pause_reading(number),
            8..10 => self.send_frame(number, PING, b"anyone there?"),
            10..12 if self.faults_now().allows(Fault::BadInput) => self.misbehave_on_socket(number),
            12 => self.handshake_on_socket(number),
            13..30 => self.trouble(number),
            _ => self.ask_something(number),
        }
    }

    pub(super) fn ask_on_socket(&mut self, number: ClientNumber, body: String, asks: Asks, published_to: u8) {
        let client = &mut self.clients[number as usize];
        let session = client.session().unwrap_or_default().to_owned();
        let (Some(link), Some(bayeux)) = (&client.link, &mut client.bayeux) else { return };
        let connection = link.connection;
        if let Some((id, channel, then)) = asks.message() {
            let (channel, after) = (channel.to_owned(), session.clone());
            bayeux.expected.push_back(Expected { session, id, channel, asks: Some(asks) });
            bayeux.expected.extend(then.map(|id| Expected {
                session: after,
                id,
                channel: "/meta/none".to_owned(),
                asks: None,
            }));
        }
        if let Some(connection) = self.connection_mut(connection) {
            connection.published_to |= published_to;
        }
        self.trace.say(self.now, format_args!("client {number} says {}", body.get(..150).unwrap_or(&body)));
        self.say_on_socket(number, &body);
    }

    /// What it reads of this it does not expect.
    fn misbehave_on_socket(&mut self, number: ClientNumber) {
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

    fn say_on_socket(&mut self, number: ClientNumber, text: &str) {
        self.send_frame(number, TEXT, text.as_bytes());
    }
}
