//! How connections end, and protocol errors of servers.

use strum::IntoStaticStr;
use thiserror::Error;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ConnectionEnd {
    #[error("closed {}", .0.map_or_else(|| "without a code".to_owned(), |code| format!("with {code}")))]
    Closed(Option<u16>),
    /// The stream ended or failed without a Close frame.
    #[error("ended without a Close frame")]
    NoCloseFrame,
    /// A request of the session was answered with this HTTP status.
    #[error("answered with status {0}")]
    Status(u16),
    #[error("protocol error: {0}")]
    Fault(ProtocolFault),
}

/// Codes that are never sent: RFC 6455, section 7.4.1, reserves them for a Close frame without a code, and
/// for an end without a Close frame.
const NO_CODE: u16 = 1005;
pub const NO_CLOSE_FRAME: u16 = 1006;

impl ConnectionEnd {
    /// Returns the close code: the server's code, a reserved code if the server sent none, or the code with
    /// which the client answers a fault.
    pub fn code(self) -> u16 {
        match self {
            Self::Closed(code) => code.unwrap_or(NO_CODE),
            Self::NoCloseFrame => NO_CLOSE_FRAME,
            // HTTP statuses are lower than all close codes.
            Self::Status(status) => status,
            Self::Fault(fault) => fault.close_code(),
        }
    }
}

/// Violation of RFC 6455, of the format of event streams or HTTP responses (RFC 9112), or of one of the
/// client's size limits.
#[derive(Clone, Copy, Debug, Error, IntoStaticStr, PartialEq, Eq)]
#[strum(serialize_all = "snake_case")]
pub enum ProtocolFault {
    // RFC 6455, section 5.
    #[error("reserved bits {0:#05b} are set")]
    ReservedBits(u8),
    #[error("unknown opcode {0:#x}")]
    UnknownOpcode(u8),
    #[error("a server's frame is masked")]
    Masked,
    /// Also if the highest bit of a length is set.
    #[error("a length is not in its shortest form")]
    LengthForm,
    #[error("a control frame is a fragment")]
    FragmentedControl,
    #[error("a control frame has {0} bytes")]
    LongControl(u64),
    #[error("a continuation frame without a message")]
    NothingToContinue,
    #[error("a message begins before the previous one has ended")]
    MessageWithinMessage,
    #[error("a Close frame has a payload of one byte")]
    HalfACloseCode,
    /// A code that must not be sent.
    #[error("a Close frame has the code {0}")]
    CloseCode(u16),
    #[error("a text is not UTF-8")]
    NotUtf8,
    #[error("the head of a response is invalid")]
    NotHttp,
    #[error("the head of a chunk is invalid")]
    Chunk,
    /// The response violates the protocol carried over HTTP.
    #[error("a response does not follow the protocol")]
    Answer,
    #[error("a message has at least {0} bytes")]
    TooBig(u64),
}

impl ProtocolFault {
    /// Returns the close code that reports this fault to the server.
    pub(super) fn close_code(self) -> u16 {
        match self {
            Self::NotUtf8 => 1007,
            Self::TooBig(_) => 1009,
            _ => 1002,
        }
    }

    /// Returns the name under which the fault is counted.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}
