use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReminderLabels {
    outcome: &'static str,
}

/// Reminders, and what became of those that were due.
#[derive(Debug)]
pub(crate) struct ReminderMetrics {
    pub(super) waiting: Gauge,
    pub(super) fired: Family<ReminderLabels, Counter>,
    published: Counter,
    told: Counter,
    failed: Counter,
}

/// What became of a reminder that was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReminderOutcome {
    Published,
    /// Its webhook has it, or has no room for it, which that counts.
    Told,
    /// It was not published, or nobody knows.
    Failed,
    /// It is for the next process.
    PutBack,
}

impl ReminderMetrics {
    /// All at zero.
    pub(super) fn new() -> Self {
        let fired = Family::default();
        let counter = |outcome| {
            let fired: &Family<ReminderLabels, Counter> = &fired;
            fired.get_or_create(&ReminderLabels { outcome }).clone()
        };
        Self {
            waiting: Gauge::default(),
            published: counter("published"),
            told: counter("told"),
            failed: counter("failed"),
            fired,
        }
    }

    /// One was due.
    pub(crate) fn fired(&self, outcome: ReminderOutcome) {
        match outcome {
            ReminderOutcome::Published => _ = self.published.inc(),
            ReminderOutcome::Told => _ = self.told.inc(),
            ReminderOutcome::Failed => _ = self.failed.inc(),
            ReminderOutcome::PutBack => {}
        }
    }
}
