use std::time::Duration;

use encke_core::Timestamp;

use tokio::sync::Notify;

use super::LogThrottle;

/// How many connections there are descriptors for, beside those that are kept for all else.
#[derive(Debug)]
pub(crate) struct Descriptors {
    connections: usize,
    said: LogThrottle,
    wanted: Notify,
}

impl Descriptors {
    /// How often it is said that there are no more.
    const SAID_ONCE_IN: Duration = Duration::from_mins(1);

    pub(crate) fn new(connections: usize) -> Self {
        Self { connections, said: LogThrottle::once_in(Self::SAID_ONCE_IN), wanted: Notify::new() }
    }

    /// For so many connections; [`usize::MAX`], if nobody knows.
    pub(crate) fn connections(&self) -> usize {
        self.connections
    }

    /// A connection waits for a descriptor.
    pub(crate) fn want(&self) {
        self.wanted.notify_waiters();
    }

    /// Ready when a connection waits for a descriptor.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Whether it is for want of these that one more than so many connections is refused. The log has it then.
    pub(crate) fn are_too_few(&self, connections: usize, now: Timestamp) -> bool {
        let are_too_few = connections >= self.connections;
        if are_too_few && self.said.pass(now).is_some() {
            tracing::warn!(
                connections,
                "clients are refused: the process has no descriptors for more; raise LimitNOFILE or `ulimit -n`"
            );
        }
        are_too_few
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_too_few_when_all_are_taken() {
        let now = Timestamp::from_nanos(1);
        let descriptors = Descriptors::new(2);
        assert_eq!([0, 1, 2, 3].map(|taken| descriptors.are_too_few(taken, now)), [false, false, true, true]);
        assert!(!Descriptors::new(usize::MAX).are_too_few(1_000_000, now));
    }
}
