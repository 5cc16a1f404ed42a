//! Model of the directory: the records of all sessions, the nodes' leases, and the last events of sessions. It
//! executes one operation at a time, like the scripts in Redis that it stands for.

use std::collections::BTreeMap;

use encke_core::ownership::{Loss, Operation, Outcome, Term};

use crate::bug::Bug;
use crate::schedule::Millis;

/// Name of a node, new for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub u32);

pub const LEASE: Millis = 10_000;
/// How long a session without a client can be resumed.
pub const WINDOW: Millis = 30_000;
/// How long a released session is left to the node that its client reaches, before another node adopts it.
pub const RELEASE_GRACE: Millis = 2_000;
/// How long the end of a session is remembered. A node that has been cut off for longer drops its sessions.
pub const TOMBSTONE: Millis = WINDOW + 60_000;

/// Journal of a session whose client does not know its positions: which messages it may have received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Last message that the client has acknowledged.
    pub acknowledged: u64,
    /// Last message of the batch that may have been sent.
    pub sent: u64,
    /// Whether newer writes of the journal may be lost, so that the client may have received any message.
    pub is_outdated: bool,
}

#[derive(Clone, Debug)]
pub struct Record {
    pub owner: Option<NodeId>,
    pub term: Term,
    /// Generation in which an owner last wrote the record. In a later one, newer writes may be lost.
    written_in: u64,
    version: u64,
    pub is_attached: bool,
    /// Former owner and term of an adopted session. Cleared when a client reaches the adopter, or at the first write of
    /// the former owner after it has claimed the session back.
    adopted_from: Option<(NodeId, Term)>,
    /// End of the reconnect window, if the session has no client.
    pub deadline: Millis,
    /// When an owner last wrote the record.
    written_at: Millis,
    pub journal: Journal,
}

impl Record {
    fn granted(&self, generation: u64, now: Millis) -> Granted {
        let Self { term, version, is_attached, journal, .. } = *self;
        let (is_complete, remaining) = (self.written_in == generation, self.deadline.saturating_sub(now));
        Granted { term, version, is_attached, journal, is_complete, remaining, was_taken: false }
    }
}

/// State that a node sends with an [`Operation`].
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Remaining time of the reconnect window.
    pub remaining: Millis,
    pub journal: Journal,
}

/// Session as granted to a node.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    pub term: Term,
    pub journal: Journal,
    pub version: u64,
    pub is_attached: bool,
    /// Whether the record contains every write that was accepted.
    pub is_complete: bool,
    /// Remaining time of the reconnect window.
    pub remaining: Millis,
    /// Whether it was taken from a node on which it had a client.
    pub was_taken: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Claimed {
    Granted(Granted),
    OwnedBy(NodeId, Term),
    Ended,
    NoRecord,
}

/// A node's lease, as the directory knows it.
#[derive(Clone, Copy, Debug)]
struct DirectoryLease {
    held_since: Millis,
    until: Millis,
}

/// Data that a replica copies.
#[derive(Clone, Debug, Default)]
struct Data {
    records: BTreeMap<SessionId, Record>,
    ended: BTreeMap<SessionId, Millis>,
    leases: BTreeMap<NodeId, DirectoryLease>,
    events: Vec<SessionId>,
}

#[derive(Debug, Default)]
pub struct Directory {
    generation: u64,
    data: Data,
    replica: Data,
    bug: Option<Bug>,
}

