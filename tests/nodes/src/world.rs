//! Nodes, a directory, clients, and the network between them, under one seed.

mod clients;
mod directory_requests;
mod faults;
mod sessions;

use std::collections::BTreeSet;

use crate::bug::Bug;
use crate::counts::{Counts, Violation};
use crate::directory::{Directory, LEASE, NodeId, SessionId, WINDOW};
use crate::node::{ConnectionId, Hello, Node};
use crate::schedule::{Millis, Schedule};
use clients::Client;
use directory_requests::{Reply, Request};

/// When the faults end. The clients leave later, at [`CLIENTS_LEAVE`].
const CALM: Millis = 60_000;
const CLIENTS_LEAVE: Millis = CALM + 2 * LEASE;
/// Time allowed for an adoption, in addition to the expiry of the lease.
const ADOPTION_DELAY: Millis = 5_000;
const END: Millis = CLIENTS_LEAVE + 2 * LEASE + WINDOW + ADOPTION_DELAY;

#[derive(Debug)]
enum Event {
    /// Executes a request of a node that knows the generation `known`. The reply is lost unless `is_answered`.
    Execute {
        node: usize,
        process: NodeId,
        known: u64,
        number: u64,
        request: Request,
        is_answered: bool,
    },
    /// An event on a node, which waits while the node is frozen.
    OnNode {
        node: usize,
        process: NodeId,
        event: NodeEvent,
    },
    OnClient {
        client: usize,
        connection: ConnectionId,
        event: ClientEvent,
    },
    ClientTurn {
        client: usize,
    },
    Publish,
    Replicate,
    Fault,
    Thaw {
        node: usize,
        process: NodeId,
    },
    Heal {
        node: usize,
    },
    Restart {
        node: usize,
    },
}

#[derive(Debug)]
enum NodeEvent {
    Reply {
        number: u64,
        reply: Reply,
    },
    RequestTimeout {
        number: u64,
    },
    Tick,
    Deadline {
        session: SessionId,
    },
    AskTimeout {
        session: SessionId,
    },
    /// Another node asks for a session.
    Asked {
        session: SessionId,
        by: NodeId,
    },
    /// The owner has released a session, or does not have it.
    Released {
        session: SessionId,
    },
    Connect {
        client: usize,
        connection: ConnectionId,
        session: Option<SessionId>,
        position: Option<u64>,
    },
    Acknowledge {
        session: SessionId,
        connection: ConnectionId,
        up_to: u64,
    },
    Close {
        session: SessionId,
        connection: ConnectionId,
    },
    ConnectionLost {
        connection: ConnectionId,
    },
}

#[derive(Debug)]
enum ClientEvent {
    Hello { session: SessionId, hello: Hello },
    Batch { after: u64, to: u64 },
    Closed,
}

/// History of a session, independent of the state of the nodes.
#[derive(Debug, Default)]
struct SessionTruth {
    client: usize,
    /// Last time at which a node could serve the client.
    served_at: Millis,
    /// Whether its client has closed it.
    is_closed: bool,
    /// Whether the directory has had a record of it. Until then, only its node knows it.
    is_recorded: bool,
}

#[derive(Debug)]
pub struct World {
    schedule: Schedule<Event>,
    directory: Directory,
    nodes: Vec<Node<NodeEvent>>,
    clients: Vec<Client>,
    sessions: Vec<SessionTruth>,
    /// Number of the newest message. All sessions subscribe to the same channel, whose log is never trimmed.
    newest: u64,
    /// Last number of a process, connection, request or session object.
    last_number: u64,
    /// Whether a crash or failover may have lost a session before another node could learn of it.
    may_lose_sessions: bool,
    /// Sessions that were taken from a node on which they had a client, with this node, which may not know yet.
    taken: BTreeSet<(SessionId, NodeId)>,
    bug: Option<Bug>,
    pub counts: Counts,
    violation: Option<Violation>,
    pub trace: Option<Vec<String>>,
}

impl World {
    #[must_use]
    pub fn new(seed: u64, bug: Option<Bug>, is_traced: bool) -> Self {
        let mut world = Self {
            schedule: Schedule::new(seed),
            directory: Directory::new(bug),
            nodes: Vec::new(),
            clients: Vec::new(),
            sessions: Vec::new(),
            newest: 0,
            last_number: 0,
            may_lose_sessions: false,
            taken: BTreeSet::new(),
            bug,
            counts: Counts::default(),
            violation: None,
            trace: is_traced.then(Vec::new),
        };
        for node in 0..3 + world.below(3) {
            world.start_node(usize::try_from(node).unwrap_or_default());
        }
        for client in 0..1 + world.schedule.below(3) {
            let client = usize::try_from(client).unwrap_or_default();
            let knows_positions = world.schedule.chance(50);
            world.clients.push(Client::new(knows_positions));
            let delay = world.schedule.below(2_000);
            world.schedule.after(delay, Event::ClientTurn { client });
        }
        for event in [Event::Publish, Event::Replicate, Event::Fault] {
            world.schedule.after(0, event);
        }
        world
    }

