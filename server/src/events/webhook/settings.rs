use std::sync::Arc;
use std::time::Duration;

use super::EventName;
use crate::outbound::{Secret, Target, Trust};

/// One `[[webhook]]`.
#[derive(Clone, Debug)]
pub(crate) struct WebhookSettings {
    /// In logs and metrics.
    pub(crate) name: Arc<str>,
    /// Where it is told.
    pub(crate) target: Target,
    /// Whose certificates count there.
    pub(crate) trust: Trust,
    /// Of what.
    pub(crate) events: Vec<EventName>,
    /// What requests are signed with.
    pub(crate) secret: Secret,
    /// How long an answer may take.
    pub(crate) timeout: Duration,
    /// How long a request is repeated that was not accepted.
    pub(crate) retry_for: Duration,
    /// Events that may wait, those on their way included.
    pub(crate) max_queued: usize,
}
