use std::time::Duration;

use super::Ask;
use crate::outbound::{Secret, Target, Trust};

/// `[backend]`.
#[derive(Clone, Debug)]
pub(crate) struct BackendSettings {
    /// Where it is asked what. What is not here is not asked.
    pub(crate) targets: Vec<(Ask, Target)>,
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
