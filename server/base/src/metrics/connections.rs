use std::time::Duration;

use encke_core::dialect::DialectName;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use serde::Serialize;

use super::labelled::{Labelled, LabelledCount, LabelledGauge};

/// Label values exported from the start, before the first connection.
const INITIAL_LABELS: [(&str, DialectName); 5] = [
    ("websocket", DialectName::Json),
    ("sse", DialectName::Json),
    ("poll", DialectName::Json),
    ("websocket", DialectName::Bayeux),
    ("poll", DialectName::Bayeux),
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet, Serialize)]
pub struct ConnectionLabels {
    transport: &'static str,
    dialect: &'static str,
}

impl ConnectionLabels {
    fn of(transport: &'static str, dialect: DialectName) -> Self {
        Self { transport, dialect: dialect.into() }
    }
}

/// Metrics of connections, including refused ones.
#[derive(Debug)]
pub struct ConnectionMetrics {
    pub(super) open: Labelled<ConnectionLabels, Gauge>,
    pub(super) accept_errors: Counter,
    pub(super) refusals: Labelled<RefusalLabels, Counter>,
    pub(super) partial_message_bytes: Gauge,
    pub(super) partial_messages_closed: Counter,
    pub(super) parked: Labelled<TransportLabels, Gauge>,
    pub(super) unparked: Labelled<TransportLabels, Counter>,
    pub(super) delivery_seconds: Family<TransportLabels, Histogram, fn() -> Histogram>,
    /// Histograms of `delivery_seconds` by transport, kept here because looking them up in the family is
    /// slower.
    deliveries: [(&'static str, Histogram); 3],
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet, Serialize)]
pub(super) struct TransportLabels {
    transport: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet, Serialize)]
pub struct RefusalLabels {
    reason: &'static str,
}

/// Connection metrics as shown by the dashboard.
#[derive(Debug, Serialize)]
pub struct ConnectionsView {
    pub connections: Vec<LabelledGauge<ConnectionLabels>>,
    /// Number of parked connections.
    pub parked: i64,
    pub refusals: Vec<LabelledCount<RefusalLabels>>,
}

impl ConnectionMetrics {
    pub(super) fn new() -> Self {
        let open = Labelled::<ConnectionLabels, Gauge>::default();
        let parked = Labelled::<TransportLabels, Gauge>::default();
        let unparked = Labelled::<TransportLabels, Counter>::default();
        let new_histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_1, 2.0, 18));
        let delivery_seconds = Family::<TransportLabels, _, _>::new_with_constructor(new_histogram);
        for (transport, dialect) in INITIAL_LABELS {
            open.with(&ConnectionLabels::of(transport, dialect), |_| {});
            parked.with(&TransportLabels { transport }, |_| {});
            unparked.with(&TransportLabels { transport }, |_| {});
        }
        let deliveries = ["websocket", "sse", "poll"].map(|transport| {
            (transport, delivery_seconds.get_or_create(&TransportLabels { transport }).clone())
        });
        Self {
            open,
            accept_errors: Counter::default(),
            refusals: Labelled::default(),
            partial_message_bytes: Gauge::default(),
            partial_messages_closed: Counter::default(),
            parked,
            unparked,
            delivery_seconds,
            deliveries,
        }
    }

    pub fn opened(&self, transport: &'static str, dialect: DialectName) {
        self.open.with(&ConnectionLabels::of(transport, dialect), |open| _ = open.inc());
    }

    pub fn closed(&self, transport: &'static str, dialect: DialectName) {
        self.open.with(&ConnectionLabels::of(transport, dialect), |open| _ = open.dec());
    }

    /// Counts a connection that was parked.
    pub fn connection_parked(&self, transport: &'static str) {
        self.parked.with(&TransportLabels { transport }, |parked| _ = parked.inc());
    }

    /// Counts a connection that was unparked.
    pub fn connection_unparked(&self, transport: &'static str) {
        let labels = TransportLabels { transport };
        self.parked.with(&labels, |parked| _ = parked.dec());
        self.unparked.inc(&labels);
    }

    /// Records how long a sampled delivery took.
    pub fn observe_delivery(&self, transport: &'static str, time: Duration) {
        let found = self.deliveries.iter().find(|(name, _)| *name == transport);
        let (_, histogram) = found.expect("every transport has a histogram");
        histogram.observe(time.as_secs_f64());
    }

    /// Returns the number of open connections.
    #[cfg(feature = "simulation")]
    pub fn count(&self) -> i64 {
        self.open.sum()
    }

    /// Creates the counter for this reason, so that it is exported even while it is 0.
    pub fn show_refusals(&self, reason: &'static str) {
        self.refusals.create(&RefusalLabels { reason });
    }

    /// Counts a connection that was refused.
    pub fn refused(&self, reason: &'static str) {
        self.refusals.inc(&RefusalLabels { reason });
    }

    pub fn view(&self) -> ConnectionsView {
        ConnectionsView {
            connections: self.open.open(),
            parked: self.parked.sum(),
            refusals: self.refusals.counts(),
        }
    }

    /// Counts a connection that was closed because all partial messages together exceeded the limit.
    pub fn partial_message_closed(&self) {
        self.partial_messages_closed.inc();
    }

    pub fn accept_failed(&self) {
        self.accept_errors.inc();
    }
}
