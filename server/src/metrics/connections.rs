use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// Transports that are shown from the start, also without a connection.
const TRANSPORTS: [&str; 2] = ["websocket", "sse"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ConnectionLabels {
    transport: &'static str,
    dialect: &'static str,
}

impl ConnectionLabels {
    const fn of(transport: &'static str) -> Self {
        Self { transport, dialect: "json" }
    }
}

/// Connections, and those that were not accepted.
#[derive(Debug)]
pub(crate) struct ConnectionMetrics {
    pub(super) open: Family<ConnectionLabels, Gauge>,
    pub(super) accept_errors: Counter,
}

impl ConnectionMetrics {
    pub(super) fn new() -> Self {
        let open = Family::<ConnectionLabels, Gauge>::default();
        for transport in TRANSPORTS {
            drop(open.get_or_create(&ConnectionLabels::of(transport)));
        }
        Self { open, accept_errors: Counter::default() }
    }

    pub(crate) fn opened(&self, transport: &'static str) {
        self.open.get_or_create(&ConnectionLabels::of(transport)).inc();
    }

    pub(crate) fn closed(&self, transport: &'static str) {
        self.open.get_or_create(&ConnectionLabels::of(transport)).dec();
    }

    /// How many are open.
    #[cfg(feature = "simulation")]
    pub(crate) fn count(&self) -> i64 {
        TRANSPORTS
            .iter()
            .map(|transport| self.open.get_or_create(&ConnectionLabels::of(transport)).get())
            .sum()
    }

    pub(crate) fn accept_failed(&self) {
        self.accept_errors.inc();
    }
}
