use hyper::StatusCode;
use serde::Serialize;

use crate::admin::Context;
use crate::http::Reply;
use crate::http::reply::json_with;

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// The watchdog: a server whose wheel or workers stand still looks well from outside, but no longer finds dead clients.
pub(crate) fn alive(context: &Context) -> Reply {
    if context.client.timeouts.since_last_turn() > context.timers.watchdog {
        return json_with(StatusCode::SERVICE_UNAVAILABLE, &Health { status: "wheel_stalled" });
    }
    if context.client.timeouts.dispatch_age() > context.timers.watchdog {
        return json_with(StatusCode::SERVICE_UNAVAILABLE, &Health { status: "workers_stalled" });
    }
    json_with(StatusCode::OK, &Health { status: "ok" })
}

/// Whether new clients should be sent here.
pub(crate) fn ready(context: &Context) -> Reply {
    if context.stop.is_cancelled() {
        return json_with(StatusCode::SERVICE_UNAVAILABLE, &Health { status: "draining" });
    }
    alive(context)
}
