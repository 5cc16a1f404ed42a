use std::time::Duration;

use encke_core::session::{Phase, Transition};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::exponential_buckets;
use serde::Serialize;

use super::histogram::DurationHistogram;
use super::labelled::{Labelled, LabelledCount};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PhaseLabels {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet, Serialize)]
pub struct EventLabels {
    event: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet, Serialize)]
pub struct OutcomeLabels {
    outcome: &'static str,
}

const RECOVERED: &str = "recovered";
const NEW_SESSION: &str = "new_session";

/// Metrics of sessions and their lifecycle.
#[derive(Debug)]
pub struct SessionMetrics {
    pub(super) by_phase: Family<PhaseLabels, Gauge>,
    attached: Gauge,
    suspended: Gauge,
    pub(super) events: Labelled<EventLabels, Counter>,
    pub(super) resumes: Labelled<OutcomeLabels, Counter>,
    pub(super) ping_round_trip: DurationHistogram,
}

/// Session metrics as shown by the dashboard.
#[derive(Debug, Serialize)]
pub struct SessionsView {
    pub sessions: PhaseCounts,
    pub events: Vec<LabelledCount<EventLabels>>,
    pub resumes: Vec<LabelledCount<OutcomeLabels>>,
    /// Upper bound of each bucket in milliseconds (`None`: unbounded), and the number of pings that were
    /// answered within that time.
    pub ping_rtt: Vec<(Option<f64>, u64)>,
}

#[derive(Debug, Serialize)]
pub struct PhaseCounts {
    attached: i64,
    suspended: i64,
}

impl SessionMetrics {
    pub(super) fn new() -> Self {
        let by_phase = Family::<PhaseLabels, Gauge>::default();
        let gauge = |phase| by_phase.get_or_create(&PhaseLabels { phase }).clone();
        // Export the counters at zero from the start, so that an alert sees the first event as an increase.
        let events = Labelled::<EventLabels, Counter>::default();
        for transition in Transition::all() {
            let labels = EventLabels { event: transition.name(), reason: transition.reason() };
            events.create(&labels);
        }
        let resumes = Labelled::<OutcomeLabels, Counter>::default();
        for outcome in [RECOVERED, NEW_SESSION] {
            resumes.create(&OutcomeLabels { outcome });
        }
        Self {
            attached: gauge("attached"),
            suspended: gauge("suspended"),
            by_phase,
            events,
            resumes,
            ping_round_trip: DurationHistogram::new(exponential_buckets(0.000_5, 2.0, 16)),
        }
    }

    pub fn ping_round_trip(&self, time: Duration) {
        self.ping_round_trip.observe(time);
    }

    pub fn event(&self, event: &'static str, reason: &'static str) {
        self.events.inc(&EventLabels { event, reason });
    }

    pub fn resumed(&self, recovered: bool) {
        let outcome = if recovered { RECOVERED } else { NEW_SESSION };
        self.resumes.inc(&OutcomeLabels { outcome });
    }

    pub fn view(&self) -> SessionsView {
        SessionsView {
            sessions: PhaseCounts { attached: self.attached.get(), suspended: self.suspended.get() },
            events: self.events.counts(),
            resumes: self.resumes.counts(),
            ping_rtt: self.ping_round_trip.cumulative(),
        }
    }

    #[inline]
    pub fn phase_changed(&self, before: Option<Phase>, after: Phase) {
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

    /// Records that a session in this phase continues on another server.
    pub fn left(&self, phase: Phase) {
        if let Some(gauge) = self.gauge(phase) {
            gauge.dec();
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
