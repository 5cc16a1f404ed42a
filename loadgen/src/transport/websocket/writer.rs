//! Writes a client's frames. They are masked (RFC 6455, section 5.3), and unfragmented unless requested
//! otherwise.

use super::head::Opcode;

const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// Appends one frame.
pub(crate) fn write_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    write_masked(out, opcode, payload, rand::random());
}

/// Appends a frame whose message continues in the next frame.
pub(crate) fn write_fragment(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    let start = out.len();
    write_frame(out, opcode, payload);
    out[start] &= !FINAL;
}

/// Appends a Close frame. Without a code its payload is empty, as in the answer to an empty one.
pub(crate) fn write_close(out: &mut Vec<u8>, code: Option<u16>) {
    match code {
        Some(code) => write_frame(out, Opcode::Close, &code.to_be_bytes()),
        None => write_frame(out, Opcode::Close, &[]),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range of each arm fits its type")]
pub(super) fn write_masked(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], key: [u8; 4]) {
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
