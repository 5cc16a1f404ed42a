use encke_core::dialect::DialectName;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// What is shown from the start, also without a connection.
const KINDS: [(&str, DialectName); 5] = [
    ("websocket", DialectName::Json),
    ("sse", DialectName::Json),
    ("poll", DialectName::Json),
    ("websocket", DialectName::Bayeux),
    ("poll", DialectName::Bayeux),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ConnectionLabels {
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
    pub(super) open: Family<ConnectionLabels, Gauge>,
    pub(super) accept_errors: Counter,
    pub(super) refusals: Family<RefusalLabels, Counter>,
    pub(super) unfinished_bytes: Gauge,
    pub(super) unfinished_closed: Counter,
    pub(super) at_rest: Family<TransportLabels, Gauge>,
    pub(super) woken: Family<TransportLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TransportLabels {
    transport: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RefusalLabels {
    reason: &'static str,
}

impl ConnectionMetrics {
    pub(super) fn new() -> Self {
        let open = Family::<ConnectionLabels, Gauge>::default();
        let at_rest = Family::<TransportLabels, Gauge>::default();
        let woken = Family::<TransportLabels, Counter>::default();
        for (transport, dialect) in KINDS {
            drop(open.get_or_create(&ConnectionLabels::of(transport, dialect)));
            drop(at_rest.get_or_create(&TransportLabels { transport }));
            drop(woken.get_or_create(&TransportLabels { transport }));
        }
        Self {
            open,
            accept_errors: Counter::default(),
            refusals: Family::default(),
            unfinished_bytes: Gauge::default(),
            unfinished_closed: Counter::default(),
            at_rest,
            woken,
        }
    }

    pub(crate) fn opened(&self, transport: &'static str, dialect: DialectName) {
        self.open.get_or_create(&ConnectionLabels::of(transport, dialect)).inc();
    }

    pub(crate) fn closed(&self, transport: &'static str, dialect: DialectName) {
        self.open.get_or_create(&ConnectionLabels::of(transport, dialect)).dec();
    }

    /// One goes to rest.
    pub(crate) fn rests(&self, transport: &'static str) {
        self.at_rest.get_or_create(&TransportLabels { transport }).inc();
    }

    /// One rests no longer.
    pub(crate) fn woke(&self, transport: &'static str) {
        let labels = TransportLabels { transport };
        self.at_rest.get_or_create(&labels).dec();
        self.woken.get_or_create(&labels).inc();
    }

    /// How many are open.
    #[cfg(feature = "simulation")]
    pub(crate) fn count(&self) -> i64 {
        KINDS
            .iter()
            .map(|(transport, dialect)| {
                self.open.get_or_create(&ConnectionLabels::of(transport, *dialect)).get()
            })
            .sum()
    }

    /// A connection got no session.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&RefusalLabels { reason }).inc();
    }

    /// One was closed because all unfinished messages together were too much.
    pub(crate) fn unfinished_closed(&self) {
        self.unfinished_closed.inc();
    }

    pub(crate) fn accept_failed(&self) {
        self.accept_errors.inc();
    }
}
