//! A simulated backend, which answers the server's hooks: approves most requests, refuses some, and may answer
//! late or fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use encke_server::testing::simulation::{SimulatedResponse, SimulatedTarget};
use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::scenario::{Hooks, MILLI, Scenario, nanos};
use crate::truth::{log_of, name_of};

/// Beginning of the aliases of channels and patterns. The backend replaces an alias by the real name.
const ALIAS: &str = "/alias";

/// Returns a name for which the backend substitutes the name of a log.
pub(crate) fn alias_of(log: usize) -> String {
    format!("{ALIAS}{}", name_of(log))
}

/// The backend, shared with the server.
#[derive(Clone, Debug)]
pub(crate) struct Backend(pub(crate) Arc<Mutex<BackendState>>);

#[derive(Debug)]
pub(crate) struct BackendState {
    rng: SmallRng,
    /// Fraction of the requests that are refused.
    refuses: f64,
    /// Fraction of the requests that fail or are answered late.
    fails: f64,
    timeout: u64,
    /// Channel of each approved publish, by the number of the message.
    approved: BTreeMap<u64, usize>,
    /// Number of failures and late answers not yet counted as faults.
    pub(crate) uncounted: u64,
    /// Cloned for each request that is not answered yet.
    requests: Arc<()>,
}

impl Backend {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut rng = scenario.rng(3);
        let fails = if scenario.faults.allows(Fault::Backend) { rng.random_range(0.0..0.3) } else { 0.0 };
        Self(Arc::new(Mutex::new(BackendState {
            refuses: rng.random_range(0.0..0.3),
            fails,
            rng,
            timeout: nanos(scenario.hook_timeout),
            approved: BTreeMap::new(),
            uncounted: 0,
            requests: Arc::default(),
        })))
    }

    pub(crate) fn target(&self) -> SimulatedTarget {
        let state = Arc::clone(&self.0);
        SimulatedTarget::new(move |path, body| state.lock().respond(path, body))
    }
}

impl BackendState {
    fn respond(&mut self, path: &str, body: &[u8]) -> SimulatedResponse {
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let fails = self.rng.random_bool(self.fails);
        self.uncounted += u64::from(fails);
        let longest = match self.rng.random_range(0..3) {
            0 if fails => 2 * self.timeout,
            0 => self.timeout.min(100 * MILLI),
            _ => 1,
        };
        let content = match self.rng.random_range(0..6) {
            0 if fails => None,
            1 if fails => Some((500, String::new())),
            2 if fails => Some((429, String::new())),
            3 if fails => Some((200, "no JSON".to_owned())),
            // Not an approval.
            4 if fails => Some((200, "{}".to_owned())),
            _ => Some(self.decide(path, &request)),
        };
        SimulatedResponse {
            after: Duration::from_nanos(self.rng.random_range(0..longest)),
            content,
            guard: Box::new(Arc::clone(&self.requests)),
        }
    }

    fn decide(&mut self, path: &str, request: &Value) -> (u16, String) {
        if self.rng.random_bool(self.refuses) {
            let error = json!({ "error": { "code": "no", "message": "refused" } }).to_string();
            return if self.rng.random_bool(0.5) { (200, error) } else { (403, String::new()) };
        }
        let asked = request["channel"].as_str().unwrap_or_default();
        let name = asked.strip_prefix(ALIAS).unwrap_or(asked);
        let mut answer = json!({ "allow": true });
        if name != asked {
            answer["channel"] = json!(name);
        }
        match path {
            "/call" => answer["data"] = request["data"].clone(),
            "/publish" => {
                let approved = request["data"][0].as_u64().zip(log_of(name));
                self.approved.extend(approved);
            }
            _ => {}
        }
        (200, answer.to_string())
    }

    /// Returns whether the message may be published to the channel.
    pub(crate) fn has_approved(&self, number: u64, channel: usize) -> bool {
        self.approved.get(&number) == Some(&channel)
    }

    /// Number of requests that are not answered yet.
    pub(crate) fn unanswered(&self) -> usize {
        Arc::strong_count(&self.requests) - 1
    }

    /// Ends failures and late answers.
    pub(crate) fn end_faults(&mut self) {
        self.fails = 0.0;
    }
}

/// Draws the hooks of a scenario.
pub(crate) fn draw_hooks(rng: &mut SmallRng) -> Hooks {
    let has_backend = rng.random_bool(0.4);
    let mut has = || has_backend && rng.random_bool(0.7);
    Hooks { subscribe: has(), publish: has(), call: has() }
}
