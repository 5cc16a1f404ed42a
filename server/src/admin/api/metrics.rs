use hyper::StatusCode;

use crate::admin::Context;
use crate::http::{Reply, reply};

/// `GET /metrics`
pub(super) fn show(context: &Context) -> Reply {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    reply::with(StatusCode::OK, content_type, context.metrics_text())
}
