use hyper::HeaderMap;

use crate::outbound::{Target, Trust};

/// Settings of the trace export.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// The collector's URL for traces.
    pub target: Target,
    pub trust: Trust,
    /// Headers added to each request. Their values are never shown.
    pub headers: HeaderMap,
    /// Fraction of the requests without a sampling decision that are traced, from 0 to 1.
    pub sample: f64,
}
