use std::time::Duration;

use encke_core::Timestamp;

use tokio::sync::Notify;

use super::LogThrottle;

/// Limit on the number of connections, given by the file descriptors that are not reserved for other uses.
#[derive(Debug)]
pub(crate) struct DescriptorLimit {
    connections: usize,
    log_throttle: LogThrottle,
    wanted: Notify,
}

impl DescriptorLimit {
    /// Minimum interval between log lines about exhausted descriptors.
    const LOG_INTERVAL: Duration = Duration::from_mins(1);

    pub(crate) fn new(connections: usize) -> Self {
        Self {
            connections,
            log_throttle: LogThrottle::with_interval(Self::LOG_INTERVAL),
            wanted: Notify::new(),
        }
    }

    /// Maximum number of connections, or [`usize::MAX`] if the limit is unknown.
    pub(crate) fn max_connections(&self) -> usize {
        self.connections
    }

    /// Reports that a connection is waiting for a descriptor.
    pub(crate) fn report_shortage(&self) {
        self.wanted.notify_waiters();
    }

    /// Completes when a connection is waiting for a descriptor.
    pub(crate) async fn shortage(&self) {
        self.wanted.notified().await;
    }

    /// Whether another connection must be refused for lack of descriptors, given the number of open
    /// connections. Logs a warning if so.
    pub(crate) fn is_exhausted(&self, connections: usize, now: Timestamp) -> bool {
        let is_exhausted = connections >= self.connections;
        if is_exhausted && self.log_throttle.pass(now).is_some() {
            tracing::warn!(
                connections,
                "refusing clients: file descriptors exhausted; raise LimitNOFILE or `ulimit -n`"
            );
        }
        is_exhausted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_when_all_are_taken() {
        let now = Timestamp::from_nanos(1);
        let descriptors = DescriptorLimit::new(2);
        assert_eq!(
            [0, 1, 2, 3].map(|taken| descriptors.is_exhausted(taken, now)),
            [false, false, true, true]
        );
        assert!(!DescriptorLimit::new(usize::MAX).is_exhausted(1_000_000, now));
    }
}
