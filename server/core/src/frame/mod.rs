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
mod tests;
