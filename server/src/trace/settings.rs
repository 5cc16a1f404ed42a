use hyper::HeaderMap;

use crate::outbound::{Target, Trust};

/// Where traces go, and which.
#[derive(Clone, Debug)]
pub(crate) struct TraceSettings {
    /// The collector's URL for traces.
    pub(crate) target: Target,
    pub(crate) trust: Trust,
    /// What each request has besides. None of the values shows.
    pub(crate) headers: HeaderMap,
    /// Of the requests that bring no decision with them, so many are traced: from 0 to 1.
    pub(crate) sample: f64,
}
