//! How connections end.

use std::fmt;

use super::fault::ProtocolFault;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// Ended by a Close frame, with or without a code.
    Closed(Option<u16>),
    /// The stream ended or failed without a Close frame.
    NoCloseFrame,
    /// A request of the session was answered with this HTTP status.
    Status(u16),
    /// The server violated the protocol.
    Fault(ProtocolFault),
}

/// Codes that are never sent: RFC 6455, section 7.4.1, reserves them for a Close frame without a code, and
/// for an end without a Close frame.
const NO_CODE: u16 = 1005;
pub(crate) const NO_CLOSE_FRAME: u16 = 1006;

impl ConnectionEnd {
    /// Returns the close code: the server's code, a reserved code if the server sent none, or the code with
    /// which the client answers a fault.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Closed(code) => code.unwrap_or(NO_CODE),
            Self::NoCloseFrame => NO_CLOSE_FRAME,
            // HTTP statuses are lower than all close codes.
            Self::Status(status) => status,
            Self::Fault(fault) => fault.close_code(),
        }
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(Some(code)) => write!(f, "closed with {code}"),
            Self::Closed(None) => f.write_str("closed without a code"),
            Self::NoCloseFrame => f.write_str("ended without a Close frame"),
            Self::Status(status) => write!(f, "answered with status {status}"),
            Self::Fault(fault) => write!(f, "protocol error: {fault}"),
        }
    }
}
