//! Why a connection was not opened.

use std::fmt;
use std::io;

/// Why there is no WebSocket and no stream of events.
#[derive(Debug)]
pub enum ConnectError {
    /// No connection, or it broke before the response was read.
    Io(io::Error),
    /// The request was answered by this HTTP status.
    Refused(u16),
    NotHttp(NotHttp),
    /// The response is no upgrade.
    Upgrade(BadUpgrade),
    /// The response is no stream of events.
    NoEventStream,
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<NotHttp> for ConnectError {
    fn from(error: NotHttp) -> Self {
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
            Self::NoEventStream => write!(f, "the response is no text/event-stream"),
        }
    }
}

/// Why a response has no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHttp {
    Syntax(httparse::Error),
    TooLong,
}

impl fmt::Display for NotHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => write!(f, "the response is not HTTP: {error}"),
            Self::TooLong => f.write_str("the response's head is too long"),
        }
    }
}

/// Why a response with the right status is no upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadUpgrade {
    /// No `Upgrade: websocket`.
    Upgrade,
    /// No `Connection: Upgrade`.
    Connection,
    /// No `Sec-WebSocket-Accept`, or not the one for our key.
    Accept,
    /// An extension or a subprotocol that the client did not offer.
    Unasked,
}

impl fmt::Display for BadUpgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upgrade => f.write_str("the response has no \"Upgrade: websocket\""),
            Self::Connection => f.write_str("the response has no \"Connection: Upgrade\""),
            Self::Accept => f.write_str("Sec-WebSocket-Accept is not the one for the key"),
            Self::Unasked => {
                f.write_str("the response has an extension or subprotocol that was not asked for")
            }
        }
    }
}