impl Directory {
    pub fn new(bug: Option<Bug>) -> Self {
        Self { generation: 1, bug, ..Self::default() }
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn record(&self, session: SessionId) -> Option<&Record> {
        self.data.records.get(&session)
    }

    pub fn records(&self) -> impl Iterator<Item = (SessionId, &Record)> {
        self.data.records.iter().map(|(session, record)| (*session, record))
    }

    pub fn has_ended(&self, session: SessionId) -> bool {
        self.data.ended.contains_key(&session)
    }

    /// Last events of sessions: at most one for each session.
    pub fn events(&self) -> &[SessionId] {
        &self.data.events
    }

    /// Brings the replica up to date.
    pub fn replicate(&mut self) {
        self.replica = self.data.clone();
    }

    /// Replaces the data with those of the replica, and begins the next generation.
    pub fn fail_over(&mut self) {
        self.data = self.replica.clone();
        if self.bug != Some(Bug::SameGenerationAfterFailover) {
            self.generation += 1;
        }
    }

    /// Renews a lease. Returns whether the node held it.
    pub fn renew(&mut self, node: NodeId, now: Millis) -> bool {
        let held_since = self.lease(node, now).map(|lease| lease.held_since);
        let lease = DirectoryLease { held_since: held_since.unwrap_or(now), until: now + LEASE };
        self.data.leases.insert(node, lease);
        held_since.is_some()
    }

    /// Forgets the ends of sessions after [`TOMBSTONE`].
    pub fn forget_ends(&mut self, now: Millis) {
        self.data.ended.retain(|_, at| *at + TOMBSTONE > now);
    }

    /// Loses all leases, as if the directory's clock had been set.
    pub fn lose_leases(&mut self) {
        self.data.leases.clear();
    }

    pub fn give_up_lease(&mut self, node: NodeId) {
        self.data.leases.remove(&node);
    }

    fn lease(&self, node: NodeId, now: Millis) -> Option<DirectoryLease> {
        self.data.leases.get(&node).copied().filter(|lease| lease.until > now)
    }

    /// Whether `node` may regard `owner` as dead. If `node` got its own lease only recently, the directory may have
    /// lost all leases, and `owner` may not have renewed its own yet.
    fn is_dead(&self, owner: NodeId, node: NodeId, now: Millis) -> bool {
        let is_settled = self.lease(node, now).is_some_and(|lease| lease.held_since + LEASE <= now);
        is_settled && self.lease(owner, now).is_none()
    }

    /// Executes an operation of an owner.
    pub fn operate(
        &mut self,
        (node, session, term): (NodeId, SessionId, Term),
        operation: Operation,
        state: State,
        now: Millis,
    ) -> Outcome {
        if self.data.ended.contains_key(&session) {
            return Outcome::Fenced(Loss::Ended);
        }
        let generation = self.generation;
        let is_verify = matches!(operation, Operation::Verify { .. });
        let Some(record) = self.data.records.get_mut(&session) else {
            let is_first = match operation {
                Operation::Write { is_first, .. }
                | Operation::Release { is_first, .. }
                | Operation::End { is_first, .. } => is_first && term.generation == generation,
                // No failover has lost the record: the session has ended, and its end has been forgotten.
                Operation::Verify { existed_in, .. } if existed_in == generation => {
                    return Outcome::Fenced(Loss::Ended);
                }
                Operation::Verify { .. } => true,
            };
            if !is_first {
                return Outcome::Unverified;
            }
            return self.write((node, session, term), operation, state, now);
        };
        let is_owner = record.owner == Some(node);
        let is_current = is_owner && record.term == term;
        let is_withdrawn = matches!(operation, Operation::End { version, .. } if version < record.version);
        if is_current && !is_verify && (record.written_in < generation || is_withdrawn) {
            return Outcome::Unverified;
        }
        if is_current || self.bug == Some(Bug::NoFence) {
            return self.write((node, session, term), operation, state, now);
        }
        let Operation::Verify { is_attached, .. } = operation else { return Outcome::Fenced(Loss::Moved) };
        // The directory has lost this owner's claim and everything after it, so the record names an earlier owner.
        // The earlier owner keeps the session if it has verified the session since and has a client, and this node
        // has none.
        let is_in_use = record.is_attached && record.written_in == generation;
        if record.term < term && (is_attached || !is_in_use) {
            return self.write((node, session, term), operation, state, now);
        }
        // This node has claimed the session back already, and the reply was lost.
        if is_owner && record.adopted_from == Some((node, term)) {
            let term = record.term;
            return self.write((node, session, term), operation, state, now);
        }
        if record.adopted_from == Some((node, term)) && is_attached {
            let term = record.term.next(generation);
            record.version = 0;
            return self.write((node, session, term), operation, state, now);
        }
        Outcome::Fenced(Loss::Moved)
    }

    fn write(
        &mut self,
        (node, session, term): (NodeId, SessionId, Term),
        operation: Operation,
        State { remaining, journal }: State,
        now: Millis,
    ) -> Outcome {
        let generation = self.generation;
        let (owner, version, is_attached) = match operation {
            Operation::Write { version, is_attached, .. }
            | Operation::Verify { version, is_attached, .. } => (Some(node), version, is_attached),
            Operation::Release { version, .. } => (None, version, false),
            Operation::End { .. } => {
                self.data.records.remove(&session);
                self.data.ended.insert(session, now);
                self.data.events.push(session);
                return Outcome::Accepted { term, generation };
            }
        };
        let is_later = self.data.records.get(&session).is_some_and(|record| {
            record.owner == Some(node) && record.term == term && record.version > version
        });
        if !is_later {
            let is_verify = matches!(operation, Operation::Verify { .. });
            let adopted_from = self.data.records.get(&session).and_then(|record| record.adopted_from);
            let adopted_from = adopted_from.filter(|(from, _)| match is_attached {
                true => is_verify && *from == node,
                false => owner.is_some() && *from != node,
            });
            let record = Record {
                owner,
                term,
                written_in: generation,
                version,
                is_attached,
                adopted_from,
                deadline: now + remaining,
                written_at: now,
                journal,
            };
            self.data.records.insert(session, record);
        }
        Outcome::Accepted { term, generation }
    }

    /// Makes a node the owner of a session whose client has connected to it. If the session has a client on another
    /// live node, that node must be the owner `from`, in that term; otherwise, the claim is not granted. Repeating a
    /// granted claim changes nothing.
    pub fn claim(
        &mut self,
        node: NodeId,
        session: SessionId,
        from: Option<(NodeId, Term)>,
        now: Millis,
    ) -> Claimed {
        if self.data.ended.contains_key(&session) {
            return Claimed::Ended;
        }
        let generation = self.generation;
        let Some(record) = self.data.records.get(&session) else { return Claimed::NoRecord };
        let is_dead = record.owner.is_none_or(|owner| self.is_dead(owner, node, now));
        if let Some(owner) = record.owner
            && (record.is_attached && owner != node && !is_dead)
            && from != Some((owner, record.term))
        {
            return Claimed::OwnedBy(owner, record.term);
        }
        let Some(record) = self.data.records.get_mut(&session) else { return Claimed::NoRecord };
        let was_taken = record.is_attached && record.owner.is_some_and(|owner| owner != node);
        if record.owner != Some(node) {
            record.term = record.term.next(generation);
            record.version = 0;
            record.owner = Some(node);
            record.is_attached = true;
            record.adopted_from = None;
        }
        Claimed::Granted(Granted { was_taken, ..record.granted(generation, now) })
    }

    /// Makes a node the owner of a session that has no owner, or whose owner's lease has ended.
    pub fn adopt(&mut self, node: NodeId, session: SessionId, now: Millis) -> Option<Granted> {
        let generation = self.generation;
        let record = self.data.records.get(&session)?;
        let may_adopt = match record.owner {
            None => record.written_at + RELEASE_GRACE <= now,
            Some(owner) => owner != node && self.is_dead(owner, node, now),
        };
        if !may_adopt {
            return None;
        }
        let record = self.data.records.get_mut(&session)?;
        if record.is_attached || record.written_in < generation {
            record.deadline = now + WINDOW;
        }
        let adopted_from = record.owner.map(|owner| (owner, record.term));
        record.term = record.term.next(generation);
        record.version = 0;
        record.owner = Some(node);
        record.is_attached = false;
        record.adopted_from = adopted_from;
        Some(record.granted(generation, now))
    }

    /// Returns a session that this node owns in a term that it does not know: a claim was executed long after it had
    /// been sent.
    pub fn unknown_to(&self, node: NodeId, known: &[(SessionId, Term)]) -> Option<(SessionId, Term)> {
        let is_unknown = |id, term| !known.contains(&(id, term));
        let mut owned = self.records().filter(|(_, record)| record.owner == Some(node));
        owned.find(|(id, record)| is_unknown(*id, record.term)).map(|(id, record)| (id, record.term))
    }
}
