//! Clients, each with one session at a time, which connect to any node.

use super::{CALM, CLIENTS_LEAVE, ClientEvent, Event, NodeEvent, World};
use crate::directory::{NodeId, SessionId};
use crate::node::{ConnectionId, Hello};
use crate::schedule::Millis;

/// How long a client waits for a hello.
const HELLO_TIMEOUT: Millis = 5_000;

#[derive(Debug)]
pub(crate) struct Client {
    /// Whether the client tells the server what it has received. Otherwise, the server journals what it sends.
    pub(super) knows_positions: bool,
    session: Option<SessionId>,
    connection: Option<ConnectionId>,
    /// Node of the connection.
    pub(super) node: Option<NodeId>,
    is_greeted: bool,
    /// Last message received in this session.
    received: u64,
    /// When the connection's last event will arrive. Events arrive in order.
    arrives_at: Millis,
}

impl Client {
    pub(super) fn new(knows_positions: bool) -> Self {
        Self {
            knows_positions,
            session: None,
            connection: None,
            node: None,
            is_greeted: false,
            received: 0,
            arrives_at: 0,
        }
    }

    pub(super) fn is_greeted_on(&self, connection: ConnectionId) -> bool {
        self.is_greeted && self.connection == Some(connection)
    }

    /// Returns the delay of an event that arrives after all earlier ones.
    pub(super) fn delay_after(&mut self, now: Millis, delay: Millis) -> Millis {
        self.arrives_at = self.arrives_at.max(now + delay);
        self.arrives_at - now
    }
}

impl World {
    /// Disconnects the client and, until [`CLIENTS_LEAVE`], connects it to a random node.
    pub(super) fn client_turn(&mut self, client: usize) {
        let now = self.schedule.now;
        self.disconnect(client);
        if now >= CLIENTS_LEAVE {
            return;
        }
        let node = usize::try_from(self.below(self.nodes.len() as u64)).unwrap_or_default();
        let connection = ConnectionId(self.next_number());
        let process = self.nodes[node].id;
        let state = &mut self.clients[client];
        (state.connection, state.node, state.is_greeted) = (Some(connection), Some(process), false);
        let (session, position) = (state.session, state.knows_positions.then_some(state.received));
        let latency = self.latency();
        let delay = self.clients[client].delay_after(self.schedule.now, latency);
        self.later(delay, node, NodeEvent::Connect { client, connection, session, position });
        // Without a hello, the client tries again; with one, it leaves at a random time.
        let stays = match now < CALM {
            true => HELLO_TIMEOUT + self.below(10_000),
            false => CLIENTS_LEAVE.saturating_sub(now).clamp(1, HELLO_TIMEOUT),
        };
        self.schedule.after(stays, Event::OnClient { client, connection, event: ClientEvent::Closed });
    }

    /// Breaks the client's connection. Its node notices this sooner or later.
    fn disconnect(&mut self, client: usize) {
        let now = self.schedule.now;
        let state = &mut self.clients[client];
        let (Some(connection), Some(process)) = (state.connection.take(), state.node.take()) else { return };
        state.is_greeted = false;
        let delay = match self.below(4) {
            0 => self.below(5_000),
            _ => 1 + self.below(50),
        };
        let delay = self.clients[client].delay_after(now, delay);
        if let Some(node) = self.place_of(process) {
            self.later(delay, node, NodeEvent::ConnectionLost { connection });
        }
    }

    pub(super) fn on_client(&mut self, client: usize, connection: ConnectionId, event: ClientEvent) {
        if self.clients[client].connection != Some(connection) {
            return;
        }
        match event {
            ClientEvent::Hello { session, hello } => self.on_hello(client, session, hello),
            ClientEvent::Batch { after, to } => {
                let received = self.clients[client].received;
                if after != received {
                    let session = self.clients[client].session;
                    return self.fail(format!("{session:?} got {after}..{to} after {received}"));
                }
                self.clients[client].received = to;
                self.acknowledge(client);
            }
            ClientEvent::Closed => {
                self.disconnect(client);
                if self.schedule.now < CLIENTS_LEAVE {
                    let delay = 1 + self.below(2_000);
                    self.schedule.after(delay, Event::ClientTurn { client });
                }
            }
        }
    }

    fn on_hello(&mut self, client: usize, session: SessionId, Hello { from, to }: Hello) {
        let state = &mut self.clients[client];
        state.is_greeted = true;
        let received = state.received;
        let is_resumed = state.session == Some(session);
        state.session = Some(session);
        state.received = to;
        if is_resumed && !(from..=to).contains(&received) {
            return self.fail(format!("{session:?} continues with {from}..{to}, its client at {received}"));
        }
        self.truth(session).served_at = self.schedule.now;
        self.acknowledge(client);
    }

    fn acknowledge(&mut self, client: usize) {
        let state = &self.clients[client];
        let (Some(session), Some(connection), Some(process)) = (state.session, state.connection, state.node)
        else {
            return;
        };
        let up_to = state.received;
        let is_closing = self.schedule.now < CALM && self.schedule.below(300) == 0;
        let delay = self.clients[client].delay_after(self.schedule.now, self.schedule.below(20));
        let Some(node) = self.place_of(process) else { return };
        self.later(delay, node, NodeEvent::Acknowledge { session, connection, up_to });
        if is_closing {
            self.truth(session).is_closed = true;
            self.later(delay, node, NodeEvent::Close { session, connection });
        }
    }
}
