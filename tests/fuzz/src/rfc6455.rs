//! A simple parser and writer of RFC 6455 frames.

pub(crate) const CONTINUATION: u8 = 0x0;
pub(crate) const TEXT: u8 = 0x1;
pub(crate) const BINARY: u8 = 0x2;
pub(crate) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xA;

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) is_final: bool,
    /// Whether the three reserved bits are zero.
    pub(crate) is_plain: bool,
    pub(crate) opcode: u8,
    pub(crate) mask: Option<[u8; 4]>,
    /// Length of the header in bytes.
    pub(crate) length: usize,
    /// Length of the payload in bytes.
    pub(crate) payload: u64,
}

impl FrameHeader {
    /// Parses the header at the start of `bytes`. Returns `None` if it is incomplete.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (first, second) = (*bytes.first()?, *bytes.get(1)?);
        let number = |length: usize| {
            let bytes = bytes.get(2..2 + length)?;
            Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        };
        let (payload, extended) = match second & 0x7F {
            126 => (number(2)?, 2),
            127 => (number(8)?, 8),
            short => (u64::from(short), 0),
        };
        let is_masked = second & 0x80 != 0;
        let mask = if is_masked { Some(*bytes.get(2 + extended..)?.first_chunk()?) } else { None };
        Some(Self {
            is_final: first & 0x80 != 0,
            is_plain: first & 0x70 == 0,
            opcode: first & 0xF,
            mask,
            length: 2 + extended + if is_masked { 4 } else { 0 },
            payload,
        })
    }
}

/// A frame with its payload unmasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedFrame {
    pub(crate) header: FrameHeader,
    pub(crate) payload: Vec<u8>,
}

/// Parses the complete frames at the start of `bytes`. Also returns the remaining bytes, which begin an
/// incomplete frame.
pub(crate) fn frames(mut bytes: &[u8]) -> (Vec<ParsedFrame>, &[u8]) {
    let mut frames = Vec::new();
    while let Some((frame, length)) = frame(bytes) {
        frames.push(frame);
        bytes = &bytes[length..];
    }
    (frames, bytes)
}

fn frame(bytes: &[u8]) -> Option<(ParsedFrame, usize)> {
    let header = FrameHeader::read(bytes)?;
    let end = header.length.checked_add(usize::try_from(header.payload).ok()?)?;
    let mut payload = bytes.get(header.length..end)?.to_vec();
    if let Some(mask) = header.mask {
        for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
    }
    Some((ParsedFrame { header, payload }, end))
}

/// Writes a client's frame. The mask is zero, so that corpus files are readable.
pub(crate) fn write(first: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(first);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ 0..=125), _) => out.push(0x80 | length),
        (_, Ok(length)) => {
            out.push(0x80 | 126);
            out.extend(length.to_be_bytes());
        }
        _ => {
            out.push(0x80 | 127);
            out.extend((payload.len() as u64).to_be_bytes());
        }
    }
    out.extend([0; 4]);
    out.extend(payload);
}
