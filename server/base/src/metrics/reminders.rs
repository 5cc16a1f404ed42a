use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReminderLabels {
    outcome: &'static str,
}

/// Metrics of reminders, and of the outcomes of due reminders.
#[derive(Debug)]
pub struct ReminderMetrics {
    pub(super) waiting: Gauge,
    pub(super) fired: Family<ReminderLabels, Counter>,
    published: Counter,
    sent: Counter,
    failed: Counter,
}

/// Outcome of a due reminder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReminderOutcome {
    Published,
    /// Passed to the queue of its webhook. If the queue drops it, the webhook's metrics count this.
    SentToWebhook,
    /// Not published, or the outcome of publishing is unknown.
    Failed,
    /// Kept for the next process.
    PutBack,
}

impl ReminderMetrics {
    pub(super) fn new() -> Self {
        let fired = Family::default();
        let counter = |outcome| {
            let fired: &Family<ReminderLabels, Counter> = &fired;
            fired.get_or_create(&ReminderLabels { outcome }).clone()
        };
        Self {
            waiting: Gauge::default(),
            published: counter("published"),
            sent: counter("sent"),
            failed: counter("failed"),
            fired,
        }
    }

    /// Counts a due reminder.
    pub fn processed(&self, outcome: ReminderOutcome) {
        match outcome {
            ReminderOutcome::Published => _ = self.published.inc(),
            ReminderOutcome::SentToWebhook => _ = self.sent.inc(),
            ReminderOutcome::Failed => _ = self.failed.inc(),
            ReminderOutcome::PutBack => {}
        }
    }
}
