//! The addresses that the server listens on.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::config::{Config, Limits};
use crate::http::Listener;

/// How often to look whether an address is free.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// The error of the system.
    pub error: io::Error,
}

/// Both listeners, before anything is served: connections can arrive, and wait.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) public: Listener,
    pub(crate) admin: Listener,
}

impl Listeners {
    /// Listens on both addresses of the configuration.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind(config: &Config) -> Result<Self, ListenError> {
        Ok(Self { public: bind(config.public, config)?, admin: bind(config.admin, config)? })
    }

    /// Listens on both addresses. While another process has one of them, presumably the one that this follows, it tries
    /// again for [`Config::listen_wait`], or until `is_over`. Whoever connects to the other one meanwhile waits, too.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind_when_free(config: &Config, mut is_over: impl FnMut() -> bool) -> Result<Self, ListenError> {
        let mut waited = Duration::ZERO;
        let mut bind_when_free = |address| loop {
            match bind(address, config) {
                Err(ListenError { error, .. })
                    if error.kind() == io::ErrorKind::AddrInUse
                        && waited < config.listen_wait
                        && !is_over() =>
                {
                    if waited.is_zero() {
                        let at_most = config.listen_wait;
                        tracing::warn!(%address, ?at_most, "waiting for the address: another process has it");
                    }
                    #[expect(clippy::disallowed_methods, reason = "there is no wheel yet")]
                    thread::sleep(BETWEEN_LOOKS);
                    waited += BETWEEN_LOOKS;
                }
                result => return result,
            }
        };
        Ok(Self { public: bind_when_free(config.public)?, admin: bind_when_free(config.admin)? })
    }
}

fn bind(address: SocketAddr, config: &Config) -> Result<Listener, ListenError> {
    let Limits { send_buffer, receive_buffer, .. } = config.limits;
    Listener::bind(address, config.backlog, send_buffer, receive_buffer)
        .map_err(|error| ListenError { address, error })
}
