use std::sync::Arc;

use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Permit;

/// Counts the open connections of the public listener, so that a shutdown can wait for them.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections(TaskTracker);

/// One open connection, until it and all its clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct OpenConnection(Arc<Entry>);

/// The same of a connection at rest: without an allocation of its own, unless somebody else has the connection, too.
#[derive(Debug)]
pub(crate) enum QuietConnection {
    Alone(Entry),
    Shared(OpenConnection),
}

const _: () = assert!(size_of::<QuietConnection>() <= 16);

#[derive(Debug)]
#[expect(dead_code, reason = "held for its drop")]
pub(crate) struct Entry {
    connection: TaskTrackerToken,
    /// Its socket's permit, where the sockets of one address are limited.
    socket: Option<Box<Permit>>,
}

impl OpenConnection {
    pub(crate) fn rest(self) -> QuietConnection {
        match Arc::try_unwrap(self.0) {
            Ok(entry) => QuietConnection::Alone(entry),
            Err(shared) => QuietConnection::Shared(Self(shared)),
        }
    }
}

impl QuietConnection {
    pub(crate) fn wake(self) -> OpenConnection {
        match self {
            Self::Alone(entry) => OpenConnection(Arc::new(entry)),
            Self::Shared(shared) => shared,
        }
    }
}

impl OpenConnections {
    pub(crate) fn enter(&self, socket: Option<Permit>) -> OpenConnection {
        OpenConnection(Arc::new(Entry { connection: self.0.token(), socket: socket.map(Box::new) }))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns once none is open.
    pub(crate) async fn all_closed(&self) {
        // A tracker reports that it is empty only after it was closed; closing it does not refuse tokens.
        self.0.close();
        self.0.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_counted_once_awake_or_at_rest() {
        let connections = OpenConnections::default();
        let one = connections.enter(None);
        let other = one.clone();
        let quiet = one.rest();
        assert!(matches!(quiet, QuietConnection::Shared(_)));
        drop(other);
        let quiet = quiet.wake().rest();
        assert!(matches!(quiet, QuietConnection::Alone(_)));
        let (one, other) = (quiet.wake(), connections.enter(None));
        assert_eq!(connections.count(), 2);
        drop(one.rest());
        drop(other);
        assert_eq!(connections.count(), 0);
    }
}
