use hyper::StatusCode;

use crate::http::{Reply, reply};
use crate::server::Shared;

/// `GET /metrics`
pub(super) fn show(shared: &Shared) -> Reply {
    let text = shared.metrics.encode(&shared.readings());
    reply::with(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
}
