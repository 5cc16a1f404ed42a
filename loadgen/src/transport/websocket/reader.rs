//! Parses bytes into messages and control frames. The code is pure: it uses neither socket nor clock.

use std::borrow::Cow;
use std::mem;

use super::fault::ProtocolFault;
use super::head::{FrameHead, Opcode};

/// A message or control frame from the server. Borrows from the input unless it arrived in several pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming<'a> {
    Text(Cow<'a, str>),
    Binary(Cow<'a, [u8]>),
    Ping(Cow<'a, [u8]>),
    Pong(Cow<'a, [u8]>),
    /// Close frame with its code, if it has one.
    Close(Option<u16>),
}

/// Splits a stream of bytes into frames, and assembles fragmented messages.
///
/// Buffers bytes only while a frame or a message is incomplete: at most `max_message_bytes` and a head. The
/// buffer is boxed because it is usually not needed.
#[derive(Debug)]
pub(crate) struct FrameReader {
    partial: Option<Box<PartialInput>>,
    max_message_bytes: u32,
}

#[derive(Debug, Default)]
struct PartialInput {
    /// Incomplete frame.
    unparsed: Vec<u8>,
    /// Incomplete message.
    fragments: Option<Fragments>,
}

#[derive(Debug)]
struct Fragments {
    opcode: Opcode,
    payload: Vec<u8>,
}

struct IncomingFrame<'a> {
    head: FrameHead,
    payload: Cow<'a, [u8]>,
}

impl FrameReader {
    pub(crate) fn new(max_message_bytes: u32) -> Self {
        Self { partial: None, max_message_bytes }
    }

    /// Consumes bytes from the beginning of `input` up to the end of the item that it returns. `None`: all of
    /// `input` was consumed, and no item is complete. After a fault the stream cannot be parsed any further.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Incoming<'a>>, ProtocolFault> {
        if self.partial.is_none()
            && let Some(whole) = self.next_unfragmented(input)?
        {
            return Ok(Some(whole));
        }
        if input.is_empty() {
            return Ok(None);
        }
        let mut partial = self.partial.take().unwrap_or_default();
        while let Some(frame) = partial.next_buffered_frame(input, self.max_message_bytes)? {
            if let Some(incoming) = partial.assemble(frame)? {
                if partial.is_needed() {
                    self.partial = Some(partial);
                }
                return Ok(Some(incoming));
            }
        }
        if partial.is_needed() {
            self.partial = Some(partial);
        }
        Ok(None)
    }

    /// Returns a message that consists of one complete frame. This is the fast path for the usual case.
    fn next_unfragmented<'a>(&self, input: &mut &'a [u8]) -> Result<Option<Incoming<'a>>, ProtocolFault> {
        let Some(head) = checked_head(input, 0, self.max_message_bytes)? else { return Ok(None) };
        if !head.is_final || head.opcode == Opcode::Continuation {
            return Ok(None);
        }
        let Some((frame, rest)) = input.split_at_checked(frame_bytes(head)) else { return Ok(None) };
        *input = rest;
        message(head.opcode, Cow::Borrowed(&frame[head.head_bytes..])).map(Some)
    }

    #[cfg(test)]
    pub(super) fn buffered_bytes(&self) -> usize {
        let Some(partial) = &self.partial else { return 0 };
        let fragments = partial.fragments.as_ref().map_or(0, |fragments| fragments.payload.capacity());
        size_of::<PartialInput>() + partial.unparsed.capacity() + fragments
    }
}

impl PartialInput {
    fn is_needed(&self) -> bool {
        !self.unparsed.is_empty() || self.fragments.is_some()
    }

