use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;

use crate::admin::Context;
use crate::client::Stalled;
use crate::http::Reply;
use crate::http::reply::json_with;
use crate::timeouts;

/// How long an engine may be out of reach: its clients need not go elsewhere when it is started again.
const ENGINE_DOWN: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// Whether timeouts pass, and those at rest are heard.
pub(crate) fn alive(context: &Context) -> Reply {
    let (code, status) = match context.client.health(context.timers.watchdog) {
        Ok(()) => (StatusCode::OK, "ok"),
        Err(Stalled::Timeouts(timeouts::Stalled::Wheel)) => {
            (StatusCode::SERVICE_UNAVAILABLE, "wheel_stalled")
        }
        Err(Stalled::Timeouts(timeouts::Stalled::Workers)) => {
            (StatusCode::SERVICE_UNAVAILABLE, "workers_stalled")
        }
        Err(Stalled::Rest) => (StatusCode::SERVICE_UNAVAILABLE, "rest_stalled"),
    };
    json_with(code, &Health { status })
}

/// Whether new clients should be sent here.
pub(crate) fn ready(context: &Context) -> Reply {
    if context.stop.is_cancelled() {
        return json_with(StatusCode::SERVICE_UNAVAILABLE, &Health { status: "draining" });
    }
    if context.client.engine_health.as_ref().is_some_and(|engine| engine.is_down_for(ENGINE_DOWN)) {
        return json_with(StatusCode::SERVICE_UNAVAILABLE, &Health { status: "engine_down" });
    }
    alive(context)
}
