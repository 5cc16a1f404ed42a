//! Requests of nodes to the directory, and the handling of their outcomes.

use std::time::Duration;

use encke_core::ownership::{ClaimOutcome, Operation, Outcome, Ownership, Term};

use super::{Event, NodeEvent, SessionTruth, World};
use crate::bug::Bug;
use crate::directory::{Claimed, Granted, LEASE, NodeId, SessionId, State, TOMBSTONE, WINDOW};
use crate::node::{NodeSession, Purpose};
use crate::schedule::Millis;

/// How often a node renews its lease.
const RENEWAL: Millis = 3_000;
/// How long a node waits for a reply. Must not exceed [`encke_core::ownership::GRANT_TIMEOUT`].
const REQUEST_TIMEOUT: Millis = 1_000;
/// Delay after which a request may still be executed, long after its node has stopped waiting for the reply.
const LONGEST_DELAY: Millis = 20_000;

#[derive(Clone, Debug)]
pub(super) enum Request {
    Operation {
        session: SessionId,
        term: Term,
        operation: Operation,
        state: State,
    },
    Claim {
        session: SessionId,
        from: Option<(NodeId, Term)>,
    },
    /// Asks for a session whose owner is dead or has released it.
    Adopt,
    /// Asks for a session that the node owns without knowing it.
    FindUnknown {
        known: Vec<(SessionId, Term)>,
    },
    Renew,
}

#[derive(Clone, Debug)]
pub(super) enum Reply {
    Operation(Outcome),
    Claim(Claimed),
    Adopted(Option<(SessionId, Granted)>),
    Unknown(Option<(SessionId, Term)>),
    Renewed {
        generation: u64,
        was_held: bool,
    },
    /// The request had no effect, because its node did not know the current generation.
    OtherGeneration {
        generation: u64,
    },
}

impl World {
    pub(super) fn send(&mut self, node: usize, purpose: Purpose, request: Request) {
        let number = self.next_number();
        let process = self.nodes[node].id;
        self.nodes[node].requests.insert(number, purpose);
        self.later(REQUEST_TIMEOUT, node, NodeEvent::RequestTimeout { number });
        // A request sent during a cut is usually lost, and otherwise executed late.
        let delay = match self.nodes[node].is_cut {
            true if self.schedule.chance(80) => return,
            true => self.below(LONGEST_DELAY),
            false => self.latency(),
        };
        let is_answered = !self.schedule.chance(3);
        let known = self.nodes[node].generation;
        self.schedule.after(delay, Event::Execute { node, process, known, number, request, is_answered });
    }

    pub(super) fn execute(
        &mut self,
        (node, process, known): (usize, NodeId, u64),
        number: u64,
        request: Request,
        is_answered: bool,
    ) {
        let now = self.schedule.now;
        let generation = self.directory.generation();
        let reply = match request {
            // A request that was sent before a failover has no effect after it.
            Request::Operation { .. }
            | Request::Claim { .. }
            | Request::Adopt
            | Request::FindUnknown { .. }
                if known != generation =>
            {
                Reply::OtherGeneration { generation }
            }
            Request::Operation { session, term, operation, state } => {
                let ended = self.directory.events().len();
                let outcome = self.directory.operate((process, session, term), operation, state, now);
                self.truth(session).is_recorded |= matches!(outcome, Outcome::Accepted { .. });
                if self.directory.events().len() > ended {
                    self.check_session_end(process, session);
                }
                Reply::Operation(outcome)
            }
            Request::Claim { session, from } => {
                let owner = self.directory.record(session).and_then(|record| record.owner);
                let claimed = self.directory.claim(process, session, from, now);
                if let Claimed::Granted(Granted { was_taken, .. }) = claimed {
                    self.taken.remove(&(session, process));
                    self.taken.extend(owner.filter(|_| was_taken).map(|owner| (session, owner)));
                }
                Reply::Claim(claimed)
            }
            Request::Adopt => {
                let sessions: Vec<_> = self.directory.records().map(|(session, _)| session).collect();
                let adopted = sessions
                    .into_iter()
                    .find_map(|session| Some((session, self.directory.adopt(process, session, now)?)));
                Reply::Adopted(adopted)
            }
            Request::FindUnknown { known } => Reply::Unknown(self.directory.unknown_to(process, &known)),
            Request::Renew => {
                self.directory.forget_ends(now);
                Reply::Renewed { generation, was_held: self.directory.renew(process, now) }
            }
        };
        if is_answered && !self.nodes[node].is_cut && self.nodes[node].id == process {
            let delay = self.latency();
            self.later(delay, node, NodeEvent::Reply { number, reply });
        }
    }

