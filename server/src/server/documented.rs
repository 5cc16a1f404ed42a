//! Codes and metrics for the documents that encke-docs generates. Not part of the API.

use std::sync::Arc;

use encke_base::entropy::Entropy;
use encke_base::executor::NoTasks;
use encke_base::metrics::Metrics;
use encke_broker::engine::LogEngine;
use encke_timeouts::Timeouts;
use encke_timeouts::clock::Clock;
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::events::{HookSink, NoHooks, Sinks, Webhooks};
use crate::server::assembly;

pub use crate::admin::HealthStatus;
pub use crate::admission::RefusalReason;
pub use crate::events::EventName;
pub use crate::http::ApiErrorCode;

/// Settings that enable everything that is off, empty or unlimited by default.
const ALL_FEATURES: [&str; 8] = [
    "limits.max_connections=1",
    "auth.jwks=http://127.0.0.1/keys",
    "backend.connect=http://127.0.0.1/",
    "backend.subscribe=http://127.0.0.1/",
    "backend.publish=http://127.0.0.1/",
    "backend.call=http://127.0.0.1/",
    "namespace=[{ prefix = \"a\", join_leave = true }]",
    "webhook=[{ url = \"http://127.0.0.1/\", events = [\"session.opened\"], secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\", name = \"NAME\" }]",
];

/// Returns the `/metrics` of a server with every feature enabled and no clients.
#[must_use]
pub fn metrics_text() -> String {
    let settings = Settings { flags: ALL_FEATURES.map(str::to_owned).into(), ..Settings::default() };
    let mut config = settings.resolve().expect("these settings are valid: a test resolves them");
    config.fit_descriptors(1024);
    let clock = Arc::new(Clock::new(config.timers.stall_threshold));
    let (timeouts, _) = Timeouts::new(clock, config.timers.ping_slack, config.limits.session_slots());
    let (entropy, metrics) = (Entropy::system(), Arc::new(Metrics::new()));
    let webhooks = Webhooks::new(&config.webhooks, &timeouts, &entropy, &metrics);
    let sinks = Sinks::combine(HookSink(Box::new(NoHooks)), webhooks.as_ref(), metrics);
    let engine = |memory| -> Arc<dyn LogEngine<_>> { Arc::new(memory) };
    let client = assembly::client_services_on(&config, timeouts, entropy, Arc::new(NoTasks), sinks, engine);
    let public = assembly::public(&config, Arc::new(client), CancellationToken::new());
    let (_, batches) = crossbeam_channel::bounded(1);
    crate::admin::metrics_text(&assembly::admin(&config, &public, 8000, batches, Box::new(|| 0)))
}
