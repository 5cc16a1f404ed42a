//! From bytes as they come to messages and control frames. Pure: it reads no socket and no clock.

use std::borrow::Cow;
use std::mem;

use super::fault::Fault;
use super::head::{Head, Opcode};

/// What the server has sent. It borrows from the input, unless it came in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming<'a> {
    Text(Cow<'a, str>),
    Binary(Cow<'a, [u8]>),
    Ping(Cow<'a, [u8]>),
    Pong(Cow<'a, [u8]>),
    /// With its code, if it has one.
    Close(Option<u16>),
}

/// Takes frames out of a stream of bytes, and puts fragments together.
///
/// It keeps bytes only while a frame or a message is incomplete: at most `max_message_bytes` and a head. They are boxed,
/// for as a rule there are none.
#[derive(Debug)]
pub(crate) struct Reader {
    kept: Option<Box<Kept>>,
    max_message_bytes: u32,
}

#[derive(Debug, Default)]
struct Kept {
    /// The beginning of a frame.
    partial: Vec<u8>,
    /// The beginning of a message.
    fragments: Option<Fragments>,
}

#[derive(Debug)]
struct Fragments {
    opcode: Opcode,
    payload: Vec<u8>,
}

struct Frame<'a> {
    head: Head,
    payload: Cow<'a, [u8]>,
}

impl Reader {
    pub(crate) fn new(max_message_bytes: u32) -> Self {
        Self { kept: None, max_message_bytes }
    }

    /// Takes from the beginning of `input` up to the end of what it returns. `None`: all of `input` was taken, and
    /// nothing is complete. After a fault the stream has no meaning any more.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Incoming<'a>>, Fault> {
        if self.kept.is_none()
            && let Some(whole) = self.next_whole(input)?
        {
            return Ok(Some(whole));
        }
        if input.is_empty() {
            return Ok(None);
        }
        let mut kept = self.kept.take().unwrap_or_default();
        while let Some(frame) = kept.next_frame(input, self.max_message_bytes)? {
            if let Some(incoming) = kept.assemble(frame)? {
                if kept.is_needed() {
                    self.kept = Some(kept);
                }
                return Ok(Some(incoming));
            }
        }
        if kept.is_needed() {
            self.kept = Some(kept);
        }
        Ok(None)
    }

    /// The usual case: a message that is one frame, and all there.
    fn next_whole<'a>(&self, input: &mut &'a [u8]) -> Result<Option<Incoming<'a>>, Fault> {
        let Some(head) = checked_head(input, 0, self.max_message_bytes)? else { return Ok(None) };
        if !head.is_final || head.opcode == Opcode::Continuation {
            return Ok(None);
        }
        let Some((frame, rest)) = input.split_at_checked(frame_bytes(head)) else { return Ok(None) };
        *input = rest;
        message(head.opcode, Cow::Borrowed(&frame[head.head_bytes..])).map(Some)
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        let Some(kept) = &self.kept else { return 0 };
        let fragments = kept.fragments.as_ref().map_or(0, |fragments| fragments.payload.capacity());
        size_of::<Kept>() + kept.partial.capacity() + fragments
    }
}

impl Kept {
    fn is_needed(&self) -> bool {
        !self.partial.is_empty() || self.fragments.is_some()
    }

    fn next_frame<'a>(&mut self, input: &mut &'a [u8], limit: u32) -> Result<Option<Frame<'a>>, Fault> {
        let begun = self.fragments.as_ref().map_or(0, |fragments| fragments.payload.len());
        if self.partial.is_empty()
            && let Some(head) = checked_head(input, begun, limit)?
            && let Some((frame, rest)) = input.split_at_checked(frame_bytes(head))
        {
            *input = rest;
            return Ok(Some(Frame { head, payload: Cow::Borrowed(&frame[head.head_bytes..]) }));
        }
        loop {
            let head = checked_head(&self.partial, begun, limit)?;
            // Without a head, one byte more may complete it.
            let missing = head.map_or(1, |head| frame_bytes(head) - self.partial.len());
            if let Some(head) = head
                && missing == 0
            {
                let mut payload = mem::take(&mut self.partial);
                payload.drain(..head.head_bytes);
                return Ok(Some(Frame { head, payload: Cow::Owned(payload) }));
            }
            if input.is_empty() {
                return Ok(None);
            }
            let (taken, rest) = input.split_at(missing.min(input.len()));
            self.partial.extend_from_slice(taken);
            *input = rest;
        }
    }

    fn assemble<'a>(&mut self, frame: Frame<'a>) -> Result<Option<Incoming<'a>>, Fault> {
        let Frame { head: Head { opcode, is_final, .. }, payload } = frame;
        match opcode {
            Opcode::Ping | Opcode::Pong | Opcode::Close => return message(opcode, payload).map(Some),
            Opcode::Text | Opcode::Binary if self.fragments.is_some() => {
                return Err(Fault::MessageWithinMessage);
            }
            Opcode::Text | Opcode::Binary if is_final => return message(opcode, payload).map(Some),
            Opcode::Text | Opcode::Binary => {
                self.fragments = Some(Fragments { opcode, payload: payload.into_owned() });
            }
            Opcode::Continuation => {
                let fragments = self.fragments.as_mut().ok_or(Fault::NothingToContinue)?;
                fragments.payload.extend_from_slice(&payload);
                if is_final && let Some(whole) = self.fragments.take() {
                    return message(whole.opcode, Cow::Owned(whole.payload)).map(Some);
                }
            }
        }
        Ok(None)
    }
}

/// The head, if it is complete, of a frame that is not too big after the fragments before it.
fn checked_head(bytes: &[u8], begun: usize, limit: u32) -> Result<Option<Head>, Fault> {
    let Some(head) = Head::parse(bytes)? else { return Ok(None) };
    let before = if head.opcode == Opcode::Continuation { begun as u64 } else { 0 };
    let message_bytes = before.saturating_add(head.payload_bytes);
    if message_bytes > limit.into() { Err(Fault::TooBig(message_bytes)) } else { Ok(Some(head)) }
}

/// That of a frame within the limit, which fits into memory.
fn frame_bytes(head: Head) -> usize {
    head.head_bytes + usize::try_from(head.payload_bytes).expect("the limit is a u32")
}

fn message(opcode: Opcode, payload: Cow<'_, [u8]>) -> Result<Incoming<'_>, Fault> {
    Ok(match opcode {
        Opcode::Text => Incoming::Text(text(payload)?),
        Opcode::Binary => Incoming::Binary(payload),
        Opcode::Ping => Incoming::Ping(payload),
        Opcode::Pong => Incoming::Pong(payload),
        Opcode::Close => Incoming::Close(close_code(&payload)?),
        Opcode::Continuation => return Err(Fault::NothingToContinue),
    })
}

fn text(payload: Cow<'_, [u8]>) -> Result<Cow<'_, str>, Fault> {
    match payload {
        Cow::Borrowed(bytes) => str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Fault::NotUtf8),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Fault::NotUtf8),
    }
}

/// RFC 6455, section 7.4: the codes that a Close frame may have.
fn close_code(payload: &[u8]) -> Result<Option<u16>, Fault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok(None) } else { Err(Fault::HalfACloseCode) };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Fault::CloseCode(code));
    }
    str::from_utf8(reason).map_err(|_| Fault::NotUtf8)?;
    Ok(Some(code))
}
