//! Protocol errors of a server, and the close code with which the client answers each.

use std::fmt;

use strum::IntoStaticStr;

/// Violation of RFC 6455, of the format of event streams or HTTP responses, or of one of the client's size
/// limits.
#[derive(Clone, Copy, Debug, IntoStaticStr, PartialEq, Eq)]
#[strum(serialize_all = "snake_case")]
pub enum ProtocolFault {
    /// Section 5.2: reserved bits are set without an extension that defines them.
    ReservedBits(u8),
    /// Section 5.2: the opcode is unknown.
    UnknownOpcode(u8),
    /// Section 5.1: a server must not mask its frames.
    Masked,
    /// Section 5.2: the length is not in its shortest form, or its highest bit is set.
    LengthForm,
    /// Section 5.5: a control frame must not be fragmented.
    FragmentedControl,
    /// Section 5.5: a control frame has at most 125 bytes of payload.
    LongControl(u64),
    /// Section 5.4: a continuation frame arrived without a message to continue.
    NothingToContinue,
    /// Section 5.4: a message began before the previous one had ended.
    MessageWithinMessage,
    /// Section 5.5.1: the payload of a Close frame is a single byte, too short for a code.
    HalfACloseCode,
    /// Section 7.4: a code that must not be sent in a Close frame.
    CloseCode(u16),
    /// Section 8.1: text, or the reason of a Close frame, is not UTF-8.
    NotUtf8,
    /// RFC 9112, section 4: the head of a response is invalid.
    NotHttp,
    /// RFC 9112, section 7.1: the head of a chunk is invalid.
    Chunk,
    /// The response does not follow the protocol carried over HTTP.
    Answer,
    /// A message would have at least this many bytes, which is over the limit.
    TooBig(u64),
}

impl ProtocolFault {
    /// Returns the close code that reports this fault to the server.
    pub(crate) fn close_code(self) -> u16 {
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

impl fmt::Display for ProtocolFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedBits(bits) => write!(f, "reserved bits {bits:#05b} are set"),
            Self::UnknownOpcode(opcode) => write!(f, "unknown opcode {opcode:#x}"),
            Self::Masked => f.write_str("a server's frame is masked"),
            Self::LengthForm => f.write_str("a length is not in its shortest form"),
            Self::FragmentedControl => f.write_str("a control frame is a fragment"),
            Self::LongControl(bytes) => write!(f, "a control frame has {bytes} bytes"),
            Self::NothingToContinue => f.write_str("a continuation frame without a message"),
            Self::MessageWithinMessage => f.write_str("a message begins before the previous one has ended"),
            Self::HalfACloseCode => f.write_str("a Close frame has a payload of one byte"),
            Self::CloseCode(code) => write!(f, "a Close frame has the code {code}"),
            Self::NotUtf8 => f.write_str("a text is not UTF-8"),
            Self::NotHttp => f.write_str("the head of a response is invalid"),
            Self::Answer => f.write_str("a response does not follow the protocol"),
            Self::Chunk => f.write_str("the head of a chunk is invalid"),
            Self::TooBig(bytes) => write!(f, "a message has at least {bytes} bytes"),
        }
    }
}
