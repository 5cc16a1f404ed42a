use std::time::Duration;

use encke_timeouts::Stalled;
use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::admin::context::Context;
use crate::client::StalledComponent;
use crate::http::Reply;
use crate::http::reply::json_with;

/// How long the engine may be unreachable before `/readyz` reports it. A restart of the engine should not
/// make load balancers send clients to another server.
const ENGINE_DOWN_AFTER: Duration = Duration::from_secs(2);

/// Health of the server. The documentation of the variants is part of the reference.
#[derive(Clone, Copy, Debug, Serialize, EnumMessage, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum HealthStatus {
    /// The server is healthy.
    Ok,
    /// The timer wheel has not advanced for `timers.watchdog`, so no timeout fires.
    WheelStalled,
    /// An expired timer has been waiting for a worker for `timers.watchdog`.
    WorkersStalled,
    /// The thread that polls parked connections has been handling the same events for `timers.watchdog`.
    PollerStalled,
    /// The server is shutting down (only from `/readyz`).
    Draining,
    /// The engine has been unreachable for two seconds (only from `/readyz`).
    EngineDown,
    /// The engine has run out of memory and accepts no messages (only from `/readyz`).
    EngineFull,
}

impl HealthStatus {
    /// Returns the HTTP status of the response.
    #[must_use]
    pub const fn code(self) -> StatusCode {
        match self {
            Self::Ok => StatusCode::OK,
            Self::WheelStalled
            | Self::WorkersStalled
            | Self::PollerStalled
            | Self::Draining
            | Self::EngineDown
            | Self::EngineFull => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn reply(self) -> Reply {
        json_with(self.code(), &json!({ "status": self }))
    }
}

/// Returns whether timeouts fire and parked connections are polled.
pub(crate) fn alive(context: &Context) -> Reply {
    let status = match context.client.health(context.timers.watchdog) {
        Ok(()) => HealthStatus::Ok,
        Err(StalledComponent::Timeouts(Stalled::Wheel)) => HealthStatus::WheelStalled,
        Err(StalledComponent::Timeouts(Stalled::Workers)) => HealthStatus::WorkersStalled,
        Err(StalledComponent::Parking) => HealthStatus::PollerStalled,
    };
    status.reply()
}

/// Returns whether the server should receive new clients.
pub(crate) fn ready(context: &Context) -> Reply {
    if context.stop.is_cancelled() {
        return HealthStatus::Draining.reply();
    }
    if let Some(engine) = &context.client.engine_health {
        if engine.is_down_for(ENGINE_DOWN_AFTER) {
            return HealthStatus::EngineDown.reply();
        }
        if engine.is_full() {
            return HealthStatus::EngineFull.reply();
        }
    }
    alive(context)
}
