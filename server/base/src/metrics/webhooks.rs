use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::gauge::as_gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WebhookLabels {
    webhook: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    webhook: String,
    outcome: &'static str,
}

/// Metrics of all webhooks.
#[derive(Debug, Default)]
pub struct WebhookMetrics {
    pub(super) queued: Family<WebhookLabels, Gauge>,
    pub(super) events: Family<OutcomeLabels, Counter>,
    pub(super) requests: Family<OutcomeLabels, Counter>,
}

/// Counters of one webhook.
#[derive(Debug)]
pub struct WebhookCounters {
    queued: Gauge,
    delivered: Counter,
    overflowed: Counter,
    expired: Counter,
    accepted: Counter,
    failed: Counter,
}

impl WebhookMetrics {
    /// Returns the number of events queued for a webhook or being sent.
    pub fn current_queued(&self, webhook: &str) -> usize {
        let queued = self.queued.get_or_create(&WebhookLabels { webhook: webhook.to_owned() }).get();
        queued.try_into().unwrap_or_default()
    }

    /// Creates the counters of a webhook, all at zero.
    pub fn counters_for(&self, webhook: &str) -> WebhookCounters {
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
    /// Counts an event that was queued.
    pub fn queued(&self) {
        self.queued.inc();
    }

    /// Counts events that left the queue.
    pub fn dequeued(&self, events: usize) {
        self.queued.dec_by(as_gauge(events));
    }

    /// Counts an event that was dropped because the queue was full.
    pub fn overflowed(&self) {
        self.overflowed.inc();
    }

    /// Counts events that the backend accepted.
    pub fn delivered(&self, events: usize) {
        self.delivered.inc_by(events as u64);
    }

    /// Counts events that were dropped after `retry_for`.
    pub fn expired(&self, events: usize) {
        self.expired.inc_by(events as u64);
    }

    /// Counts a request, which was accepted or failed.
    pub fn requested(&self, accepted: bool) {
        if accepted { &self.accepted } else { &self.failed }.inc();
    }
}
