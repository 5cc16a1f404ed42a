//! Sessions on their nodes: opening, claiming, serving and ending them.

use std::time::Duration;

use encke_core::ownership::{Claim, ClaimOutcome, ClaimStep, Ownership};

use super::directory_requests::Request;
use super::{ClientEvent, Event, NodeEvent, SessionTruth, World};
use crate::bug::Bug;
use crate::directory::{Journal, NodeId, SessionId, WINDOW};
use crate::node::{ConnectionId, NodeSession, PendingClaim, Purpose};

impl World {
    /// Opens a new session.
    pub(super) fn open(&mut self, node: usize, client: usize, connection: ConnectionId) {
        let session = SessionId(u32::try_from(self.sessions.len()).unwrap_or(u32::MAX));
        let served_at = self.schedule.now;
        self.sessions.push(SessionTruth { client, served_at, ..SessionTruth::default() });
        self.counts.sessions += 1;
        let journal = Journal { acknowledged: self.newest, sent: self.newest, is_outdated: false };
        let ownership = Ownership::opened(self.nodes[node].generation);
        let mut state = NodeSession::new(self.next_number(), ownership, journal);
        state.attach(connection, self.clients[client].knows_positions.then_some(self.newest), self.newest);
        self.insert(node, session, state);
    }

    pub(super) fn insert(&mut self, node: usize, session: SessionId, mut state: NodeSession) {
        let deadline = state.deadline;
        if self.nodes[node].is_draining {
            state.ownership.release();
        }
        // An existing object belongs to an ownership that this node has lost.
        self.drop_session(node, session);
        self.nodes[node].sessions.insert(session, state);
        if let Some(deadline) = deadline {
            self.later(deadline - self.schedule.now, node, NodeEvent::Deadline { session });
        }
        self.advance(node, session);
    }

    /// Removes a session that the node has lost, and closes its connection.
    pub(super) fn drop_session(&mut self, node: usize, session: SessionId) {
        let Some(state) = self.nodes[node].sessions.remove(&session) else { return };
        if let Some(connection) = state.connection {
            self.send_to_client(session, connection, ClientEvent::Closed);
        }
        for by in state.asked_by {
            self.answer_ask(by, session);
        }
    }

    fn answer_ask(&mut self, by: NodeId, session: SessionId) {
        let is_lost = self.schedule.chance(5);
        if let Some(asking) = self.place_of(by).filter(|_| !is_lost) {
            let delay = self.latency();
            self.later(delay, asking, NodeEvent::Released { session });
        }
    }

    fn send_to_client(&mut self, session: SessionId, connection: ConnectionId, event: ClientEvent) {
        let client = self.truth(session).client;
        let delay = self.clients[client].delay_after(self.schedule.now, self.schedule.below(20));
        self.schedule.after(delay, Event::OnClient { client, connection, event });
    }

    pub(super) fn advance_all(&mut self, node: usize) {
        if self.nodes[node].is_frozen {
            return;
        }
        let sessions: Vec<_> = self.nodes[node].sessions.keys().copied().collect();
        sessions.into_iter().for_each(|session| self.advance(node, session));
    }

    /// Sends what the session has to send, to the directory and to its client.
    pub(super) fn advance(&mut self, node: usize, session: SessionId) {
        let now = self.schedule.now;
        let Some(state) = self.nodes[node].sessions.get_mut(&session) else { return };
        if state.ownership.loss().is_some() {
            return self.drop_session(node, session);
        }
        self.serve(node, session);
        // A node whose lease has ended verifies its sessions before anything else.
        if !self.nodes[node].has_lease(now, self.bug) {
            return;
        }
        let Some(state) = self.nodes[node].sessions.get_mut(&session) else { return };
        if let Some(operation) = state.ownership.next_operation() {
            let (term, object, content) = (state.ownership.term(), state.number, state.state(now));
            let request = Request::Operation { session, term, operation, state: content };
            self.send(node, Purpose::Operation(session, object), request);
        }
    }