    /// Handles a reply. `None` if there was none in time.
    pub(super) fn on_reply(&mut self, node: usize, number: u64, reply: Option<Reply>) {
        let Some(purpose) = self.nodes[node].requests.remove(&number) else { return };
        if let Some(Reply::OtherGeneration { generation }) = reply {
            self.learn_generation(node, generation);
        }
        match (purpose, reply) {
            (Purpose::Operation(session, object), reply) => {
                let outcome = match reply {
                    Some(Reply::Operation(outcome)) => outcome,
                    Some(Reply::OtherGeneration { .. }) => Outcome::Unverified,
                    _ => Outcome::Unknown,
                };
                self.on_outcome(node, session, object, outcome);
            }
            // A process that was suspended may read a late reply before it handles the timeout.
            (Purpose::Claim { session, sent_at }, Some(Reply::Claim(claimed)))
                if self.uptime(node) < sent_at + REQUEST_TIMEOUT =>
            {
                self.on_claimed(node, session, claimed, sent_at);
            }
            (Purpose::Claim { session, .. }, _) => self.claim_again(node, session, ClaimOutcome::Unknown),
            (Purpose::Adopt { sent_at }, Some(Reply::Adopted(Some((session, granted))))) => {
                self.counts.adopted += 1;
                self.adopt(node, session, granted, sent_at);
                self.look_for_sessions(node);
            }
            (Purpose::FindUnknown, Some(Reply::Unknown(Some((session, term))))) => {
                let known = self.nodes[node].sessions.get(&session).map(|state| &state.ownership);
                if known.is_none_or(|known| known.term() < term && !known.has_operation_in_flight()) {
                    self.drop_session(node, session);
                    self.claim(node, session, None);
                }
            }
            (Purpose::Renew { sent_at }, Some(Reply::Renewed { generation, was_held })) => {
                self.on_renewed(node, sent_at, (generation, was_held));
            }
            _ => {}
        }
    }

    fn on_outcome(&mut self, node: usize, session: SessionId, object: u64, outcome: Outcome) {
        let Some(state) = self.nodes[node].sessions.get_mut(&session) else { return };
        if state.number != object {
            return;
        }
        let term = state.ownership.term();
        state.ownership.finish(outcome);
        match outcome {
            Outcome::Fenced(_) => self.counts.fenced += 1,
            Outcome::Accepted { term: new, .. } if new != term => self.counts.claimed_back += 1,
            _ => {}
        }
        self.advance(node, session);
    }

    fn on_claimed(&mut self, node: usize, session: SessionId, claimed: Claimed, sent_at: Millis) {
        match claimed {
            Claimed::OwnedBy(owner, term) => {
                self.claim_again(node, session, ClaimOutcome::OwnedBy(owner, term));
            }
            Claimed::NoRecord | Claimed::Ended => {
                let Some(pending) = self.nodes[node].claims.remove(&session) else { return };
                let SessionTruth { served_at, is_closed, is_recorded, .. } = *self.truth(session);
                let is_kept = is_recorded && !is_closed && !self.may_lose_sessions;
                if is_kept && self.schedule.now < served_at + WINDOW {
                    self.fail(format!("{session:?} was served at {served_at}, but cannot be resumed"));
                }
                if let Some((connection, _)) = pending.connection {
                    let client = self.truth(session).client;
                    self.open(node, client, connection);
                }
            }
            Claimed::Granted(granted) => {
                let Some(pending) = self.nodes[node].claims.remove(&session) else { return };
                // The node may already have the session in this term, by an adoption.
                if self.nodes[node]
                    .sessions
                    .get(&session)
                    .is_some_and(|it| it.ownership.term() == granted.term)
                {
                    if let Some((connection, position)) = pending.connection {
                        self.attach(node, session, connection, position);
                    }
                    return;
                }
                self.counts.resumed_elsewhere += 1;
                self.counts.taken += u64::from(granted.was_taken);
                let mut state = self.session_of(node, granted, sent_at);
                match pending.connection {
                    Some((connection, position)) => {
                        let client = self.sessions[session.0 as usize].client;
                        if !granted.is_attached {
                            state.ownership.attach();
                        }
                        state.attach(
                            connection,
                            self.clients[client].knows_positions.then_some(position),
                            self.newest,
                        );
                    }
                    None => state.detach(self.schedule.now),
                }
                self.insert(node, session, state);
            }
        }
    }

    /// Starts the session's reconnect window again, extended by a lease: the directory may have lost the claim of
    /// another node, which may serve the client until its lease ends.
    fn extend_window(&mut self, node: usize, session: SessionId) {
        let window = LEASE + WINDOW;
        let deadline = self.schedule.now + window;
        let Some(state) = self.nodes[node].sessions.get_mut(&session) else { return };
        if state.deadline.is_some() {
            state.deadline = Some(deadline);
            state.ownership.withdraw_end();
            self.later(window, node, NodeEvent::Deadline { session });
        }
    }

    fn look_for_sessions(&mut self, node: usize) {
        let sent_at = self.uptime(node);
        self.send(node, Purpose::Adopt { sent_at }, Request::Adopt);
    }

