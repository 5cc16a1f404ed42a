use encke_base::metrics::LimitUsage;

use super::state::WebhookLimit;
use crate::admin::context::Context;

/// Returns the server-wide limits and their use, for the dashboard and the metrics. Limits whose use could
/// only be determined by examining every session are not included, nor are limits per session, user or
/// address. `descriptors`, the clients' share of the process's file descriptors, is not a setting.
pub(crate) fn limits(context: &Context) -> Vec<LimitUsage<'_>> {
    let (client, bounds) = (&context.client, &context.live.settings.bounds);
    let metrics = &client.metrics;
    let limits = [
        ("limits.max_connections", client.limits.permits.taken(), bounds.max_connections),
        ("descriptors", client.limits.permits.taken(), client.limits.descriptors.max_connections()),
        ("limits.max_handshakes", context.handshakes.open(), bounds.max_handshakes),
        ("limits.max_sessions", client.sessions.table.registry().len(), bounds.max_sessions),
        ("limits.max_channels", client.logs.channels.limited_len(), bounds.max_channels),
        ("limits.max_reminders", client.reminders.len(), bounds.max_reminders),
        ("limits.max_admin_connections", context.admin_connections.open(), bounds.max_admin_connections),
        ("limits.receive_total", client.limits.partial_messages.bytes(), bounds.receive_total),
        ("channel.history_total_bytes", client.logs.channels.bytes(), bounds.history_total_bytes),
        ("backend.max_in_flight", metrics.backend.current_in_flight(), bounds.backend_max_in_flight),
    ];
    let webhooks = bounds.webhooks.iter().map(|webhook| {
        let WebhookLimit { name, key, max_queued } = webhook;
        (&**key, metrics.webhooks.current_queued(name), *max_queued)
    });
    let all = limits.into_iter().chain(webhooks).filter(|(_, _, max)| *max != usize::MAX);
    all.map(|(key, used, max)| LimitUsage { key, used, max }).collect()
}
