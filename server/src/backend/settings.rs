use std::time::Duration;

use encke_base::outbound::{Secret, Target, Trust};
use hyper::header::HeaderName;

use super::hook::HookKind;

/// Settings in the `[backend]` section.
#[derive(Clone, Debug)]
pub(crate) struct BackendSettings {
    /// URL of each hook. A hook without a URL is not called.
    pub(crate) targets: Vec<(HookKind, Target)>,
    /// The client's headers and cookies that are passed to the `connect` hook.
    pub(crate) headers: Vec<HeaderName>,
    pub(crate) cookies: Vec<String>,
    /// Certificate authorities trusted for the backend.
    pub(crate) trust: Trust,
    /// Key that signs requests.
    pub(crate) secret: Option<Secret>,
    /// Time limit for a response.
    pub(crate) timeout: Duration,
    /// Maximum number of requests in flight.
    pub(crate) max_in_flight: usize,
    /// Maximum number of requests in flight for one session.
    pub(crate) max_in_flight_per_session: usize,
}

impl BackendSettings {
    /// Returns whether the backend authenticates clients, through the `connect` hook.
    pub(crate) fn authenticates_clients(&self) -> bool {
        self.targets.iter().any(|(hook, _)| *hook == HookKind::Connect)
    }
}
