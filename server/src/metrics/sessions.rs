use std::time::Duration;

use encke_core::session::{Phase, Transition};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::exponential_buckets;
use serde::Serialize;

use super::histogram::Durations;
use super::labelled::{Count, Labelled};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PhaseLabels {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet, Serialize)]
pub(crate) struct EventLabels {
    event: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet, Serialize)]
pub(crate) struct OutcomeLabels {
    outcome: &'static str,
}

const RECOVERED: &str = "recovered";
const NEW_SESSION: &str = "new_session";

/// Sessions and what happens to them.
#[derive(Debug)]
pub(crate) struct SessionMetrics {
    pub(super) by_phase: Family<PhaseLabels, Gauge>,
    attached: Gauge,
    suspended: Gauge,
    pub(super) events: Labelled<EventLabels, Counter>,
    pub(super) resumes: Labelled<OutcomeLabels, Counter>,
    pub(super) ping_round_trip: Durations,
}

/// The same as the dashboard shows it.
#[derive(Serialize)]
pub(crate) struct SessionsView {
    pub(crate) sessions: Phases,
    pub(crate) events: Vec<Count<EventLabels>>,
    pub(crate) resumes: Vec<Count<OutcomeLabels>>,
    /// Milliseconds, nothing for any number, and how many pings were answered within that.
    pub(crate) ping_rtt: Vec<(Option<f64>, u64)>,
}

#[derive(Serialize)]
pub(crate) struct Phases {
    attached: i64,
    suspended: i64,
}

impl SessionMetrics {
    pub(super) fn new() -> Self {
        let by_phase = Family::<PhaseLabels, Gauge>::default();
        let gauge = |phase| by_phase.get_or_create(&PhaseLabels { phase }).clone();
        // Shown from the start, at zero: so the first of its kind is a change, which an alarm sees.
        let events = Labelled::<EventLabels, Counter>::default();
        for transition in Transition::all() {
            let labels = EventLabels { event: transition.name(), reason: transition.reason() };
            events.show(&labels);
        }
        let resumes = Labelled::<OutcomeLabels, Counter>::default();
        for outcome in [RECOVERED, NEW_SESSION] {
            resumes.show(&OutcomeLabels { outcome });
        }
        Self {
            attached: gauge("attached"),
            suspended: gauge("suspended"),
            by_phase,
            events,
            resumes,
            ping_round_trip: Durations::new(exponential_buckets(0.000_5, 2.0, 16)),
        }
    }

    pub(crate) fn ping_round_trip(&self, time: Duration) {
        self.ping_round_trip.observe(time);
    }

    pub(crate) fn event(&self, event: &'static str, reason: &'static str) {
        self.events.inc(&EventLabels { event, reason });
    }

    pub(crate) fn resumed(&self, recovered: bool) {
        let outcome = if recovered { RECOVERED } else { NEW_SESSION };
        self.resumes.inc(&OutcomeLabels { outcome });
    }

    pub(crate) fn view(&self) -> SessionsView {
        SessionsView {
            sessions: Phases { attached: self.attached.get(), suspended: self.suspended.get() },
            events: self.events.counts(),
            resumes: self.resumes.counts(),
            ping_rtt: self.ping_round_trip.cumulative(),
        }
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
