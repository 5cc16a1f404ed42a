use encke_core::dialect::DialectName;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;

use super::labelled::{Count, Labelled, Open};

/// What is shown from the start, also without a connection.
const KINDS: [(&str, DialectName); 5] = [
    ("websocket", DialectName::Json),
    ("sse", DialectName::Json),
    ("poll", DialectName::Json),
    ("websocket", DialectName::Bayeux),
    ("poll", DialectName::Bayeux),
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet, Serialize)]
pub(crate) struct ConnectionLabels {
    transport: &'static str,
    dialect: &'static str,
}

impl ConnectionLabels {
    fn of(transport: &'static str, dialect: DialectName) -> Self {
        Self { transport, dialect: dialect.into() }
    }
}

/// Connections, and those that were not accepted.
#[derive(Debug)]
pub(crate) struct ConnectionMetrics {
    pub(super) open: Labelled<ConnectionLabels, Gauge>,
    pub(super) accept_errors: Counter,
    pub(super) refusals: Labelled<RefusalLabels, Counter>,
    pub(super) unfinished_bytes: Gauge,
    pub(super) unfinished_closed: Counter,
    pub(super) at_rest: Labelled<TransportLabels, Gauge>,
    pub(super) woken: Labelled<TransportLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet, Serialize)]
pub(crate) struct TransportLabels {
    transport: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet, Serialize)]
pub(crate) struct RefusalLabels {
    reason: &'static str,
}

/// The same as the dashboard shows it.
#[derive(Serialize)]
pub(crate) struct ConnectionsView {
    pub(crate) connections: Vec<Open<ConnectionLabels>>,
    /// How many of them rest.
    pub(crate) at_rest: i64,
    pub(crate) refusals: Vec<Count<RefusalLabels>>,
}

impl ConnectionMetrics {
    pub(super) fn new() -> Self {
        let open = Labelled::<ConnectionLabels, Gauge>::default();
        let at_rest = Labelled::<TransportLabels, Gauge>::default();
        let woken = Labelled::<TransportLabels, Counter>::default();
        for (transport, dialect) in KINDS {
            open.with(&ConnectionLabels::of(transport, dialect), |_| {});
            at_rest.with(&TransportLabels { transport }, |_| {});
            woken.with(&TransportLabels { transport }, |_| {});
        }
        Self {
            open,
            accept_errors: Counter::default(),
            refusals: Labelled::default(),
            unfinished_bytes: Gauge::default(),
            unfinished_closed: Counter::default(),
            at_rest,
            woken,
        }
    }

    pub(crate) fn opened(&self, transport: &'static str, dialect: DialectName) {
        self.open.with(&ConnectionLabels::of(transport, dialect), |open| _ = open.inc());
    }

    pub(crate) fn closed(&self, transport: &'static str, dialect: DialectName) {
        self.open.with(&ConnectionLabels::of(transport, dialect), |open| _ = open.dec());
    }

    /// One goes to rest.
    pub(crate) fn rests(&self, transport: &'static str) {
        self.at_rest.with(&TransportLabels { transport }, |at_rest| _ = at_rest.inc());
    }

    /// One rests no longer.
    pub(crate) fn woke(&self, transport: &'static str) {
        let labels = TransportLabels { transport };
        self.at_rest.with(&labels, |at_rest| _ = at_rest.dec());
        self.woken.inc(&labels);
    }

    /// How many are open.
    #[cfg(feature = "simulation")]
    pub(crate) fn count(&self) -> i64 {
        self.open.sum()
    }

    /// Shows how many were refused for this reason, also while that is none.
    pub(crate) fn show_refusals(&self, reason: &'static str) {
        self.refusals.show(&RefusalLabels { reason });
    }

    /// A connection got no session.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.inc(&RefusalLabels { reason });
    }

    pub(crate) fn view(&self) -> ConnectionsView {
        ConnectionsView {
            connections: self.open.open(),
            at_rest: self.at_rest.sum(),
            refusals: self.refusals.counts(),
        }
    }

    /// One was closed because all unfinished messages together were too much.
    pub(crate) fn unfinished_closed(&self) {
        self.unfinished_closed.inc();
    }

    pub(crate) fn accept_failed(&self) {
        self.accept_errors.inc();
    }
}
