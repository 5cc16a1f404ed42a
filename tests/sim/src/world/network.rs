//! What moves between the ends of connections, and when.

use std::net::IpAddr;

use rand::RngExt;

use super::{Connection, Served, World};
use crate::fault::Fault;
use crate::scenario::MILLI;
use crate::schedule::{Action, ClientNumber, ConnectionNumber, Way};
use crate::tasks::TaskId;
use crate::wire::Shared;

impl World {
    pub(crate) fn new_connection(&mut self, client: ClientNumber) -> ConnectionNumber {
        let number = ConnectionNumber::try_from(self.connections.len()).expect("few connections");
        let mut latency = 0;
        if self.faults_now().allows(Fault::Latency) {
            latency = self.rng.random_range(0..300 * MILLI);
            self.fault_counts.count(Fault::Latency);
        }
        self.connections.push(Some(Box::new(Connection {
            wire: Shared::new(number, self.scenario.buffers, &self.times, &self.news, &self.tasks.at_rest),
            client,
            task: None,
            session: None,
            request: None,
            browser_was_full: false,
            latency,
            moving: [false; 2],
            read_planned: false,
            is_deaf: false,
            published_to: 0,
        })));
        number
    }

    pub(crate) fn serve_websocket(&mut self, number: ConnectionNumber, address: IpAddr, query: &str) {
        let socket = self.connection(number).expect("it is new").wire.server_socket();
        let task = self.server.serve_websocket(socket, address, query);
        self.serve(number, task);
    }

    pub(crate) fn serve(&mut self, number: ConnectionNumber, task: encke_server::simulation::Task) {
        let task = self.tasks.spawn(task);
        self.now_serves(task, Served::Connection(number));
        self.connection_mut(number).expect("it is new").task = Some(task);
    }

    pub(crate) fn now_serves(&mut self, task: TaskId, served: impl Into<Option<Served>>) {
        let index = task.index as usize;
        if self.served_by.len() <= index {
            self.served_by.resize(index + 1, None);
        }
        self.served_by[index] = served.into();
    }

    /// `action` happens once it has come so far.
    pub(crate) fn now_or_after(&mut self, latency: u64, action: Action) {
        match latency {
            0 => self.ready.push(action),
            latency => self.schedule.plan(self.now + latency, action),
        }
    }

    /// Plans the moves that are possible now, and lets go of a connection that is over.
    pub(crate) fn consider(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connections.get_mut(number as usize).and_then(Option::as_deref_mut)
        else {
            return;
        };
        let wire = connection.wire.clone();
        let wire = wire.lock();
        for way in [Way::ToServer, Way::ToClient] {
            if wire.has_way(way) && !std::mem::replace(&mut connection.moving[way as usize], true) {
                let action = Action::Move(number, way);
                match connection.latency {
                    0 => self.ready.push(action),
                    latency => self.schedule.plan(self.now + latency, action),
                }
            }
        }
        let is_done = wire.is_done();
        drop(wire);
        if is_done {
            let client = connection.client;
            self.connections[number as usize] = None;
            // A reset is noticed at once.
            if self.clients[client as usize].is_linked_by(number) {
                self.clients[client as usize].unlink();
                self.plan_to_connect(client);
            }
        }
    }

    /// Bytes move.
    pub(super) fn carry(&mut self, number: ConnectionNumber, way: Way) {
        let mut at_most = usize::MAX;
        if self.faults_now().allows(Fault::Pieces) && self.rng.random_bool(0.3) {
            at_most = self.rng.random_range(1..64);
            self.fault_counts.count(Fault::Pieces);
        }
        let Some(connection) = self.connection_mut(number) else { return };
        connection.moving[way as usize] = false;
        let moved = connection.wire.lock().carry(way, at_most);
        self.trace.note(&[moved as u64]);
        match way {
            Way::ToServer => self.flush(number),
            Way::ToClient => self.read(number),
        }
        self.consider(number);
    }

    /// The client's kernel takes what the client has to say.
    pub(crate) fn flush(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connection(number) else { return };
        let (client, wire) = (connection.client, connection.wire.clone());
        let link = self.clients[client as usize].link.as_mut();
        if let Some(link) = link.filter(|link| link.connection == number)
            && !link.outgoing.is_empty()
        {
            wire.lock().client_sends(&mut link.outgoing);
        }
        self.consider(number);
    }

    /// Both ends lose the connection.
    pub(crate) fn cut(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connection(number) else { return };
        let client = connection.client;
        connection.wire.lock().reset();
        if self.clients[client as usize].is_linked_by(number) {
            self.clients[client as usize].unlink();
            self.plan_to_connect(client);
        }
        self.consider(number);
    }
}
