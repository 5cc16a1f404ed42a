//! Clients that return from another server, which has the same channels in Redis.

use encke_server::testing::simulation::event_id_key;
use rand::RngExt;

use super::event_id::position_in;
use crate::fault::Fault;
use crate::schedule::ClientNumber;
use crate::truth::name_of;
use crate::world::Simulation;

/// Resume token of a session on another server.
const FOREIGN_TOKEN: &str = "s_AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA";

impl Simulation {
    /// Lets a client return from another server, where it has received everything up to newer positions. This
    /// server may not have received these messages from Redis yet.
    pub(super) fn roam(&mut self, number: ClientNumber) {
        if self.clients[number].bayeux.is_some() || !self.injects(Fault::Roam, 0.2) {
            return;
        }
        self.trace.log(self.now, format_args!("client {number} returns from another server"));
        let stream = self.clients[number].model.as_ref().and_then(|model| model.stream.clone());
        self.clients[number].forget_session();
        for log in 0..self.scenario.channels {
            self.publish_elsewhere(log);
            let before = self.clients[number].past[log].clone();
            self.clients[number].past[log] = self.newer_position(log, before);
        }
        let (logs, id) = stream.unwrap_or_else(|| (self.logs_of_url(None), String::new()));
        let mut positions = Vec::new();
        for &log in &logs {
            let before = position_in(&id, log).map(|(epoch, offset)| (epoch.to_owned(), offset));
            if let Some((epoch, offset)) = self.newer_position(log, before) {
                positions.push(format!("{}:{epoch}:{offset}", event_id_key(name_of(log))));
            }
        }
        let id = format!("{FOREIGN_TOKEN}:1;{}.", positions.join(","));
        self.clients[number].roaming_stream = Some((logs, id));
    }

    /// Publishes messages that this server has not received yet.
    fn publish_elsewhere(&mut self, log: usize) {
        for _ in 0..self.rng.random_range(0..3) {
            let text = self.next_text();
            if let Some(redis) = self.redis().filter(|redis| !redis.lock().is_down) {
                redis.lock().publish_unnoticed(name_of(log), &text);
            }
        }
        self.record_published(log);
    }

    /// Returns a later position in a log of Redis, or the same one.
    fn newer_position(&mut self, log: usize, before: Option<(String, u64)>) -> Option<(String, u64)> {
        let state = self.redis().and_then(|redis| redis.lock().state_of(name_of(log)));
        let Some((epoch, last)) = state else { return before };
        let first = match before {
            Some((of, offset)) if of == epoch => offset.min(last),
            _ => 0,
        };
        let offset = if self.rng.random_bool(0.7) { last } else { self.rng.random_range(first..=last) };
        Some((epoch, offset))
    }
}
