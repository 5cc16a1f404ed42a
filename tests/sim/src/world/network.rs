//! Movement of bytes between the ends of connections.

use std::net::IpAddr;

use rand::RngExt;

use super::{SimConnection, Simulation, TaskSubject};
use crate::fault::Fault;
use crate::scenario::MILLI;
use crate::schedule::{Action, ClientNumber, ConnectionNumber, Direction};
use crate::tasks::TaskId;
use crate::wire::SharedWire;

impl Simulation {
    pub(crate) fn new_connection(&mut self, client: ClientNumber) -> ConnectionNumber {
        let number = ConnectionNumber::try_from(self.connections.len()).expect("few connections");
        let mut latency = 0;
        if self.faults_now().allows(Fault::Latency) {
            latency = self.rng.random_range(0..300 * MILLI);
            self.fault_counts.count(Fault::Latency);
        }
        self.connections.push(Some(Box::new(SimConnection {
            wire: SharedWire::new(
                number,
                self.scenario.buffers,
                &self.clocks,
                &self.changed,
                &self.tasks.parked_changes,
            ),
            client,
            task: None,
            session: None,
            request: None,
            browser_was_full: false,
            latency,
            moving: [false; 2],
            read_planned: false,
            ignores_input: false,
            published_to: 0,
        })));
        number
    }

    pub(crate) fn serve_websocket(&mut self, number: ConnectionNumber, address: IpAddr, query: &str) {
        let socket = self.connection(number).expect("a new connection").wire.server_socket();
        let task = self.server.serve_websocket(socket, address, query);
        self.serve(number, task);
    }

    pub(crate) fn serve(&mut self, number: ConnectionNumber, task: encke_server::testing::simulation::Task) {
        let task = self.tasks.spawn(task);
        self.now_serves(task, TaskSubject::Connection(number));
        self.connection_mut(number).expect("a new connection").task = Some(task);
    }

    pub(crate) fn now_serves(&mut self, task: TaskId, served: impl Into<Option<TaskSubject>>) {
        let index = task.index as usize;
        if self.served_by.len() <= index {
            self.served_by.resize(index + 1, None);
        }
        self.served_by[index] = served.into();
    }

    /// Plans `action` after `latency` nanoseconds, or makes it possible immediately if that is 0.
    pub(crate) fn now_or_after(&mut self, latency: u64, action: Action) {
        match latency {
            0 => self.ready.push(action),
            latency => self.schedule.plan(self.now + latency, action),
        }
    }

    /// Plans the moves that are possible on a connection, and removes the connection if it is over.
    pub(crate) fn consider(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connections.get_mut(number as usize).and_then(Option::as_deref_mut)
        else {
            return;
        };
        let wire = connection.wire.clone();
        let wire = wire.lock();
        for direction in [Direction::ToServer, Direction::ToClient] {
            if wire.can_move(direction)
                && !std::mem::replace(&mut connection.moving[direction as usize], true)
            {
                let action = Action::Move(number, direction);
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
            // The client notices a reset immediately.
            if self.clients[client as usize].is_linked_by(number) {
                self.clients[client as usize].unlink();
                self.plan_to_connect(client);
            }
        }
    }

    /// Moves bytes in one direction.
    pub(super) fn carry(&mut self, number: ConnectionNumber, direction: Direction) {
        let mut at_most = usize::MAX;
        if self.faults_now().allows(Fault::Pieces) && self.rng.random_bool(0.3) {
            at_most = self.rng.random_range(1..64);
            self.fault_counts.count(Fault::Pieces);
        }
        let Some(connection) = self.connection_mut(number) else { return };
        connection.moving[direction as usize] = false;
        let moved = connection.wire.lock().carry(direction, at_most);
        self.trace.mix(&[moved as u64]);
        match direction {
            Direction::ToServer => self.flush(number),
            Direction::ToClient => self.read(number),
        }
        self.consider(number);
    }

    /// Passes the client's outgoing bytes to its kernel.
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

    /// Resets the connection: both ends lose it.
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
