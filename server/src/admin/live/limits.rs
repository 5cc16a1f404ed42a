use std::sync::Arc;

use crate::admin::Context;
use crate::metrics::Limit;

/// The bounds of the configuration; [`usize::MAX`] is none.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) max_connections: usize,
    pub(crate) max_handshakes: usize,
    pub(crate) max_sessions: usize,
    pub(crate) max_channels: usize,
    pub(crate) max_reminders: usize,
    pub(crate) max_admin_connections: usize,
    pub(crate) receive_total: usize,
    pub(crate) history_total_bytes: usize,
    pub(crate) backend_max_in_flight: usize,
    pub(crate) webhooks: Vec<WebhookBound>,
}

/// What may wait for one webhook.
#[derive(Debug)]
pub(crate) struct WebhookBound {
    pub(crate) name: Arc<str>,
    /// As in the configuration, with its name, by which the other metrics have it, too.
    pub(crate) key: String,
    pub(crate) max_queued: usize,
}

/// Every limit of the whole server that is set and can be counted without looking at every session: for the dashboard and for the metrics. Those of
/// one session, one user or one address are not here. `descriptors` are what connections may have of the process's, which is no setting of ours.
pub(crate) fn limits(context: &Context) -> Vec<Limit<'_>> {
    let (client, bounds) = (&context.client, &context.live.settings.bounds);
    let metrics = &client.metrics;
    let limits = [
        ("limits.max_connections", client.permits.taken(), bounds.max_connections),
        ("descriptors", client.permits.taken(), client.descriptors.connections()),
        ("limits.max_handshakes", context.handshakes.open(), bounds.max_handshakes),
        ("limits.max_sessions", client.sessions.registry().len(), bounds.max_sessions),
        ("limits.max_channels", client.logs.channels.counted(), bounds.max_channels),
        ("limits.max_reminders", client.reminders.len(), bounds.max_reminders),
        ("limits.max_admin_connections", context.sockets.open(), bounds.max_admin_connections),
        ("limits.receive_total", client.unfinished.bytes(), bounds.receive_total),
        ("channel.history_total_bytes", client.logs.channels.bytes(), bounds.history_total_bytes),
        ("backend.max_in_flight", metrics.backend.in_flight_now(), bounds.backend_max_in_flight),
    ];
    let webhooks = bounds.webhooks.iter().map(|webhook| {
        let WebhookBound { name, key, max_queued } = webhook;
        (&**key, metrics.webhooks.queued_now(name), *max_queued)
    });
    let all = limits.into_iter().chain(webhooks).filter(|(_, _, max)| *max != usize::MAX);
    all.map(|(key, used, max)| Limit { key, used, max }).collect()
}
