//! Head of a frame, RFC 6455 section 5.2: opcode, flags and length.

use super::fault::ProtocolFault;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
/// Values of the length field that announce a length in the next two or eight bytes.
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;
pub(super) const MAX_CONTROL_BYTES: u64 = 125;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Opcode {
    Continuation = 0x0,
    Text = 0x1,
    Binary = 0x2,
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xA,
}

impl Opcode {
    fn from_bits(bits: u8) -> Result<Self, ProtocolFault> {
        Ok(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xA => Self::Pong,
            _ => return Err(ProtocolFault::UnknownOpcode(bits)),
        })
    }

    fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// Head of a frame from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) is_final: bool,
    pub(super) opcode: Opcode,
    /// Length of the head itself.
    pub(super) head_bytes: usize,
    pub(super) payload_bytes: u64,
}

impl FrameHead {
    /// Parses a head. `None` while it is incomplete. Reports an error as soon as the invalid bytes have
    /// arrived.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>, ProtocolFault> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        if first & RESERVED != 0 {
            return Err(ProtocolFault::ReservedBits((first & RESERVED) >> 4));
        }
        let (is_final, opcode) = (first & FINAL != 0, Opcode::from_bits(first & 0x0F)?);
        if opcode.is_control() && !is_final {
            return Err(ProtocolFault::FragmentedControl);
        }
        let Some(&second) = bytes.get(1) else { return Ok(None) };
        if second & MASKED != 0 {
            return Err(ProtocolFault::Masked);
        }
        let Some((payload_bytes, head_bytes)) = length(second, &bytes[2..])? else { return Ok(None) };
        if opcode.is_control() && payload_bytes > MAX_CONTROL_BYTES {
            return Err(ProtocolFault::LongControl(payload_bytes));
        }
        Ok(Some(Self { is_final, opcode, head_bytes, payload_bytes }))
    }
}

/// Returns the length of the payload, and the length of the head including the length field.
fn length(second: u8, rest: &[u8]) -> Result<Option<(u64, usize)>, ProtocolFault> {
    match second {
        TWO_BYTES => match rest.first_chunk() {
            Some(bytes) => match u16::from_be_bytes(*bytes) {
                0..=125 => Err(ProtocolFault::LengthForm),
                length => Ok(Some((length.into(), 4))),
            },
            None => Ok(None),
        },
        EIGHT_BYTES => match rest.first_chunk() {
            Some(bytes) => match u64::from_be_bytes(*bytes) {
                0..=0xFFFF | 0x8000_0000_0000_0000.. => Err(ProtocolFault::LengthForm),
                length => Ok(Some((length, 10))),
            },
            None => Ok(None),
        },
        length => Ok(Some((length.into(), 2))),
    }
}
