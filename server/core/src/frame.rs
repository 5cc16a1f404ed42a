//! Decodes the WebSocket frames of a client (RFC 6455, section 5).

use std::borrow::Cow;

use thiserror::Error;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// Payload length up to which a header needs no extended length. Control frames must not be longer.
const MAX_SHORT_PAYLOAD: u64 = 125;

/// Close code of a protocol error.
const PROTOCOL_ERROR: u16 = 1002;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

/// A decoded frame from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame<'a> {
    /// A text message.
    Text(Cow<'a, str>),
    /// A binary message. Its content is not kept, because no dialect uses binary messages.
    Binary,
    /// Part of a message that is not complete yet.
    Fragment,
    /// A ping, to be answered with the same payload.
    Ping(&'a [u8]),
    /// An answer to a ping.
    Pong(&'a [u8]),
    /// The client closes the connection. Contains the code to answer with, if there is one.
    Close(Option<u16>),
}

/// Why the bytes of a client are not valid frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame violates RFC 6455.
    #[error("invalid frame: {0}")]
    Protocol(&'static str),
    /// The message is longer than allowed.
    #[error("the message is longer than limits.max_message")]
    TooBig,
    /// A text message is not valid UTF-8.
    #[error("a text message is not valid UTF-8")]
    InvalidUtf8,
}

/// Fragments of an incomplete message.
#[derive(Debug, Default)]
pub struct Fragments {
    /// Whether the message is text. `None` before its first fragment.
    is_text: Option<bool>,
    payload: Vec<u8>,
    /// Number of bytes of a text that are known to be valid UTF-8.
    valid: usize,
}

impl Fragments {
    /// Whether no fragmented message is in progress.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_text.is_none()
    }

    /// Number of bytes that the fragments occupy.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.payload.capacity()
    }

    fn append(&mut self, payload: &[u8]) {
        // Reserve little more than necessary: a client may leave a message incomplete for a long time.
        self.payload.reserve_exact(payload.len().max(self.payload.len() / 8));
        self.payload.extend_from_slice(payload);
    }

    /// Checks the text so far. A character may continue in the next fragment.
    fn check_utf8(&mut self) -> Result<(), FrameError> {
        match str::from_utf8(&self.payload[self.valid..]) {
            Ok(_) => self.valid = self.payload.len(),
            Err(error) if error.error_len().is_none() => self.valid += error.valid_up_to(),
            Err(_) => return Err(FrameError::InvalidUtf8),
        }
        Ok(())
    }
}

/// Header of a frame.
struct Header {
    first: u8,
    payload_start: usize,
    payload_len: u64,
}

