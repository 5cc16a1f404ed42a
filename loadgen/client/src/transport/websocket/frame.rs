//! Frames, RFC 6455 section 5.2: reads heads of a server's frames, and writes a client's frames, which are
//! masked.

use strum::FromRepr;

use super::end::ProtocolFault;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
/// Values of the length field that announce a length in the next two or eight bytes.
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;
const MAX_CONTROL_BYTES: u64 = 125;

#[derive(Clone, Copy, Debug, FromRepr, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    Continuation = 0x0,
    Text = 0x1,
    Binary = 0x2,
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xA,
}

impl Opcode {
    fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// Head of a frame from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    pub(super) is_final: bool,
    pub(super) opcode: Opcode,
    /// Length of the head itself.
    pub head_bytes: usize,
    pub payload_bytes: u64,
}

impl FrameHead {
    /// Parses a head. `None` while it is incomplete. Reports an error as soon as the invalid bytes have
    /// arrived.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, ProtocolFault> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        if first & RESERVED != 0 {
            return Err(ProtocolFault::ReservedBits((first & RESERVED) >> 4));
        }
        let (is_final, bits) = (first & FINAL != 0, first & 0x0F);
        let opcode = Opcode::from_repr(bits).ok_or(ProtocolFault::UnknownOpcode(bits))?;
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
    let (length, head_bytes, shortest) = match second {
        TWO_BYTES => (rest.first_chunk().map(|bytes| u16::from_be_bytes(*bytes).into()), 4, 126),
        EIGHT_BYTES => (rest.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)), 10, 0x1_0000),
        length => (Some(length.into()), 2, 0),
    };
    match length {
        Some(length) if length < shortest || length > i64::MAX as u64 => Err(ProtocolFault::LengthForm),
        length => Ok(length.map(|length| (length, head_bytes))),
    }
}

pub fn write_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    write_masked(out, opcode, payload, rand::random());
}

/// Appends a frame whose message continues in the next frame.
pub fn write_fragment(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    let start = out.len();
    write_frame(out, opcode, payload);
    out[start] &= !FINAL;
}

/// Appends a Close frame. Without a code its payload is empty, as in the answer to an empty one.
pub(super) fn write_close(out: &mut Vec<u8>, code: Option<u16>) {
    match code {
        Some(code) => write_frame(out, Opcode::Close, &code.to_be_bytes()),
        None => write_frame(out, Opcode::Close, &[]),
    }
}

/// Appends one frame that is masked with this key.
#[expect(clippy::cast_possible_truncation, reason = "the range of each arm fits its type")]
pub fn write_masked(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], key: [u8; 4]) {
    out.reserve(payload.len() + 14);
    out.push(FINAL | opcode as u8);
    match payload.len() {
        length @ 0..=125 => out.push(MASKED | length as u8),
        length @ 126..=0xFFFF => {
            out.push(MASKED | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(MASKED | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&key);
    out.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
}
