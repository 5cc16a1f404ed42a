use hyper::StatusCode;
use serde::Serialize;

use crate::http::Reply;
use crate::http::reply::json_with;
use crate::server::Shared;

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// The watchdog: a server whose wheel stands still looks well from outside, but no longer finds dead clients.
pub(crate) fn alive(shared: &Shared) -> Reply {
    if shared.timeouts.since_last_turn() > shared.config.timers.watchdog {
        return json_with(StatusCode::SERVICE_UNAVAILABLE, &Health { status: "wheel_stalled" });
    }
    json_with(StatusCode::OK, &Health { status: "ok" })
}

/// Whether new clients should be sent here.
pub(crate) fn ready(shared: &Shared) -> Reply {
    if shared.stop_accepting.is_set() {
        return json_with(StatusCode::SERVICE_UNAVAILABLE, &Health { status: "draining" });
    }
    alive(shared)
}