    fn adopt(&mut self, node: usize, session: SessionId, granted: Granted, sent_at: Millis) {
        let known = self.nodes[node].sessions.get(&session);
        if known.is_some_and(|known| known.ownership.term() >= granted.term) {
            return;
        }
        let mut state = self.session_of(node, granted, sent_at);
        state.deadline = Some(self.schedule.now + granted.remaining);
        self.insert(node, session, state);
    }

    fn session_of(&mut self, node: usize, granted: Granted, sent_at: Millis) -> NodeSession {
        let Granted { term, version, is_attached, .. } = granted;
        let generation = self.nodes[node].generation;
        let ownership = Ownership::granted(term, version, is_attached, generation);
        let mut state = NodeSession::new(self.next_number(), ownership, granted.journal);
        let [sent_at, now] = [sent_at, self.uptime(node)].map(Duration::from_millis);
        if !self.nodes[node].lease.is_valid_since(sent_at, now) && self.bug != Some(Bug::NoVerification) {
            state.ownership.suspect();
        }
        if !granted.is_complete {
            state.outdate(None, self.newest);
        }
        state
    }

    fn on_renewed(&mut self, node: usize, sent_at: Millis, (generation, was_held): (u64, bool)) {
        let (now, bug) = (self.schedule.now, self.bug);
        let node_state = &mut self.nodes[node];
        let uptime = Duration::from_millis(node_state.uptime(now, bug));
        let sent_at = Duration::from_millis(sent_at);
        let ended_for = node_state.lease.renewed(sent_at, uptime, was_held);
        let is_too_late = ended_for.is_some_and(|it| it.as_millis() > u128::from(TOMBSTONE - WINDOW));
        if is_too_late {
            let lost: Vec<_> = node_state.sessions.keys().copied().collect();
            lost.into_iter().for_each(|session| self.drop_session(node, session));
            return;
        }
        if ended_for.is_some() && bug != Some(Bug::NoVerification) {
            node_state.sessions.values_mut().for_each(|session| session.ownership.suspect());
        }
        self.learn_generation(node, generation);
        self.advance_all(node);
    }

    /// Records a new generation. The failover may have lost leases, claims of this node's sessions, and journals.
    fn learn_generation(&mut self, node: usize, generation: u64) {
        if std::mem::replace(&mut self.nodes[node].generation, generation) == generation {
            return;
        }
        let uptime = Duration::from_millis(self.uptime(node));
        self.nodes[node].lease.postpone_adoption(uptime);
        let sessions: Vec<_> = self.nodes[node].sessions.keys().copied().collect();
        for session in sessions {
            let client = &self.clients[self.sessions[session.0 as usize].client];
            let Some(state) = self.nodes[node].sessions.get_mut(&session) else { continue };
            state.ownership.suspect();
            let position = state.hello.filter(|_| client.knows_positions);
            state.outdate(position.map(|hello| hello.from), self.newest);
            self.extend_window(node, session);
        }
    }

    /// Renews the node's lease, and looks for sessions to adopt.
    pub(super) fn tick(&mut self, node: usize) {
        let (now, bug) = (self.schedule.now, self.bug);
        let state = &mut self.nodes[node];
        let sent_at = state.uptime(now, bug);
        let uptime = Duration::from_millis(sent_at);
        let may_adopt = state.lease.may_adopt(uptime) && !state.is_draining;
        if state.renewed_at + RENEWAL <= now || !state.lease.is_valid(uptime) {
            state.renewed_at = now;
            self.send(node, Purpose::Renew { sent_at }, Request::Renew);
        }
        if may_adopt {
            self.look_for_sessions(node);
            if self.nodes[node].claims.is_empty() {
                let sessions = &self.nodes[node].sessions;
                let known = sessions.iter().map(|(id, state)| (*id, state.ownership.term())).collect();
                self.send(node, Purpose::FindUnknown, Request::FindUnknown { known });
            }
        }
        self.advance_all(node);
        self.finish_drain(node);
        self.later(1_000, node, NodeEvent::Tick);
    }

    pub(super) fn uptime(&self, node: usize) -> Millis {
        self.nodes[node].uptime(self.schedule.now, self.bug)
    }

    /// Checks that a session may end now.
    fn check_session_end(&mut self, process: NodeId, session: SessionId) {
        let (now, bug) = (self.schedule.now, self.bug);
        for node in &self.nodes {
            let Some(state) = node.sessions.get(&session).filter(|_| node.id != process && !node.is_frozen)
            else {
                continue;
            };
            let is_served = state.ownership.may_serve() && node.has_lease(now, bug);
            let client = &self.clients[self.sessions[session.0 as usize].client];
            let is_connected = state.connection.is_some_and(|connection| client.is_greeted_on(connection));
            if is_served && is_connected && !self.taken.contains(&(session, node.id)) {
                let other = node.id;
                return self
                    .fail(format!("{process:?} has ended {session:?}, whose client {other:?} serves"));
            }
        }
        let SessionTruth { served_at, is_closed, .. } = *self.truth(session);
        if !is_closed && now < served_at + WINDOW {
            self.fail(format!("{session:?} has ended too early: it was served at {served_at}"));
        }
    }
}
