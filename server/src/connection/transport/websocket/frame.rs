//! Frames sent by the server (RFC 6455, section 5.2), which are never masked and never fragmented.

use encke_core::close::CloseCode;
use encke_core::dialect::{TextSink, ping_payload};

const FINAL: u8 = 0x80;
const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

const MAX_HEAD_BYTES: usize = 10;

/// Writes consecutive frames.
pub(crate) struct Frames<'a>(pub(crate) &'a mut Vec<u8>);

impl Frames<'_> {
    pub(super) fn ping(&mut self, seq: u64) {
        self.frame(PING, &ping_payload(seq));
    }

    /// Answers a ping of the client.
    pub(super) fn pong(&mut self, payload: &[u8]) {
        self.frame(PONG, payload);
    }

    /// Answers a Close frame of the client that has this code.
    pub(super) fn close_reply(&mut self, code: Option<u16>) {
        match code {
            Some(code) => self.frame(CLOSE, &code.to_be_bytes()),
            None => self.frame(CLOSE, &[]),
        }
    }

    pub(super) fn close(&mut self, code: CloseCode) {
        let payload = [&code.code().to_be_bytes(), code.reason().as_bytes()].concat();
        self.frame(CLOSE, &payload);
    }

    fn frame(&mut self, opcode: u8, payload: &[u8]) {
        self.head(opcode, payload.len());
        self.0.extend_from_slice(payload);
    }

    /// Begins a text frame with a payload of this length. Returns the buffer to append the payload to.
    #[inline]
    pub(super) fn text_of(&mut self, length: usize) -> &mut Vec<u8> {
        self.head(TEXT, length);
        self.0
    }

    /// Writes the head, and reserves space for the whole frame, so that the buffer grows only once.
    #[expect(clippy::cast_possible_truncation, reason = "the range of each arm fits the type")]
    fn head(&mut self, opcode: u8, length: usize) {
        self.0.reserve(MAX_HEAD_BYTES + length);
        self.0.push(FINAL | opcode);
        match length {
            0..=125 => self.0.push(length as u8),
            126..=0xFFFF => {
                self.0.push(126);
                self.0.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                self.0.push(127);
                self.0.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
    }
}

impl TextSink for Frames<'_> {
    fn text(&mut self, text: &str) {
        self.frame(TEXT, text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_match_the_rfc() {
        let mut out = Vec::new();
        Frames(&mut out).text("Hello");
        Frames(&mut out).ping(0x0102);
        assert_eq!(out, b"\x81\x05Hello\x89\x08\0\0\0\0\0\0\x01\x02");
        for (length, head) in [
            (125, &[0x81, 125][..]),
            (126, &[0x81, 126, 0, 126]),
            (65_535, &[0x81, 126, 0xFF, 0xFF]),
            (65_536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            Frames(&mut out).text(&"x".repeat(length));
            assert_eq!(&out[..head.len()], head);
            assert_eq!(out.len(), head.len() + length);
        }
    }
}
