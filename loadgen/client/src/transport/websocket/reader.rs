//! Parses bytes into messages and control frames. The code is pure: it uses neither socket nor clock.

use std::borrow::Cow;

use super::end::ProtocolFault;
use super::frame::{FrameHead, Opcode};

/// A message or control frame from the server. Borrows from the input unless it arrived in several fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    Text(Cow<'a, str>),
    Binary(Cow<'a, [u8]>),
    Ping(Cow<'a, [u8]>),
    Pong(Cow<'a, [u8]>),
    /// Close frame with its code, if it has one.
    Close(Option<u16>),
}

/// Incomplete message: the opcode of its first fragment, and the payload so far.
pub(super) type Fragments = Option<(Opcode, Vec<u8>)>;

/// Removes frames from the beginning of `input` up to the end of the item that it returns. `None`: the rest of
/// `input` is an incomplete frame. A message has at most `limit` bytes. After a fault the stream cannot be
/// parsed any further.
pub(super) fn next<'a>(
    fragments: &mut Fragments,
    input: &mut &'a [u8],
    limit: u32,
) -> Result<Option<Incoming<'a>>, ProtocolFault> {
    while let Some(head) = FrameHead::parse(input)? {
        let before = match fragments {
            Some((_, payload)) if head.opcode == Opcode::Continuation => payload.len() as u64,
            _ => 0,
        };
        let message_bytes = before.saturating_add(head.payload_bytes);
        if message_bytes > limit.into() {
            return Err(ProtocolFault::TooBig(message_bytes));
        }
        let payload_bytes = usize::try_from(head.payload_bytes).expect("the limit is a u32");
        let Some((frame, rest)) = input.split_at_checked(head.head_bytes + payload_bytes) else { break };
        *input = rest;
        if let Some(incoming) = assemble(fragments, head, &frame[head.head_bytes..])? {
            return Ok(Some(incoming));
        }
    }
    Ok(None)
}

/// Returns the item that the frame completes.
fn assemble<'a>(
    fragments: &mut Fragments,
    FrameHead { opcode, is_final, .. }: FrameHead,
    payload: &'a [u8],
) -> Result<Option<Incoming<'a>>, ProtocolFault> {
    match (opcode, &mut *fragments) {
        (Opcode::Text | Opcode::Binary, Some(_)) => return Err(ProtocolFault::MessageWithinMessage),
        (Opcode::Text | Opcode::Binary, None) if !is_final => *fragments = Some((opcode, payload.to_vec())),
        (Opcode::Continuation, None) => return Err(ProtocolFault::NothingToContinue),
        (Opcode::Continuation, Some((_, whole))) => {
            whole.extend_from_slice(payload);
            if let Some((opcode, whole)) = fragments.take_if(|_| is_final) {
                return message(opcode, Cow::Owned(whole)).map(Some);
            }
        }
        _ => return message(opcode, Cow::Borrowed(payload)).map(Some),
    }
    Ok(None)
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
