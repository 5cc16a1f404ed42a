use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ClaimLabels {
    outcome: &'static str,
}

/// Metrics of sessions that several servers share. Without them, all metrics stay at zero.
#[derive(Debug)]
pub struct SharingMetrics {
    pub(super) claims: Family<ClaimLabels, Counter>,
    granted: Counter,
    unknown: Counter,
    unavailable: Counter,
    pub(super) released: Counter,
    pub(super) adopted: Counter,
    pub(super) fenced: Counter,
    pub(super) has_lease: Gauge,
}

/// Outcome of a claim of a session that this server did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimResult {
    Granted,
    /// The session has ended, or does not exist.
    Unknown,
    /// The client has to try again.
    Unavailable,
}

impl SharingMetrics {
    pub(super) fn new() -> Self {
        let claims = Family::default();
        let counter = |outcome| {
            let claims: &Family<ClaimLabels, Counter> = &claims;
            claims.get_or_create(&ClaimLabels { outcome }).clone()
        };
        Self {
            granted: counter("granted"),
            unknown: counter("unknown"),
            unavailable: counter("unavailable"),
            claims,
            released: Counter::default(),
            adopted: Counter::default(),
            fenced: Counter::default(),
            has_lease: Gauge::default(),
        }
    }

    pub fn claimed(&self, result: ClaimResult) {
        match result {
            ClaimResult::Granted => self.granted.inc(),
            ClaimResult::Unknown => self.unknown.inc(),
            ClaimResult::Unavailable => self.unavailable.inc(),
        };
    }

    pub fn released(&self) {
        self.released.inc();
    }

    pub fn adopted(&self) {
        self.adopted.inc();
    }

    pub fn fenced(&self) {
        self.fenced.inc();
    }

    pub fn set_has_lease(&self, has_lease: bool) {
        self.has_lease.set(i64::from(has_lease));
    }
}
