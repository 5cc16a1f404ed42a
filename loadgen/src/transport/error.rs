//! Errors that occur while opening a connection.

use std::fmt;
use std::io;

/// Why no WebSocket, event stream or HTTP exchange could be opened.
#[derive(Debug)]
pub enum ConnectError {
    /// The connection failed, or broke before the response was read.
    Io(io::Error),
    /// The server responded with this HTTP status.
    Refused(u16),
    NotHttp(ResponseHeadError),
    /// The response is not a valid upgrade.
    Upgrade(UpgradeError),
    /// The response is not an event stream.
    NoEventStream,
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ResponseHeadError> for ConnectError {
    fn from(error: ResponseHeadError) -> Self {
        Self::NotHttp(error)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Refused(status) => write!(f, "refused with status {status}"),
            Self::NotHttp(error) => write!(f, "{error}"),
            Self::Upgrade(error) => write!(f, "the upgrade failed: {error}"),
            Self::NoEventStream => write!(f, "the response is not text/event-stream"),
        }
    }
}

/// Why the head of a response could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseHeadError {
    Syntax(httparse::Error),
    TooLong,
}

impl fmt::Display for ResponseHeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => write!(f, "the response is not HTTP: {error}"),
            Self::TooLong => f.write_str("the response's head is too long"),
        }
    }
}

/// Why a response with status 101 is not a valid upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeError {
    /// The header `Upgrade: websocket` is missing.
    Upgrade,
    /// The header `Connection: Upgrade` is missing.
    Connection,
    /// `Sec-WebSocket-Accept` is missing, or does not match the client's key.
    Accept,
    /// The response names an extension or a subprotocol that the client did not offer.
    NotOffered,
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upgrade => f.write_str("the response has no \"Upgrade: websocket\""),
            Self::Connection => f.write_str("the response has no \"Connection: Upgrade\""),
            Self::Accept => f.write_str("Sec-WebSocket-Accept does not match the key"),
            Self::NotOffered => {
                f.write_str("the response has an extension or subprotocol that the client did not offer")
            }
        }
    }
}
