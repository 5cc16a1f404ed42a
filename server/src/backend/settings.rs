use std::time::Duration;

use hyper::header::HeaderName;

use super::Ask;
use crate::outbound::{Secret, Target, Trust};

/// `[backend]`.
#[derive(Clone, Debug)]
pub(crate) struct BackendSettings {
    /// Where it is asked what. What is not here is not asked.
    pub(crate) targets: Vec<(Ask, Target)>,
    /// The client's headers and cookies that are passed on when it connects.
    pub(crate) headers: Vec<HeaderName>,
    pub(crate) cookies: Vec<String>,
    /// Whose certificates count there.
    pub(crate) trust: Trust,
    /// What questions are signed with.
    pub(crate) secret: Option<Secret>,
    /// How long an answer may take.
    pub(crate) timeout: Duration,
    /// Questions under way.
    pub(crate) max_in_flight: usize,
    /// Those of one session.
    pub(crate) max_in_flight_per_session: usize,
}

impl BackendSettings {
    /// Whether it says who clients are.
    pub(crate) fn decides_who_comes(&self) -> bool {
        self.targets.iter().any(|(ask, _)| *ask == Ask::Connect)
    }
}
