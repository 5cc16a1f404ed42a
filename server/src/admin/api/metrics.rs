use hyper::StatusCode;

use crate::admin::{Context, live};
use crate::http::{Reply, reply};

/// `GET /metrics`
pub(super) fn show(context: &Context) -> Reply {
    let text = context.client.metrics.encode(&context.readings(), &live::limits(context));
    reply::with(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
}
