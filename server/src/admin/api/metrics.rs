use hyper::StatusCode;

use crate::admin::context::Context;
use crate::admin::live::limits;
use crate::http::{Reply, reply};

/// `GET /metrics`
pub(super) fn show(context: &Context) -> Reply {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    reply::with(StatusCode::OK, content_type, metrics_text(context))
}

/// Returns all metrics in the text format of Prometheus.
pub(crate) fn metrics_text(context: &Context) -> String {
    context.client.metrics.encode(&context.readings(), &limits(context))
}
