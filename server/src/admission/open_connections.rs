use std::sync::Arc;

use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Permit;

/// Counts the open connections of the public listener, so that a shutdown can wait for them.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections(TaskTracker);

/// An open connection, counted until this value and all its clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct OpenConnection(Arc<ConnectionEntry>);

/// Form of an [`OpenConnection`] that needs no separate allocation unless there are clones.
#[derive(Debug)]
pub(crate) enum CompactConnection {
    Owned(#[expect(dead_code, reason = "kept for its drop")] ConnectionEntry),
    Shared(OpenConnection),
}

const _: () = assert!(size_of::<CompactConnection>() <= 16);

#[derive(Debug)]
#[expect(dead_code, reason = "kept for its drop")]
pub(crate) struct ConnectionEntry {
    connection: TaskTrackerToken,
    /// The socket's permit, if sockets per address are limited.
    socket: Option<Box<Permit>>,
}

impl OpenConnection {
    pub(crate) fn compact(self) -> CompactConnection {
        match Arc::try_unwrap(self.0) {
            Ok(entry) => CompactConnection::Owned(entry),
            Err(shared) => CompactConnection::Shared(Self(shared)),
        }
    }
}

impl CompactConnection {
    /// Frees the separate allocation, if there are no clones any more.
    #[must_use]
    pub(crate) fn compact(self) -> Self {
        match self {
            Self::Shared(shared) => shared.compact(),
            owned @ Self::Owned(_) => owned,
        }
    }
}

impl OpenConnections {
    pub(crate) fn enter(&self, socket: Option<Permit>) -> OpenConnection {
        OpenConnection(Arc::new(ConnectionEntry { connection: self.0.token(), socket: socket.map(Box::new) }))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Waits until all connections are closed.
    pub(crate) async fn all_closed(&self) {
        // A tracker reports that it is empty only after `close`, which does not prevent additional tokens.
        self.0.close();
        self.0.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_active_or_parked_connection_is_counted_once() {
        let connections = OpenConnections::default();
        let one = connections.enter(None);
        let other = one.clone();
        let compact = one.compact();
        assert!(matches!(compact, CompactConnection::Shared(_)));
        drop(other);
        let compact = compact.compact();
        assert!(matches!(compact, CompactConnection::Owned(_)));
        let other = connections.enter(None);
        assert_eq!(connections.count(), 2);
        drop(compact);
        drop(other);
        assert_eq!(connections.count(), 0);
    }
}
