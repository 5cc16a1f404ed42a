use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LimitLabels {
    limit: String,
}

/// A bound, and how much of it is in use.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Limit<'a> {
    /// The setting.
    pub(crate) key: &'a str,
    pub(crate) used: usize,
    pub(crate) max: usize,
}

/// What is near its bound. Limits that are set to "none" are not shown.
#[derive(Debug, Default)]
pub(crate) struct LimitMetrics {
    pub(super) used: Family<LimitLabels, Gauge>,
    pub(super) max: Family<LimitLabels, Gauge>,
}

impl LimitMetrics {
    pub(super) fn set(&self, limits: &[Limit<'_>]) {
        for Limit { key, used, max } in limits {
            let labels = LimitLabels { limit: (*key).to_owned() };
            self.used.get_or_create(&labels).set(super::as_gauge(*used));
            self.max.get_or_create(&labels).set(super::as_gauge(*max));
        }
    }
}
