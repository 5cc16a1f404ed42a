use std::sync::Arc;

use encke_timeouts::clock::UnixTime;

use super::feed::Feed;

/// The samples, and the settings that viewers receive.
#[derive(Debug)]
pub(crate) struct Live {
    pub(super) feed: Feed,
    pub(crate) settings: LiveSettings,
}

/// Settings that do not change while the server runs.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    pub(crate) started_at: UnixTime,
    pub(crate) bounds: LimitSettings,
}

/// The configured limits. [`usize::MAX`] means unlimited.
#[derive(Debug)]
pub(crate) struct LimitSettings {
    pub(crate) max_connections: usize,
    pub(crate) max_handshakes: usize,
    pub(crate) max_sessions: usize,
    pub(crate) max_channels: usize,
    pub(crate) max_reminders: usize,
    pub(crate) max_admin_connections: usize,
    pub(crate) receive_total: usize,
    pub(crate) history_total_bytes: usize,
    pub(crate) backend_max_in_flight: usize,
    pub(crate) webhooks: Vec<WebhookLimit>,
}

/// Limit of a webhook's queue.
#[derive(Debug)]
pub(crate) struct WebhookLimit {
    pub(crate) name: Arc<str>,
    /// Configuration key, with the webhook's name instead of its index, as in other metrics.
    pub(crate) key: String,
    pub(crate) max_queued: usize,
}

impl Live {
    /// Creates a feed without samples.
    pub(crate) fn new(settings: LiveSettings) -> Self {
        Self { feed: Feed::default(), settings }
    }
}
