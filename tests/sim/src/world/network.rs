//! Connections, and the movement of bytes between their ends.

use encke_server::testing::simulation::{RequestArrival, Task};
use rand::RngExt;

use super::Simulation;
use crate::client::SessionRequest;
use crate::fault::Fault;
use crate::scenario::MILLI;
use crate::schedule::{Action, ClientNumber, ConnectionNumber, Direction};
use crate::tasks::{TaskNumber, TaskSubject};
use crate::wire::SharedWire;

/// State of a connection.
#[derive(Debug, Default)]
pub(crate) struct SimConnection {
    pub(crate) wire: SharedWire,
    pub(crate) client: ClientNumber,
    pub(crate) task: Option<TaskNumber>,
    /// Id of the session, once the server has confirmed it.
    pub(crate) session: Option<String>,
    /// Request that is in transit, or that the server has not handled yet.
    pub(crate) request: Option<Box<SessionRequest>>,
    /// Place in which the request arrived, and the number of the server.
    pub(crate) arrival: Option<(u32, RequestArrival)>,
    /// Whether the browser already had the maximum number of held requests when this one arrived.
    pub(crate) browser_was_full: bool,
    /// Latency in nanoseconds.
    pub(crate) latency: u64,
    /// Whether a move is planned, for each direction.
    moving: [bool; 2],
    pub(crate) read_planned: bool,
    /// Whether the client has abandoned the connection and does not even read from it.
    pub(crate) ignores_input: bool,
    /// Bit set of the channels to which the client has published on this connection.
    pub(crate) published_to: u8,
}

impl Simulation {
    pub(crate) fn new_connection(&mut self, client: ClientNumber) -> ConnectionNumber {
        let number = self.connections.len();
        let latency = self.random_latency();
        self.connections.push(Some(Box::new(SimConnection {
            wire: SharedWire::new(number, self.scenario.buffers, &self.inputs.network),
            client,
            latency,
            ..SimConnection::default()
        })));
        number
    }

    /// Returns the latency of a connection or request, in nanoseconds.
    pub(crate) fn random_latency(&mut self) -> u64 {
        if self.injects(Fault::Latency, 1.0) { self.rng.random_range(0..300 * MILLI) } else { 0 }
    }

    /// Returns the wire of a connection that exists.
    pub(crate) fn wire(&self, number: ConnectionNumber) -> SharedWire {
        self.connection(number).expect("an open connection").wire.clone()
    }

    pub(crate) fn serve(&mut self, number: ConnectionNumber, task: Task) {
        let task = self.tasks.spawn(task, Some(TaskSubject::Connection(number)));
        self.connection_mut(number).expect("an open connection").task = Some(task);
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
        let Some(connection) = self.connections.get_mut(number).and_then(Option::as_deref_mut) else {
            return;
        };
        let mut wire = connection.wire.lock();
        for direction in [Direction::ToServer, Direction::ToClient] {
            let moving = &mut connection.moving[direction as usize];
            if wire.can_move(direction) && !std::mem::replace(moving, true) {
                match connection.latency {
                    0 => self.ready.push(Action::Move(number, direction)),
                    latency => self.schedule.plan(self.now + latency, Action::Move(number, direction)),
                }
            }
        }
        if wire.server_gone && wire.is_over_for_client() {
            drop(wire);
            let client = connection.client;
            self.connections[number] = None;
            // The client notices a reset immediately.
            self.disconnect_client(client, number);
        }
    }

    /// Lets a client notice that its connection is lost, if this is its current one.
    fn disconnect_client(&mut self, client: ClientNumber, number: ConnectionNumber) {
        if self.clients[client].is_linked_by(number) {
            self.clients[client].unlink();
            self.plan_to_connect(client);
        }
    }

    pub(super) fn carry(&mut self, number: ConnectionNumber, direction: Direction) {
        let in_pieces = self.injects(Fault::Pieces, 0.3);
        let at_most = if in_pieces { self.rng.random_range(1..64) } else { usize::MAX };
        let arrival = self.server.number_request();
        let Some(connection) = self.connection_mut(number) else { return };
        connection.moving[direction as usize] = false;
        let mut wire = connection.wire.lock();
        let moved = wire.carry(direction, at_most);
        if moved > 0 && direction == Direction::ToServer {
            wire.last_place = arrival;
        }
        drop(wire);
        self.trace.mix(moved);
        match direction {
            Direction::ToServer => self.flush(number),
            Direction::ToClient => self.read(number),
        }
        self.consider(number);
    }

    /// Passes the client's outgoing bytes to its kernel.
    pub(crate) fn flush(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connections.get(number).and_then(Option::as_deref) else { return };
        let link = self.clients[connection.client].link.as_mut();
        if let Some(link) = link.filter(|link| link.connection == number && !link.outgoing.is_empty()) {
            connection.wire.lock().client_sends(&mut link.outgoing);
        }
        self.consider(number);
    }

    /// Resets the connection: both ends lose it.
    pub(crate) fn cut(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connection(number) else { return };
        let client = connection.client;
        connection.wire.lock().reset();
        self.disconnect_client(client, number);
        self.consider(number);
    }
}
