use std::sync::Arc;
use std::time::Duration;

use encke_base::outbound::{Secret, Target, Trust};

use super::EventName;

/// Settings in a `[[webhook]]` section.
#[derive(Clone, Debug)]
pub(crate) struct WebhookSettings {
    /// Name in logs and metrics.
    pub(crate) name: Arc<str>,
    pub(crate) target: Target,
    /// Certificate authorities trusted for the target.
    pub(crate) trust: Trust,
    pub(crate) events: Vec<EventName>,
    /// Key that signs requests.
    pub(crate) secret: Secret,
    /// Time limit for a response.
    pub(crate) timeout: Duration,
    /// How long a failed request is retried.
    pub(crate) retry_for: Duration,
    /// Maximum number of events that are queued or in flight.
    pub(crate) max_queued: usize,
}