    /// Sends the session's client its hello and its messages, if the node may serve it.
    fn serve(&mut self, node: usize, session: SessionId) {
        let (now, bug) = (self.schedule.now, self.bug);
        let newest = self.newest;
        let client = self.truth(session).client;
        let knows_positions = self.clients[client].knows_positions;
        let place = &mut self.nodes[node];
        let has_lease = place.has_lease(now, bug);
        let Some(state) = place.sessions.get_mut(&session) else { return };
        let Some(connection) = state.connection else { return };
        let may_serve = state.ownership.may_serve()
            || (bug == Some(Bug::ResumeWithoutClaim) && state.ownership.is_active());
        if !may_serve || !has_lease {
            return;
        }
        if self.clients[client].is_greeted_on(connection) && !self.taken.contains(&(session, place.id)) {
            self.sessions[session.0 as usize].served_at = now;
        }
        let mut events = Vec::new();
        if let Some(hello) = state.hello.take() {
            events.push(ClientEvent::Hello { session, hello });
        }
        if knows_positions {
            if state.cursor < newest {
                events.push(ClientEvent::Batch { after: state.cursor, to: newest });
                state.cursor = newest;
            }
        } else {
            if state.journal.acknowledged == state.journal.sent && state.journal.sent < newest {
                state.journal.sent = newest;
                state.unsent_batch = Some(state.ownership.change());
            }
            let is_due =
                |version| state.ownership.is_written(version) || bug == Some(Bug::JournalAfterSending);
            if state.unsent_batch.is_some_and(is_due) {
                state.unsent_batch = None;
                events.push(ClientEvent::Batch { after: state.journal.acknowledged, to: state.journal.sent });
            }
        }
        if !events.is_empty() {
            self.check_owner(node, session);
        }
        for event in events {
            self.send_to_client(session, connection, event);
        }
    }

    /// Checks that no other node has become the owner of a session whose client this node serves. A node whose session
    /// was taken while its lease was valid learns of this later.
    fn check_owner(&mut self, node: usize, session: SessionId) {
        let id = self.nodes[node].id;
        let Some(state) = self.nodes[node].sessions.get(&session) else { return };
        let term = state.ownership.term();
        let Some(record) = self.directory.record(session) else { return };
        // A term of an earlier generation is compared by the directory when it is verified.
        let is_later = record.term > term && term.generation == self.directory.generation();
        if record.owner != Some(id) && is_later && !self.taken.contains(&(session, id)) {
            let (owner, new) = (record.owner, record.term);
            self.fail(format!("{id:?} serves {session:?} in {term:?}, but {owner:?} owns it in {new:?}"));
        }
    }

    pub(super) fn on_connect(
        &mut self,
        node: usize,
        client: usize,
        connection: ConnectionId,
        session: Option<SessionId>,
        position: Option<u64>,
    ) {
        if self.nodes[node].is_draining {
            return;
        }
        let Some(session) = session else { return self.open(node, client, connection) };
        let position = position.unwrap_or_default();
        if self.nodes[node].sessions.contains_key(&session) {
            self.attach(node, session, connection, position);
        } else {
            self.claim(node, session, Some((connection, position)));
        }
    }

    /// Attaches a connection to a session of this node. If the session is ending or released, the client has to try
    /// again.
    pub(super) fn attach(
        &mut self,
        node: usize,
        session: SessionId,
        connection: ConnectionId,
        position: u64,
    ) {
        let client = self.truth(session).client;
        let position = self.clients[client].knows_positions.then_some(position);
        let newest = self.newest;
        let Some(state) = self.nodes[node].sessions.get_mut(&session) else { return };
        if state.ownership.is_active() {
            state.ownership.attach();
            state.attach(connection, position, newest);
            self.advance(node, session);
        }
    }

    /// Claims a session for a connection. Without one, the session will be suspended.
    pub(super) fn claim(&mut self, node: usize, session: SessionId, connection: Option<(ConnectionId, u64)>) {
        if let Some(pending) = self.nodes[node].claims.get_mut(&session) {
            pending.connection = connection.or(pending.connection);
            return;
        }
        self.nodes[node].claims.insert(session, PendingClaim { claim: Claim::begin(), connection });
        self.step_claim(node, session);
    }

    fn step_claim(&mut self, node: usize, session: SessionId) {
        let Some(pending) = self.nodes[node].claims.get(&session) else { return };
        match pending.claim.step() {
            ClaimStep::Send { from } => {
                let sent_at = self.uptime(node);
                self.send(node, Purpose::Claim { session, sent_at }, Request::Claim { session, from });
            }
            ClaimStep::Ask { owner, until } => {
                let by = self.nodes[node].id;
                let is_lost = self.schedule.chance(10);
                if let Some(place) = self.place_of(owner).filter(|_| !is_lost) {
                    let delay = self.latency();
                    self.later(delay, place, NodeEvent::Asked { session, by });
                }
                let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
                self.later(until.saturating_sub(self.schedule.now), node, NodeEvent::AskTimeout { session });
            }
        }
    }

