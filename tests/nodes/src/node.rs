//! Nodes, and their sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use encke_core::ownership::{Claim, Lease, Ownership};

use crate::bug::Bug;
use crate::directory::{Journal, LEASE, NodeId, SessionId, State, WINDOW};
use crate::schedule::Millis;

/// A connection of a client, unique in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// A place in the cluster, and its current process.
#[derive(Debug)]
pub(crate) struct Node<E> {
    pub(crate) id: NodeId,
    pub(crate) sessions: BTreeMap<SessionId, NodeSession>,
    pub(crate) claims: BTreeMap<SessionId, PendingClaim>,
    /// Requests to the directory without a reply.
    pub(crate) requests: BTreeMap<u64, Purpose>,
    pub(crate) lease: Lease,
    pub(crate) generation: u64,
    pub(crate) renewed_at: Millis,
    /// Whether the process is suspended. Its events wait.
    pub(crate) is_frozen: bool,
    /// Whether there is no process.
    pub(crate) is_stopped: bool,
    pub(crate) waiting: Vec<E>,
    /// Whether nothing passes between the node and the directory.
    pub(crate) is_cut: bool,
    pub(crate) is_draining: bool,
    /// Time during which the process was suspended.
    pub(crate) frozen_for: Millis,
}

/// Why a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// An operation of a session, with the number of the [`NodeSession`].
    Operation(SessionId, u64),
    Claim {
        session: SessionId,
        sent_at: Millis,
    },
    Adopt {
        sent_at: Millis,
    },
    FindUnknown,
    Renew {
        sent_at: Millis,
    },
}

/// A session in a node's memory.
#[derive(Debug)]
pub(crate) struct NodeSession {
    /// Number of this object, unique in a run: replies to requests of an earlier one are ignored.
    pub(crate) number: u64,
    pub(crate) ownership: Ownership,
    pub(crate) connection: Option<ConnectionId>,
    /// Content of the hello, until it is sent.
    pub(crate) hello: Option<Hello>,
    /// For a client that knows its positions: last message that was sent.
    pub(crate) cursor: u64,
    pub(crate) journal: Journal,
    /// Version with which the current batch is journalled, until the batch is sent.
    pub(crate) unsent_batch: Option<u64>,
    /// End of the reconnect window.
    pub(crate) deadline: Option<Millis>,
    /// Nodes that have asked for the session.
    pub(crate) asked_by: Vec<NodeId>,
}

/// Where a client continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Last message that the client has received for certain.
    pub(crate) from: u64,
    /// Last message before the first one sent. Messages after `from`, up to this one, are reported as a gap.
    pub(crate) to: u64,
}

/// A claim in progress.
#[derive(Debug)]
pub(crate) struct PendingClaim {
    pub(crate) claim: Claim<NodeId>,
    /// Waiting connection, and its client's position. `None` if the connection has been lost.
    pub(crate) connection: Option<(ConnectionId, u64)>,
}

impl<E> Node<E> {
    pub(crate) fn new(id: NodeId, generation: u64) -> Self {
        Self {
            id,
            sessions: BTreeMap::new(),
            claims: BTreeMap::new(),
            requests: BTreeMap::new(),
            lease: Lease::new(Duration::from_millis(LEASE)),
            generation,
            renewed_at: 0,
            is_frozen: false,
            is_stopped: false,
            waiting: Vec::new(),
            is_cut: false,
            is_draining: false,
            frozen_for: 0,
        }
    }

    pub(crate) fn has_lease(&self, now: Millis, bug: Option<Bug>) -> bool {
        self.lease.is_valid(Duration::from_millis(self.uptime(now, bug)))
    }

    /// Returns the uptime of the machine.
    pub(crate) fn uptime(&self, now: Millis, bug: Option<Bug>) -> Millis {
        let hidden = if bug == Some(Bug::LeaseHidesStalls) { self.frozen_for } else { 0 };
        now - hidden
    }
}

impl NodeSession {
    pub(crate) fn new(number: u64, ownership: Ownership, journal: Journal) -> Self {
        Self {
            number,
            ownership,
            connection: None,
            hello: None,
            cursor: 0,
            journal,
            unsent_batch: None,
            deadline: None,
            asked_by: Vec::new(),
        }
    }

    pub(crate) fn state(&self, now: Millis) -> State {
        let remaining = self.deadline.map_or(WINDOW, |deadline| deadline.saturating_sub(now));
        State { remaining, journal: self.journal }
    }

    /// Attaches a connection. The client continues at the position that it knows, or else after the batch that it
    /// may have received, which is reported as a gap. Whether the ownership must be confirmed is up to the caller.
    pub(crate) fn attach(&mut self, connection: ConnectionId, position: Option<u64>, newest: u64) {
        self.drop_unsent_batch();
        if std::mem::take(&mut self.journal.is_outdated) {
            self.journal.sent = newest;
            self.ownership.change();
        }
        self.connection = Some(connection);
        self.deadline = None;
        let Journal { acknowledged, sent, .. } = self.journal;
        self.cursor = position.unwrap_or(sent);
        self.hello = Some(Hello { from: position.unwrap_or(acknowledged), to: self.cursor });
    }

    /// Records that the directory may have lost newer writes, even those of another owner.
    pub(crate) fn outdate(&mut self, position: Option<u64>, newest: u64) {
        self.journal.is_outdated = true;
        self.ownership.change();
        if let Some(connection) = self.connection.filter(|_| self.hello.is_some()) {
            self.attach(connection, position, newest);
        }
    }

    pub(crate) fn detach(&mut self, now: Millis) {
        self.drop_unsent_batch();
        self.connection = None;
        self.hello = None;
        self.deadline = Some(now + WINDOW);
        self.ownership.detach();
    }

    fn drop_unsent_batch(&mut self) {
        if self.unsent_batch.take().is_some() {
            self.journal.sent = self.journal.acknowledged;
            self.ownership.change();
        }
    }
}
