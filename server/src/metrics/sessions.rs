use std::time::Duration;

use encke_core::session::Phase;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PhaseLabels {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EventLabels {
    event: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    outcome: &'static str,
}

/// Sessions and what happens to them.
#[derive(Debug)]
pub(crate) struct SessionMetrics {
    pub(super) by_phase: Family<PhaseLabels, Gauge>,
    attached: Gauge,
    suspended: Gauge,
    pub(super) events: Family<EventLabels, Counter>,
    pub(super) resumes: Family<OutcomeLabels, Counter>,
    pub(super) ping_round_trip: Histogram,
}

impl SessionMetrics {
    pub(super) fn new() -> Self {
        let by_phase = Family::<PhaseLabels, Gauge>::default();
        let gauge = |phase| by_phase.get_or_create(&PhaseLabels { phase }).clone();
        Self {
            attached: gauge("attached"),
            suspended: gauge("suspended"),
            by_phase,
            events: Family::default(),
            resumes: Family::default(),
            ping_round_trip: Histogram::new(exponential_buckets(0.000_5, 2.0, 16)),
        }
    }

    pub(crate) fn ping_round_trip(&self, time: Duration) {
        self.ping_round_trip.observe(time.as_secs_f64());
    }

    pub(crate) fn event(&self, event: &'static str, reason: &'static str) {
        self.events.get_or_create(&EventLabels { event, reason }).inc();
    }

    pub(crate) fn resumed(&self, recovered: bool) {
        let outcome = if recovered { "recovered" } else { "new_session" };
        self.resumes.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    pub(crate) fn phase_changed(&self, before: Option<Phase>, after: Phase) {
        if before == Some(after) {
            return;
        }
        if let Some(left) = before.and_then(|phase| self.gauge(phase)) {
            left.dec();
        }
        if let Some(entered) = self.gauge(after) {
            entered.inc();
        }
    }

    fn gauge(&self, phase: Phase) -> Option<&Gauge> {
        match phase {
            Phase::Attached(_) | Phase::BetweenPolls => Some(&self.attached),
            Phase::Suspended | Phase::Moved => Some(&self.suspended),
            Phase::Closed(_) => None,
        }
    }
}
