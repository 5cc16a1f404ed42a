use std::sync::Arc;

use encke_base::locks::RwLock;
use redis::aio::MultiplexedConnection;
use tokio_util::sync::CancellationToken;

use super::generation::RedisGeneration;
use super::scripts::Scripts;

/// Connections for commands.
#[derive(Clone, Debug)]
pub(super) struct CommandConnections {
    /// Connection on which Redis also pushes messages, so that the reply to a publish and its message arrive
    /// together.
    pub(super) commands: MultiplexedConnection,
    /// Connection for large replies. Redis closes a connection with subscriptions if too much output is
    /// queued on it.
    pub(super) reads: MultiplexedConnection,
    pub(super) scripts: Arc<Scripts>,
    /// Generation of the data set, once it is known.
    pub(super) generation: Arc<RwLock<RedisGeneration>>,
    /// Closes the connections when cancelled.
    pub(super) closed: CancellationToken,
}
