use std::io;

use strum::IntoStaticStr;
use thiserror::Error;

/// Why no WebSocket, event stream or HTTP exchange could be opened.
#[derive(Debug, Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ConnectError {
    /// The connection failed, or broke before the response was read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No certificate authorities could be loaded, or the TLS handshake failed.
    #[error("TLS: {0}")]
    Tls(String),
    #[error("refused with status {0}")]
    Refused(u16),
    #[error("the response is not HTTP: {0}")]
    NotHttp(String),
    /// The response with status 101 is not a valid upgrade.
    #[error("the upgrade failed: {0}")]
    Upgrade(&'static str),
    #[error("the response is not text/event-stream")]
    NoEventStream,
}
