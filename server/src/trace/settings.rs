use hyper::HeaderMap;

use crate::outbound::{Target, Trust};

/// Settings of the trace export.
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only the exporter reads them"))]
#[derive(Clone, Debug)]
pub(crate) struct TraceSettings {
    /// The collector's URL for traces.
    pub(crate) target: Target,
    pub(crate) trust: Trust,
    /// Headers added to each request. Their values are never shown.
    pub(crate) headers: HeaderMap,
    /// Fraction of the requests without a sampling decision that are traced, from 0 to 1.
    pub(crate) sample: f64,
}
