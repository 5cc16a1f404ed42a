//! WebSocket frames (RFC 6455): writes the client's masked frames, and parses the server's frames.

use std::collections::VecDeque;

pub(crate) const TEXT: u8 = 0x1;
pub(crate) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xA;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// Masking key. A constant suffices, because the attack that masking prevents does not exist in this
/// simulation.
const MASK: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];

/// Appends an unfragmented, masked frame.
pub(crate) fn write(opcode: u8, payload: &[u8], out: &mut VecDeque<u8>) {
    out.push_back(FINAL | opcode);
    match payload.len() {
        length @ 0..=125 => out.push_back(MASKED | u8::try_from(length).expect("at most 125")),
        length => {
            out.push_back(MASKED | 126);
            out.extend(u16::try_from(length).expect("clients send less than 64 KiB").to_be_bytes());
        }
    }
    out.extend(MASK);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

/// A frame from the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerFrame<'a> {
    pub(crate) opcode: u8,
    pub(crate) payload: &'a [u8],
}

/// Parses the first frame in `bytes`. Returns it with its length, or `None` if it is incomplete.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(ServerFrame<'_>, usize)>, String> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & !0xF != FINAL || second & MASKED != 0 {
        return Err(format!("a frame that starts with {first:#x} {second:#x}"));
    }
    let extended = match second {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let Some((length, rest)) = rest.split_at_checked(extended) else { return Ok(None) };
    let length = match extended {
        0 => usize::from(*second),
        _ => length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
    };
    let Some(payload) = rest.get(..length) else { return Ok(None) };
    Ok(Some((ServerFrame { opcode: first & 0xF, payload }, 2 + extended + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_frames_are_not_parsed() {
        for (bytes, length) in [
            (&b"\x81\x05Hello"[..], 5),
            (&[&[0x81, 126, 0, 200][..], &[b'x'; 200]].concat(), 200),
            (&[&[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0][..], &[b'x'; 65_536]].concat(), 65_536),
        ] {
            let (frame, taken) = read(bytes).expect("a valid frame").expect("a complete frame");
            assert_eq!((frame.opcode, frame.payload.len(), taken), (TEXT, length, bytes.len()));
            assert_eq!(read(&bytes[..bytes.len() - 1]), Ok(None));
        }
        assert!(read(b"\x01\x00").is_err(), "the server sends no fragments");
        assert!(read(b"\x81\x80").is_err(), "nor masked frames");
    }

    #[test]
    fn frames_are_masked() {
        let mut out = VecDeque::new();
        write(TEXT, b"Hello", &mut out);
        assert_eq!(out, b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "the example of section 5.7");
    }
}
