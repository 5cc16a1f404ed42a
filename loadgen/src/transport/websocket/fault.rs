//! Protocol errors of a server, and the close code that answers each.

use std::fmt;

use strum::IntoStaticStr;

/// How the server's bytes break RFC 6455, or what event streams and answers are made of, or a limit of ours.
#[derive(Clone, Copy, Debug, IntoStaticStr, PartialEq, Eq)]
#[strum(serialize_all = "snake_case")]
pub enum Fault {
    /// Section 5.2: no extension was agreed on that gives these bits a meaning.
    ReservedBits(u8),
    /// Section 5.2: no such opcode.
    UnknownOpcode(u8),
    /// Section 5.1: a server must not mask.
    Masked,
    /// Section 5.2: the length is not written in its shortest form, or with its highest bit set.
    LengthForm,
    /// Section 5.5: a control frame is whole.
    FragmentedControl,
    /// Section 5.5: a control frame has up to 125 bytes.
    LongControl(u64),
    /// Section 5.4: nothing has begun that could go on.
    NothingToContinue,
    /// Section 5.4: a message begins before the one before it has ended.
    MessageWithinMessage,
    /// Section 5.5.1: a Close frame has no code, or two bytes of it.
    HalfACloseCode,
    /// Section 7.4: never sent in a Close frame.
    CloseCode(u16),
    /// Section 8.1: text, or the reason of a Close frame, is UTF-8.
    NotUtf8,
    /// RFC 9112, section 4: an answer has no good head.
    NotHttp,
    /// RFC 9112, section 7.1: the head of a chunk makes no sense.
    Chunk,
    /// What a request was answered with is not what its protocol has.
    Answer,
    /// A message would have at least this many bytes.
    TooBig(u64),
}

impl Fault {
    /// The close code that says so.
    pub(crate) fn close_code(self) -> u16 {
        match self {
            Self::NotUtf8 => 1007,
            Self::TooBig(_) => 1009,
            _ => 1002,
        }
    }

    /// The name under which it is counted.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedBits(bits) => write!(f, "reserved bits {bits:#05b} are set"),
            Self::UnknownOpcode(opcode) => write!(f, "there is no opcode {opcode:#x}"),
            Self::Masked => f.write_str("a server's frame is masked"),
            Self::LengthForm => f.write_str("a length is not in its shortest form"),
            Self::FragmentedControl => f.write_str("a control frame is a fragment"),
            Self::LongControl(bytes) => write!(f, "a control frame has {bytes} bytes"),
            Self::NothingToContinue => f.write_str("a continuation of nothing"),
            Self::MessageWithinMessage => f.write_str("a message begins within another"),
            Self::HalfACloseCode => f.write_str("a Close frame has one byte"),
            Self::CloseCode(code) => write!(f, "a Close frame has the code {code}"),
            Self::NotUtf8 => f.write_str("a text is not UTF-8"),
            Self::NotHttp => f.write_str("an answer has no good head"),
            Self::Answer => f.write_str("an answer is not of the protocol"),
            Self::Chunk => f.write_str("a chunk has no good head"),
            Self::TooBig(bytes) => write!(f, "a message has at least {bytes} bytes"),
        }
    }
}
