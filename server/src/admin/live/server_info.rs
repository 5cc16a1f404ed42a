use std::time::Duration;

use serde_json::{Value, json};

use super::state::LiveSettings;
use crate::admin::context::Context;
use crate::auth::{Operator, Scope};

/// Describes the server to this operator. This is the first event that a viewer receives.
pub(super) fn server_info(operator: &Operator, context: &Context) -> Value {
    let LiveSettings { started_at, bounds } = &context.live.settings;
    let scopes = [Scope::Read, Scope::Publish, Scope::Sessions].into_iter();
    let timeouts = context.client.sessions.lifecycle.settings();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started_at_ms": started_at.as_millis(),
        "public_url": context.public.url.as_ref().map(|url| url.as_str()),
        "public_port": context.public.port,
        "public_tls": context.public.has_tls,
        "scopes": scopes.filter(|scope| operator.may(*scope)).map(|scope| scope.to_string()).collect::<Vec<_>>(),
        "webhooks": bounds.webhooks.iter().map(|webhook| &*webhook.name).collect::<Vec<_>>(),
        "engine": if context.client.engine_health.is_some() { "redis" } else { "memory" },
        "timeouts": {
            "ping_interval_ms": millis(timeouts.ping_interval),
            "pong_timeout_ms": millis(timeouts.pong_timeout),
            "poll_hold_ms": millis(timeouts.poll_hold),
            "poll_gap_ms": millis(timeouts.poll_gap),
            "reconnect_window_ms": millis(timeouts.reconnect_window),
            "idle_ms": timeouts.idle.map(millis),
            "lifetime_ms": timeouts.lifetime.map(millis),
        },
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