    fn next_buffered_frame<'a>(
        &mut self,
        input: &mut &'a [u8],
        limit: u32,
    ) -> Result<Option<IncomingFrame<'a>>, ProtocolFault> {
        let buffered = self.fragments.as_ref().map_or(0, |fragments| fragments.payload.len());
        if self.unparsed.is_empty()
            && let Some(head) = checked_head(input, buffered, limit)?
            && let Some((frame, rest)) = input.split_at_checked(frame_bytes(head))
        {
            *input = rest;
            return Ok(Some(IncomingFrame { head, payload: Cow::Borrowed(&frame[head.head_bytes..]) }));
        }
        loop {
            let head = checked_head(&self.unparsed, buffered, limit)?;
            // Without a head, one more byte may complete it.
            let missing = head.map_or(1, |head| frame_bytes(head) - self.unparsed.len());
            if let Some(head) = head
                && missing == 0
            {
                let mut payload = mem::take(&mut self.unparsed);
                payload.drain(..head.head_bytes);
                return Ok(Some(IncomingFrame { head, payload: Cow::Owned(payload) }));
            }
            if input.is_empty() {
                return Ok(None);
            }
            let (taken, rest) = input.split_at(missing.min(input.len()));
            self.unparsed.extend_from_slice(taken);
            *input = rest;
        }
    }

    fn assemble<'a>(&mut self, frame: IncomingFrame<'a>) -> Result<Option<Incoming<'a>>, ProtocolFault> {
        let IncomingFrame { head: FrameHead { opcode, is_final, .. }, payload } = frame;
        match opcode {
            Opcode::Ping | Opcode::Pong | Opcode::Close => return message(opcode, payload).map(Some),
            Opcode::Text | Opcode::Binary if self.fragments.is_some() => {
                return Err(ProtocolFault::MessageWithinMessage);
            }
            Opcode::Text | Opcode::Binary if is_final => return message(opcode, payload).map(Some),
            Opcode::Text | Opcode::Binary => {
                self.fragments = Some(Fragments { opcode, payload: payload.into_owned() });
            }
            Opcode::Continuation => {
                let fragments = self.fragments.as_mut().ok_or(ProtocolFault::NothingToContinue)?;
                fragments.payload.extend_from_slice(&payload);
                if is_final && let Some(whole) = self.fragments.take() {
                    return message(whole.opcode, Cow::Owned(whole.payload)).map(Some);
                }
            }
        }
        Ok(None)
    }
}

/// Parses the head, if it is complete. Rejects a frame that, together with the fragments before it, makes its
/// message too big.
fn checked_head(bytes: &[u8], buffered: usize, limit: u32) -> Result<Option<FrameHead>, ProtocolFault> {
    let Some(head) = FrameHead::parse(bytes)? else { return Ok(None) };
    let before = if head.opcode == Opcode::Continuation { buffered as u64 } else { 0 };
    let message_bytes = before.saturating_add(head.payload_bytes);
    if message_bytes > limit.into() { Err(ProtocolFault::TooBig(message_bytes)) } else { Ok(Some(head)) }
}

/// Returns the length of a frame within the limit, which fits into memory.
fn frame_bytes(head: FrameHead) -> usize {
    head.head_bytes + usize::try_from(head.payload_bytes).expect("the limit is a u32")
}

fn message(opcode: Opcode, payload: Cow<'_, [u8]>) -> Result<Incoming<'_>, ProtocolFault> {
    Ok(match opcode {
        Opcode::Text => Incoming::Text(text(payload)?),
        Opcode::Binary => Incoming::Binary(payload),
        Opcode::Ping => Incoming::Ping(payload),
        Opcode::Pong => Incoming::Pong(payload),
        Opcode::Close => Incoming::Close(close_code(&payload)?),
        Opcode::Continuation => return Err(ProtocolFault::NothingToContinue),
    })
}

fn text(payload: Cow<'_, [u8]>) -> Result<Cow<'_, str>, ProtocolFault> {
    match payload {
        Cow::Borrowed(bytes) => str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| ProtocolFault::NotUtf8),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| ProtocolFault::NotUtf8),
    }
}

/// Parses the code of a Close frame, and checks that it may be sent (RFC 6455, section 7.4).
fn close_code(payload: &[u8]) -> Result<Option<u16>, ProtocolFault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok(None) } else { Err(ProtocolFault::HalfACloseCode) };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(ProtocolFault::CloseCode(code));
    }
    str::from_utf8(reason).map_err(|_| ProtocolFault::NotUtf8)?;
    Ok(Some(code))
}
