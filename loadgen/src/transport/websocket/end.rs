//! How connections end.

use std::fmt;

use super::fault::Fault;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By a Close frame, with or without a code.
    Closed(Option<u16>),
    /// The stream ended, or failed, without one.
    Cut,
    /// A request of a session was answered with this HTTP status.
    Status(u16),
    /// The server sent what it may not.
    Fault(Fault),
}

/// Codes that never travel: RFC 6455, section 7.4.1, has them for a Close frame without a code, and for an end without a
/// Close frame.
const NO_CODE: u16 = 1005;
pub(crate) const NO_CLOSE_FRAME: u16 = 1006;

impl End {
    /// The close code: the server's, or what stands for its absence, or what we answer a fault with.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Closed(code) => code.unwrap_or(NO_CODE),
            Self::Cut => NO_CLOSE_FRAME,
            // Below all close codes.
            Self::Status(status) => status,
            Self::Fault(fault) => fault.close_code(),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(Some(code)) => write!(f, "closed with {code}"),
            Self::Closed(None) => f.write_str("closed without a code"),
            Self::Cut => f.write_str("cut without a Close frame"),
            Self::Status(status) => write!(f, "answered with status {status}"),
            Self::Fault(fault) => write!(f, "a bad frame: {fault}"),
        }
    }
}