    pub(super) fn claim_again(&mut self, node: usize, session: SessionId, outcome: ClaimOutcome<NodeId>) {
        let now = Duration::from_millis(self.schedule.now);
        let Some(pending) = self.nodes[node].claims.get_mut(&session) else { return };
        // Without a client here, the owner keeps the session.
        let is_needed = pending.connection.is_some() || outcome == ClaimOutcome::Unknown;
        if is_needed && pending.claim.finish(outcome, now) {
            return self.step_claim(node, session);
        }
        let Some(pending) = self.nodes[node].claims.remove(&session) else { return };
        if let Some((connection, _)) = pending.connection {
            self.send_to_client(session, connection, ClientEvent::Closed);
        }
    }

    pub(super) fn on_ask_timeout(&mut self, node: usize, session: SessionId) {
        let now = Duration::from_millis(self.schedule.now);
        let Some(pending) = self.nodes[node].claims.get_mut(&session) else { return };
        if pending.claim.handle_timeout(now) {
            self.take(node, session);
        }
    }

    pub(super) fn on_released(&mut self, node: usize, session: SessionId) {
        let Some(pending) = self.nodes[node].claims.get_mut(&session) else { return };
        if pending.claim.released() {
            self.take(node, session);
        }
    }

    /// Claims a session whose owner was asked for it, unless its client has left meanwhile.
    fn take(&mut self, node: usize, session: SessionId) {
        if self.nodes[node].claims.get(&session).is_some_and(|pending| pending.connection.is_some()) {
            self.step_claim(node, session);
        } else {
            self.nodes[node].claims.remove(&session);
        }
    }

    pub(super) fn on_asked(&mut self, node: usize, session: SessionId, by: NodeId) {
        // This node's claim may have been granted already. It serves the session if the reply arrives in time.
        if self.nodes[node].claims.contains_key(&session) {
            return;
        }
        let Some(state) = self.nodes[node].sessions.get_mut(&session) else {
            return self.answer_ask(by, session);
        };
        state.asked_by.push(by);
        state.ownership.release();
        self.advance(node, session);
    }

    pub(super) fn on_acknowledge(
        &mut self,
        node: usize,
        session: SessionId,
        connection: ConnectionId,
        up_to: u64,
    ) {
        let Some(state) = self.nodes[node].sessions.get_mut(&session) else { return };
        if state.connection == Some(connection) && state.unsent_batch.is_none() {
            state.journal.acknowledged = up_to;
            // The acknowledgement makes the journal exact again.
            if std::mem::take(&mut state.journal.is_outdated) {
                state.ownership.change();
            }
            self.advance(node, session);
        }
    }

    pub(super) fn on_close(&mut self, node: usize, session: SessionId, connection: ConnectionId) {
        let Some(state) = self.nodes[node].sessions.get_mut(&session) else { return };
        if state.connection == Some(connection) {
            state.ownership.end();
            self.advance(node, session);
        }
    }

    pub(super) fn on_connection_lost(&mut self, node: usize, connection: ConnectionId) {
        let now = self.schedule.now;
        for pending in self.nodes[node].claims.values_mut() {
            pending.connection = pending.connection.filter(|(waiting, _)| *waiting != connection);
        }
        let Some((&session, state)) =
            self.nodes[node].sessions.iter_mut().find(|(_, state)| state.connection == Some(connection))
        else {
            return;
        };
        state.detach(now);
        self.later(WINDOW, node, NodeEvent::Deadline { session });
        self.advance(node, session);
    }

    pub(super) fn on_deadline(&mut self, node: usize, session: SessionId) {
        let now = self.schedule.now;
        let Some(state) = self.nodes[node].sessions.get_mut(&session) else { return };
        match state.deadline {
            Some(deadline) if deadline <= now => {
                state.ownership.end();
                self.advance(node, session);
            }
            Some(deadline) => self.later(deadline - now, node, NodeEvent::Deadline { session }),
            None => {}
        }
    }
}
