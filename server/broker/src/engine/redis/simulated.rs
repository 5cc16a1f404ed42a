//! Connections to a simulated Redis. All layers above the stream work as with a real Redis.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// In-memory connection.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

type Connect = dyn Fn() -> io::Result<Box<dyn Stream>> + Send + Sync;

/// Connector for a simulated Redis.
#[derive(Clone)]
pub struct SimulatedRedis(Arc<Connect>);

impl SimulatedRedis {
    pub fn new(connect: impl Fn() -> io::Result<Box<dyn Stream>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(connect))
    }

    pub(super) fn connect(&self) -> io::Result<Box<dyn Stream>> {
        (self.0)()
    }
}

impl fmt::Debug for SimulatedRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedRedis")
    }
}

impl PartialEq for SimulatedRedis {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SimulatedRedis {}
