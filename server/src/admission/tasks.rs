use std::sync::Arc;

use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Permit;

/// Counts the open connections of the public listener, so that a shutdown can wait for them.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections(TaskTracker);

/// One open connection, until it and all its clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct OpenConnection(#[expect(dead_code, reason = "held for its drop")] Arc<Entry>);

#[derive(Debug)]
#[expect(dead_code, reason = "held for its drop")]
struct Entry {
    connection: TaskTrackerToken,
    /// Its socket's permit, where the sockets of one address are limited.
    socket: Option<Box<Permit>>,
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