impl Header {
    /// Parses the header at the beginning of `bytes`. Returns `None` if it is incomplete.
    #[inline]
    fn parse(bytes: &[u8]) -> Result<Option<Self>, FrameError> {
        let &[first, second, ref rest @ ..] = bytes else { return Ok(None) };
        let extended = match second & !MASKED {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if second & MASKED == 0 { 0 } else { 4 };
        if rest.len() < extended + mask {
            return Ok(None);
        }
        if first & RESERVED != 0 {
            return Err(FrameError::Protocol("reserved bits are set"));
        }
        if second & MASKED == 0 {
            return Err(FrameError::Protocol("the frame is not masked"));
        }
        let payload_len = match second & !MASKED {
            short @ ..126 => u64::from(short),
            _ => rest[..extended].iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        };
        Ok(Some(Self { first, payload_start: 2 + extended + mask, payload_len }))
    }

    fn opcode(&self) -> u8 {
        self.first & 0x0F
    }

    fn is_final(&self) -> bool {
        self.first & FINAL != 0
    }

    /// Checks what can be known before the payload has arrived, so that a frame that will be rejected takes
    /// no memory.
    #[inline]
    fn check(&self, fragments: &Fragments, max_message: usize) -> Result<(), FrameError> {
        let is_begun = !fragments.is_empty();
        let problem = match self.opcode() {
            CLOSE | PING | PONG if !self.is_final() => "a control frame is fragmented",
            CLOSE | PING | PONG if self.payload_len > MAX_SHORT_PAYLOAD => {
                "a control frame is longer than 125 bytes"
            }
            CLOSE | PING | PONG => return Ok(()),
            CONTINUATION if !is_begun => "a continuation frame without a message",
            TEXT | BINARY if is_begun => "a message begins within another message",
            CONTINUATION | TEXT | BINARY => {
                let left = max_message.saturating_sub(fragments.payload.len());
                return if self.payload_len > left as u64 { Err(FrameError::TooBig) } else { Ok(()) };
            }
            _ => "the opcode is reserved",
        };
        Err(FrameError::Protocol(problem))
    }
}

/// Decodes the frame at the beginning of `bytes`, unmasking it in place. Returns the frame and its length, or
/// `None` if it is incomplete. `max_message` is the maximum length of a message.
///
/// # Errors
/// Returns [`FrameError`] as soon as the bytes that have arrived show that the frame is not acceptable.
#[inline]
pub fn decode<'a>(
    bytes: &'a mut [u8],
    fragments: &mut Fragments,
    max_message: usize,
) -> Result<Option<(ClientFrame<'a>, usize)>, FrameError> {
    let Some(header) = Header::parse(bytes)? else { return Ok(None) };
    header.check(fragments, max_message)?;
    // A frame that passed the check is not longer than `max_message`.
    let Ok(payload_len) = usize::try_from(header.payload_len) else { return Err(FrameError::TooBig) };
    let length = header.payload_start + payload_len;
    let Some(frame) = bytes.get_mut(..length) else { return Ok(None) };
    let (head, payload) = frame.split_at_mut(header.payload_start);
    let mask = *head.last_chunk::<4>().expect("the header ends with the mask");
    unmask(payload, mask);
    let payload = &*payload;
    let frame = match header.opcode() {
        PING => ClientFrame::Ping(payload),
        PONG => ClientFrame::Pong(payload),
        CLOSE => ClientFrame::Close(reply_code(payload)?),
        TEXT if header.is_final() => {
            ClientFrame::Text(str::from_utf8(payload).map_err(|_| FrameError::InvalidUtf8)?.into())
        }
        BINARY if header.is_final() => ClientFrame::Binary,
        opcode => {
            let is_text = *fragments.is_text.get_or_insert(opcode == TEXT);
            fragments.append(payload);
            if is_text {
                fragments.check_utf8()?;
            }
            match (header.is_final(), is_text) {
                (false, _) => ClientFrame::Fragment,
                (true, false) => {
                    *fragments = Fragments::default();
                    ClientFrame::Binary
                }
                (true, true) => {
                    let payload = std::mem::take(fragments).payload;
                    ClientFrame::Text(String::from_utf8(payload).map_err(|_| FrameError::InvalidUtf8)?.into())
                }
            }
        }
    };
    Ok(Some((frame, length)))
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let mut words = payload.chunks_exact_mut(4);
    for word in &mut words {
        word.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
    words.into_remainder().iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
}

/// Returns the code with which to answer a Close frame with this payload: the client's code, or the code of a
/// protocol error if the client's must not be sent. `None` if the payload is empty.
fn reply_code(payload: &[u8]) -> Result<Option<u16>, FrameError> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(None),
            _ => Err(FrameError::Protocol("half a close code")),
        };
    };
    let code = u16::from_be_bytes(*code);
    // The codes of RFC 6455, section 7.4, and those registered since that an endpoint may send.
    let may_be_sent = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
    if str::from_utf8(reason).is_err() {
        return Err(FrameError::InvalidUtf8);
    }
    Ok(Some(if may_be_sent { code } else { PROTOCOL_ERROR }))
}

