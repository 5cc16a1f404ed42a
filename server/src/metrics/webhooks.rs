use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WebhookLabels {
    webhook: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    webhook: String,
    outcome: &'static str,
}

/// Webhooks, and how they do.
#[derive(Debug, Default)]
pub(crate) struct WebhookMetrics {
    pub(super) queued: Family<WebhookLabels, Gauge>,
    pub(super) events: Family<OutcomeLabels, Counter>,
    pub(super) requests: Family<OutcomeLabels, Counter>,
}

/// Those of one webhook.
#[derive(Debug)]
pub(crate) struct WebhookCounters {
    queued: Gauge,
    delivered: Counter,
    overflowed: Counter,
    expired: Counter,
    accepted: Counter,
    failed: Counter,
}

impl WebhookMetrics {
    /// How many events wait for this webhook or are on their way.
    pub(crate) fn queued_now(&self, webhook: &str) -> usize {
        let queued = self.queued.get_or_create(&WebhookLabels { webhook: webhook.to_owned() }).get();
        queued.try_into().unwrap_or_default()
    }

    /// All at zero.
    pub(crate) fn of(&self, webhook: &str) -> WebhookCounters {
        let counter = |family: &Family<OutcomeLabels, Counter>, outcome| {
            family.get_or_create(&OutcomeLabels { webhook: webhook.to_owned(), outcome }).clone()
        };
        WebhookCounters {
            queued: self.queued.get_or_create(&WebhookLabels { webhook: webhook.to_owned() }).clone(),
            delivered: counter(&self.events, "delivered"),
            overflowed: counter(&self.events, "overflowed"),
            expired: counter(&self.events, "expired"),
            accepted: counter(&self.requests, "accepted"),
            failed: counter(&self.requests, "failed"),
        }
    }
}

impl WebhookCounters {
    /// One more event waits.
    pub(crate) fn queued(&self) {
        self.queued.inc();
    }

    /// So many neither wait nor are on their way.
    pub(crate) fn no_longer_queued(&self, events: usize) {
        self.queued.dec_by(super::as_gauge(events));
    }

    /// An event found no room.
    pub(crate) fn overflowed(&self) {
        self.overflowed.inc();
    }

    /// The backend has so many.
    pub(crate) fn delivered(&self, events: usize) {
        self.delivered.inc_by(events as u64);
    }

    /// So many were tried for too long.
    pub(crate) fn expired(&self, events: usize) {
        self.expired.inc_by(events as u64);
    }

    /// A request was accepted, or not.
    pub(crate) fn requested(&self, accepted: bool) {
        if accepted { &self.accepted } else { &self.failed }.inc();
    }
}
