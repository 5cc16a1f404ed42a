//! Faults: frozen processes, cuts, crashes, drains and failovers.

use super::{CALM, Event, NodeEvent, World};
use crate::directory::NodeId;
use crate::node::Node;

impl World {
    pub(super) fn fault(&mut self) {
        if self.schedule.now >= CALM {
            return;
        }
        let delay = self.below(15_000);
        self.schedule.after(delay, Event::Fault);
        let node = usize::try_from(self.below(self.nodes.len() as u64)).unwrap_or_default();
        if self.nodes[node].is_frozen || self.nodes[node].is_stopped || self.nodes[node].is_draining {
            return;
        }
        self.counts.faults += 1;
        // Every fault ends by `CALM`.
        let rest = CALM - self.schedule.now;
        match self.below(7) {
            0 | 1 => {
                let length = [2_000, 15_000, 60_000][usize::try_from(self.below(3)).unwrap_or_default()];
                let length = self.below(length).min(rest);
                self.nodes[node].is_frozen = true;
                self.nodes[node].frozen_for += length;
                let process = self.nodes[node].id;
                self.schedule.after(length, Event::Thaw { node, process });
                self.drop_clients_of(node, 20_000);
            }
            2 => {
                let length = self.below(60_000).min(rest);
                self.nodes[node].is_cut = true;
                self.schedule.after(length, Event::Heal { node });
            }
            3 => {
                self.may_lose_sessions = true;
                self.stop(node);
            }
            4 => {
                self.nodes[node].is_draining = true;
                for state in self.nodes[node].sessions.values_mut() {
                    state.ownership.release();
                }
                self.advance_all(node);
            }
            5 => self.directory.lose_leases(),
            _ => {
                self.may_lose_sessions = true;
                self.directory.fail_over();
            }
        }
    }

    /// Stops a draining node once it has released everything.
    pub(super) fn finish_drain(&mut self, node: usize) {
        let state = &self.nodes[node];
        if state.is_draining && state.sessions.is_empty() && state.claims.is_empty() {
            self.directory.give_up_lease(state.id);
            self.stop(node);
        }
    }

    fn stop(&mut self, node: usize) {
        self.drop_clients_of(node, 50);
        let last = NodeId(u32::try_from(self.next_number()).unwrap_or(u32::MAX));
        self.nodes[node] = Node { is_stopped: true, ..Node::new(last, 0) };
        let delay = 100 + self.below(20_000);
        self.schedule.after(delay, Event::Restart { node });
    }

    pub(super) fn start_node(&mut self, node: usize) {
        let id = NodeId(u32::try_from(self.next_number()).unwrap_or(u32::MAX));
        let state = Node::new(id, self.directory.generation());
        if node < self.nodes.len() {
            self.nodes[node] = state;
        } else {
            self.nodes.push(state);
        }
        self.later(0, node, NodeEvent::Tick);
    }

    pub(super) fn thaw(&mut self, node: usize, process: NodeId) {
        if self.nodes[node].id != process {
            return;
        }
        self.nodes[node].is_frozen = false;
        for event in std::mem::take(&mut self.nodes[node].waiting) {
            self.on_node(node, process, event);
        }
        self.advance_all(node);
    }

    /// Makes the clients of a node notice within `within` that it does not respond.
    fn drop_clients_of(&mut self, node: usize, within: u64) {
        let process = self.nodes[node].id;
        for client in 0..self.clients.len() {
            if self.clients[client].node == Some(process) {
                let delay = 1 + self.below(within);
                self.schedule.after(delay, Event::ClientTurn { client });
            }
        }
    }
}