    /// Runs until all sessions must have ended.
    ///
    /// # Errors
    /// Returns the violated invariant.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.counts.schedules = 1;
        while let Some(event) = self.schedule.next_before(END) {
            self.counts.steps += 1;
            self.handle(event);
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
        }
        self.check_end()
    }

    fn handle(&mut self, event: Event) {
        if self.trace.is_some() {
            let line = format!("{:>6} {event:?}", self.schedule.now);
            self.trace.get_or_insert_default().push(line);
        }
        match event {
            Event::Execute { node, process, known, number, request, is_answered } => {
                self.execute((node, process, known), number, request, is_answered);
            }
            Event::OnNode { node, process, event } => self.on_node(node, process, event),
            Event::OnClient { client, connection, event } => self.on_client(client, connection, event),
            Event::ClientTurn { client } => self.client_turn(client),
            Event::Publish => self.publish(),
            Event::Replicate => {
                self.directory.replicate();
                let delay = 1 + self.schedule.below(2_000);
                self.schedule.after(delay, Event::Replicate);
            }
            Event::Fault => self.fault(),
            Event::Thaw { node, process } => self.thaw(node, process),
            Event::Heal { node } => self.nodes[node].is_cut = false,
            Event::Restart { node } => self.start_node(node),
        }
    }

    fn on_node(&mut self, node: usize, process: NodeId, event: NodeEvent) {
        if self.nodes[node].id != process || self.nodes[node].is_stopped {
            return;
        }
        if self.nodes[node].is_frozen {
            self.nodes[node].waiting.push(event);
            return;
        }
        match event {
            NodeEvent::Reply { number, reply } => self.on_reply(node, number, Some(reply)),
            NodeEvent::RequestTimeout { number } => self.on_reply(node, number, None),
            NodeEvent::Tick => self.tick(node),
            NodeEvent::Deadline { session } => self.on_deadline(node, session),
            NodeEvent::AskTimeout { session } => self.on_ask_timeout(node, session),
            NodeEvent::Asked { session, by } => self.on_asked(node, session, by),
            NodeEvent::Released { session } => self.on_released(node, session),
            NodeEvent::Connect { client, connection, session, position } => {
                self.on_connect(node, client, connection, session, position);
            }
            NodeEvent::Acknowledge { session, connection, up_to } => {
                self.on_acknowledge(node, session, connection, up_to);
            }
            NodeEvent::Close { session, connection } => self.on_close(node, session, connection),
            NodeEvent::ConnectionLost { connection } => self.on_connection_lost(node, connection),
        }
    }

    /// Publishes a message, and sends it to every client that can receive it.
    fn publish(&mut self) {
        self.newest += 1;
        for node in 0..self.nodes.len() {
            self.advance_all(node);
        }
        let delay = 1 + self.schedule.below(1_000);
        self.schedule.after(delay, Event::Publish);
    }

    /// Schedules an event on a node's current process.
    fn later(&mut self, delay: Millis, node: usize, event: NodeEvent) {
        let process = self.nodes[node].id;
        self.schedule.after(delay, Event::OnNode { node, process, event });
    }

    /// Delay of a message between clients, nodes and the directory.
    fn latency(&mut self) -> Millis {
        match self.below(20) {
            0 => self.below(3_000),
            _ => 1 + self.below(20),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.schedule.below(bound)
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn fail(&mut self, what: impl Into<String>) {
        self.violation.get_or_insert(Violation(what.into()));
    }

    fn truth(&mut self, session: SessionId) -> &mut SessionTruth {
        &mut self.sessions[session.0 as usize]
    }

    fn place_of(&self, process: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == process)
    }

    /// Checks that every session has ended, with one event (none if a fault may have lost the session).
    fn check_end(&self) -> Result<(), Violation> {
        let fail = |what: String| Err(Violation(what));
        if let Some((session, record)) = self.directory.records().next() {
            return fail(format!("{session:?} has not ended: {record:?}"));
        }
        for node in &self.nodes {
            if let Some((session, state)) = node.sessions.iter().next() {
                return fail(format!("{:?} still has {session:?}: {state:?}", node.id));
            }
        }
        for session in
            (0..self.sessions.len()).map(|number| SessionId(u32::try_from(number).unwrap_or_default()))
        {
            let events = self.directory.events().iter().filter(|ended| **ended == session).count();
            if events > 1 || (events == 0 && !self.may_lose_sessions) {
                return fail(format!("{session:?} has {events} last events"));
            }
        }
        Ok(())
    }
}