/// Returns the unmasked payload if `bytes` is exactly one masked pong frame with a payload of `LENGTH` bytes.
#[must_use]
pub fn lone_pong<const LENGTH: usize>(bytes: &[u8]) -> Option<[u8; LENGTH]> {
    let [first, second, mask @ ..] = bytes else { return None };
    let (mask, payload) = mask.split_first_chunk::<4>()?;
    let mut payload: [u8; LENGTH] = payload.try_into().ok()?;
    unmask(&mut payload, *mask);
    let is_pong =
        *first == FINAL | PONG && LENGTH < 126 && usize::from(*second) == usize::from(MASKED) | LENGTH;
    is_pong.then_some(payload)
}

#[cfg(test)]
mod tests {
    use encke_seeds::with_seeds;
    use rand::rngs::SmallRng;
    use rand::{Rng, RngExt, SeedableRng};

    use super::*;

    const MAX_MESSAGE: usize = 70_000;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..=125 => frame.push(MASKED | u8::try_from(length).expect("it is short")),
            length @ 126..=65_535 => {
                frame.push(MASKED | 126);
                frame.extend(u16::try_from(length).expect("it is short").to_be_bytes());
            }
            length => {
                frame.push(MASKED | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    /// Decodes the only frame in `bytes`.
    fn decoded(bytes: &mut [u8]) -> Result<Option<(ClientFrame<'_>, usize)>, FrameError> {
        decode(bytes, &mut Fragments::default(), MAX_MESSAGE)
    }

    #[test]
    fn payloads_of_every_length_are_unmasked() {
        for length in [0, 1, 3, 4, 125, 126, 65_535, 65_536] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let mut bytes = [masked(FINAL | TEXT, text.as_bytes()), vec![0x81]].concat();
            let whole = bytes.len() - 1;
            assert_eq!(decoded(&mut bytes), Ok(Some((ClientFrame::Text(text.into()), whole))));
        }
    }

    #[test]
    fn an_incomplete_frame_is_not_decoded() {
        for length in [0, 1, 125, 126, 65_536] {
            let bytes = masked(FINAL | TEXT, &vec![b' '; length]);
            for end in (0..bytes.len().min(20)).chain([bytes.len() - 1]) {
                assert_eq!(decoded(&mut bytes[..end].to_vec()), Ok(None), "{end} of {length}");
            }
        }
    }

    #[test]
    fn fragments_form_one_message() {
        let mut fragments = Fragments::default();
        for (first, payload, expected) in [
            (TEXT, "a", ClientFrame::Fragment),
            (CONTINUATION, "", ClientFrame::Fragment),
            (FINAL | PING, "now", ClientFrame::Ping(b"now")),
            (FINAL | CONTINUATION, "b", ClientFrame::Text("ab".into())),
            (BINARY, "a", ClientFrame::Fragment),
            (FINAL | CONTINUATION, "b", ClientFrame::Binary),
        ] {
            let mut bytes = masked(first, payload.as_bytes());
            let frame = decode(&mut bytes, &mut fragments, MAX_MESSAGE).expect("a valid frame");
            assert_eq!(frame.map(|(frame, _)| frame), Some(expected));
        }
        assert!(fragments.is_empty() && fragments.capacity() == 0, "the memory is freed");
    }

    /// The headers alone are enough to reject these frames.
    #[test]
    fn unacceptable_headers_are_rejected() {
        let protocol_error = |bytes: &mut [u8]| matches!(decoded(bytes), Err(FrameError::Protocol(_)));
        for first in [0xC1, 0xA1, 0x91, 0x83, 0x87, 0x8B, 0x8F, 0x09, 0x08, 0x80, 0x00] {
            assert!(protocol_error(&mut [first, MASKED, 1, 2, 3, 4]), "{first:#x}");
        }
        assert!(protocol_error(&mut [0x81, 0]), "not masked");
        assert!(protocol_error(&mut [0x89, MASKED | 126, 0, 126, 1, 2, 3, 4]), "a long ping");
        let mut huge = [0x81, MASKED | 127, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(decoded(&mut huge), Err(FrameError::TooBig));
        let mut fragments = Fragments::default();
        for (mut bytes, expected) in [
            (masked(TEXT, &[b' '; 5]), Ok(Some((ClientFrame::Fragment, 11)))),
            (masked(FINAL | TEXT, b""), Err(FrameError::Protocol("a message begins within another message"))),
            (masked(FINAL | CONTINUATION, &[b' '; 6]), Err(FrameError::TooBig)),
        ] {
            assert_eq!(decode(&mut bytes, &mut fragments, 10), expected);
        }
    }

    #[test]
    fn text_must_be_utf8() {
        assert_eq!(decoded(&mut masked(FINAL | TEXT, &[0xC3, 0x28])), Err(FrameError::InvalidUtf8));
        let mut fragments = Fragments::default();
        // The two bytes of a character may be in different fragments.
        for (second, expected) in
            [(0xA4, Ok(Some((ClientFrame::Text("ä".into()), 7)))), (0x28, Err(FrameError::InvalidUtf8))]
        {
            decode(&mut masked(TEXT, &[0xC3]), &mut fragments, 10).expect("a fragment");
            assert_eq!(decode(&mut masked(FINAL | CONTINUATION, &[second]), &mut fragments, 10), expected);
            fragments = Fragments::default();
        }
        let mut bytes = masked(TEXT, &[0xC3, 0x28]);
        let invalid = decode(&mut bytes, &mut fragments, 10);
        assert_eq!(invalid, Err(FrameError::InvalidUtf8), "no later fragment can make it valid");
    }

    #[test]
    fn close_frames_are_answered_with_their_code() {
        for (payload, expected) in [
            (&b""[..], Ok(None)),
            (b"\x03\xE8", Ok(Some(1000))),
            (b"\x03\xE9bye", Ok(Some(1001))),
            (b"\x0F\xA0", Ok(Some(4000))),
            (b"\x03", Err(FrameError::Protocol("half a close code"))),
            (b"\x03\xED", Ok(Some(1002))),
            (b"\x03\xE7", Ok(Some(1002))),
            (b"\x03\xE8\xFF", Err(FrameError::InvalidUtf8)),
        ] {
            let mut bytes = masked(FINAL | CLOSE, payload);
            let length = bytes.len();
            assert_eq!(decoded(&mut bytes), expected.map(|code| Some((ClientFrame::Close(code), length))));
        }
    }

    #[test]
    fn a_lone_pong_is_a_pong_and_nothing_else() {
        let pong = [0x8A, 0x88, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 5];
        assert_eq!(lone_pong(&pong), Some([0, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(lone_pong::<7>(&pong), None);
        for length in 0..pong.len() {
            assert_eq!(lone_pong::<8>(&pong[..length]), None, "only {length} bytes");
        }
        assert_eq!(lone_pong::<8>(&[&pong[..], &[0x81]].concat()), None, "another frame begins");
        for (at, byte) in [(0, 0x89), (0, 0x0A), (0, 0xCA), (1, 0x08), (1, 0x87), (1, 0x89)] {
            let mut other = pong;
            other[at] = byte;
            assert_eq!(lone_pong::<8>(&other), None, "byte {at} is {byte:#x}");
        }
    }

    /// Arbitrary bytes never panic, and a decoded frame is within its bytes.
    #[test]
    fn random_bytes_are_decoded_or_rejected() {
        with_seeds(0..20, |seed| {
            let mut rng = SmallRng::seed_from_u64(seed);
            for _ in 0..2_000 {
                let mut bytes = vec![0; rng.random_range(0..40)];
                rng.fill_bytes(&mut bytes);
                let length = bytes.len();
                if let Ok(Some((_, used))) = decoded(&mut bytes) {
                    assert!((2..=length).contains(&used));
                }
            }
        });
    }
}
