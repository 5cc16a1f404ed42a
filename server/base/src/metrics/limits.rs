use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::gauge::as_gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LimitLabels {
    limit: String,
}

/// A limit and its current use.
#[derive(Debug, serde::Serialize)]
pub struct LimitUsage<'a> {
    /// Configuration key of the limit.
    pub key: &'a str,
    pub used: usize,
    pub max: usize,
}

/// Metrics of limits and their use. Limits that are disabled are not exported.
#[derive(Debug, Default)]
pub(super) struct LimitMetrics {
    pub(super) used: Family<LimitLabels, Gauge>,
    pub(super) max: Family<LimitLabels, Gauge>,
}

impl LimitMetrics {
    pub(super) fn set(&self, limits: &[LimitUsage<'_>]) {
        for LimitUsage { key, used, max } in limits {
            let labels = LimitLabels { limit: (*key).to_owned() };
            self.used.get_or_create(&labels).set(as_gauge(*used));
            self.max.get_or_create(&labels).set(as_gauge(*max));
        }
    }
}
