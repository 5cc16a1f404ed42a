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
/// It keeps bytes only while a frame or a message is incomplete: at most `max_message_bytes` and a head.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The beginning of a frame.
    partial: Vec<u8>,
    /// The beginning of a message. Boxed, for messages in fragments are rare.
    fragments: Option<Box<Fragments>>,
    max_message_bytes: u32,
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
        Self { partial: Vec::new(), fragments: None, max_message_bytes }
    }

    /// Takes from the beginning of `input` up to the end of what it returns. `None`: all of `input` was taken, and
    /// nothing is complete. After a fault the stream has no meaning any more.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Incoming<'a>>, Fault> {
        while let Some(frame) = self.next_frame(input)? {
            if let Some(incoming) = self.assemble(frame)? {
                return Ok(Some(incoming));
            }
        }
        Ok(None)
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.partial.capacity() + self.fragments.as_ref().map_or(0, |fragments| fragments.payload.capacity())
    }

    fn next_frame<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Frame<'a>>, Fault> {
        if self.partial.is_empty()
            && let Some(head) = self.head(input)?
            && let Some((frame, rest)) = input.split_at_checked(frame_bytes(head))
        {
            *input = rest;
            return Ok(Some(Frame { head, payload: Cow::Borrowed(&frame[head.head_bytes..]) }));
        }
        loop {
            let head = self.head(&self.partial)?;
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

    /// The head, if it is complete, of a frame that is not too big.
    fn head(&self, bytes: &[u8]) -> Result<Option<Head>, Fault> {
        let Some(head) = Head::parse(bytes)? else { return Ok(None) };
        let begun = match (&self.fragments, head.opcode) {
            (Some(fragments), Opcode::Continuation) => fragments.payload.len() as u64,
            _ => 0,
        };
        let message_bytes = begun.saturating_add(head.payload_bytes);
        if message_bytes > self.max_message_bytes.into() {
            return Err(Fault::TooBig(message_bytes));
        }
        Ok(Some(head))
    }

    fn assemble<'a>(&mut self, frame: Frame<'a>) -> Result<Option<Incoming<'a>>, Fault> {
        let Frame { head: Head { opcode, is_final, .. }, payload } = frame;
        match opcode {
            Opcode::Ping => return Ok(Some(Incoming::Ping(payload))),
            Opcode::Pong => return Ok(Some(Incoming::Pong(payload))),
            Opcode::Close => return close_code(&payload).map(|code| Some(Incoming::Close(code))),
            Opcode::Text | Opcode::Binary if self.fragments.is_some() => {
                return Err(Fault::MessageWithinMessage);
            }
            Opcode::Text | Opcode::Binary if is_final => return message(opcode, payload).map(Some),
            Opcode::Text | Opcode::Binary => {
                self.fragments = Some(Box::new(Fragments { opcode, payload: payload.into_owned() }));
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

/// That of a frame within the limit, which fits into memory.
fn frame_bytes(head: Head) -> usize {
    head.head_bytes + usize::try_from(head.payload_bytes).expect("the limit is a u32")
}

fn message(opcode: Opcode, payload: Cow<'_, [u8]>) -> Result<Incoming<'_>, Fault> {
    if opcode != Opcode::Text {
        return Ok(Incoming::Binary(payload));
    }
    let text = match payload {
        Cow::Borrowed(bytes) => str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Fault::NotUtf8),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Fault::NotUtf8),
    };
    text.map(Incoming::Text)
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
