use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::admin::Context;
use crate::client::Stalled;
use crate::http::Reply;
use crate::http::reply::json_with;
use crate::timeouts;

/// How long an engine may be out of reach: its clients need not go elsewhere when it is started again.
const ENGINE_DOWN: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Health {
    status: HealthStatus,
}

/// How the server is. The comments stand in the README's reference.
#[derive(Clone, Copy, Debug, Serialize, EnumMessage, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(crate) enum HealthStatus {
    /// All is well.
    Ok,
    /// The wheel has not turned for `timers.watchdog`: no timeout passes.
    WheelStalled,
    /// An expiry has waited for a worker for `timers.watchdog`.
    WorkersStalled,
    /// The thread of connections at rest has been at one thing for `timers.watchdog`.
    RestStalled,
    /// Of `/readyz` alone: the server is going away.
    Draining,
    /// Of `/readyz` alone: the engine has been out of reach for two seconds.
    EngineDown,
}

impl HealthStatus {
    /// The status of the answer.
    pub(crate) const fn code(self) -> StatusCode {
        match self {
            Self::Ok => StatusCode::OK,
            Self::WheelStalled
            | Self::WorkersStalled
            | Self::RestStalled
            | Self::Draining
            | Self::EngineDown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn reply(self) -> Reply {
        json_with(self.code(), &Health { status: self })
    }
}

/// Whether timeouts pass, and those at rest are heard.
pub(crate) fn alive(context: &Context) -> Reply {
    let status = match context.client.health(context.timers.watchdog) {
        Ok(()) => HealthStatus::Ok,
        Err(Stalled::Timeouts(timeouts::Stalled::Wheel)) => HealthStatus::WheelStalled,
        Err(Stalled::Timeouts(timeouts::Stalled::Workers)) => HealthStatus::WorkersStalled,
        Err(Stalled::Rest) => HealthStatus::RestStalled,
    };
    status.reply()
}

/// Whether new clients should be sent here.
pub(crate) fn ready(context: &Context) -> Reply {
    if context.stop.is_cancelled() {
        return HealthStatus::Draining.reply();
    }
    if context.client.engine_health.as_ref().is_some_and(|engine| engine.is_down_for(ENGINE_DOWN)) {
        return HealthStatus::EngineDown.reply();
    }
    alive(context)
}
