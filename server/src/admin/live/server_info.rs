use std::time::Duration;

use encke_core::session::SessionTimeouts;
use serde::Serialize;

use super::state::LiveSettings;
use crate::admin::context::Context;
use crate::auth::{Operator, Scope};

/// Description of the server, which is the first event that a viewer receives.
#[derive(Serialize)]
pub(super) struct ServerInfo<'a> {
    version: &'static str,
    started_at_ms: u64,
    public_url: Option<&'a str>,
    public_port: u16,
    /// Whether the public listener uses TLS.
    public_tls: bool,
    /// Scopes of the viewer's API key.
    scopes: Vec<String>,
    webhooks: Vec<&'a str>,
    engine: &'static str,
    timeouts: TimeoutSettings,
}

#[derive(Serialize)]
struct TimeoutSettings {
    ping_interval_ms: u64,
    pong_timeout_ms: u64,
    poll_hold_ms: u64,
    poll_gap_ms: u64,
    reconnect_window_ms: u64,
    idle_ms: Option<u64>,
    lifetime_ms: Option<u64>,
}

impl<'a> ServerInfo<'a> {
    pub(super) fn to(operator: &Operator, context: &'a Context) -> Self {
        let LiveSettings { started_at, bounds } = &context.live.settings;
        let scopes = [Scope::Read, Scope::Publish, Scope::Sessions].into_iter();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started_at_ms: started_at.as_millis(),
            public_url: context.public.url.as_ref().map(|url| url.as_str()),
            public_port: context.public.port,
            public_tls: context.public.has_tls,
            scopes: scopes.filter(|scope| operator.may(*scope)).map(|scope| scope.to_string()).collect(),
            webhooks: bounds.webhooks.iter().map(|webhook| &*webhook.name).collect(),
            engine: if context.client.engine_health.is_some() { "redis" } else { "memory" },
            timeouts: TimeoutSettings::from(context.client.sessions.lifecycle.settings()),
        }
    }
}

impl From<&SessionTimeouts> for TimeoutSettings {
    fn from(timeouts: &SessionTimeouts) -> Self {
        Self {
            ping_interval_ms: millis(timeouts.ping_interval),
            pong_timeout_ms: millis(timeouts.pong_timeout),
            poll_hold_ms: millis(timeouts.poll_hold),
            poll_gap_ms: millis(timeouts.poll_gap),
            reconnect_window_ms: millis(timeouts.reconnect_window),
            idle_ms: timeouts.idle.map(millis),
            lifetime_ms: timeouts.lifetime.map(millis),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
