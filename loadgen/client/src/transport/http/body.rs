//! Framing of the body of an HTTP/1.1 response (RFC 9112, section 6).

use httparse::{EMPTY_HEADER, Status, parse_chunk_size, parse_headers};

use super::head::ResponseHead;
use crate::transport::websocket::ProtocolFault;

/// Size limit for the head of a chunk with its extensions, and for the trailers.
const MAX_CHUNK_HEAD_BYTES: usize = 1024;
const MAX_TRAILERS: usize = 16;

/// Determines which bytes of a stream belong to the body.
#[derive(Debug)]
pub(in crate::transport) enum Framing {
    /// Everything up to the end of the stream belongs to the body.
    UntilClose,
    /// Number of bytes still to come.
    Length(u64),
    /// At the line with the length of the next chunk.
    ChunkHead,
    /// In a chunk, with this many bytes left before its line break.
    Chunk(u64),
    /// At the trailers after the last chunk.
    Trailers,
}

impl Framing {
    pub(in crate::transport) fn of(head: &ResponseHead) -> Self {
        // RFC 9112, section 6.3: responses with these statuses have no body.
        if matches!(head.status, 204 | 304) {
            return Self::Length(0);
        }
        if head.has_token("transfer-encoding", "chunked") {
            return Self::ChunkHead;
        }
        head.header("content-length")
            .and_then(|length| length.parse().ok())
            .map_or(Self::UntilClose, Self::Length)
    }

    pub(in crate::transport) fn is_over(&self) -> bool {
        matches!(self, Self::Length(0))
    }

    /// Returns whether the body may end when the stream ends.
    pub(in crate::transport) fn may_end(&self) -> bool {
        matches!(self, Self::Length(0) | Self::UntilClose)
    }

    /// Removes bytes from the beginning of `input`, and returns the next bytes of the body. The result is empty
    /// if the body is over or more input is needed.
    pub(in crate::transport) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<&'a [u8], ProtocolFault> {
        loop {
            let (used, next) = match self {
                Self::UntilClose => return Ok(std::mem::take(input)),
                Self::Length(left) => return Ok(take(left, input)),
                Self::Chunk(left @ 1..) => return Ok(take(left, input)),
                Self::Chunk(0) if input.starts_with(b"\r\n") => (2, Self::ChunkHead),
                Self::Chunk(0) if b"\r\n".starts_with(input) => return Ok(&[]),
                Self::ChunkHead if !input.starts_with(b"\r") => match parse_chunk_size(input) {
                    Ok(Status::Complete((used, 0))) => (used, Self::Trailers),
                    Ok(Status::Complete((used, length))) => (used, Self::Chunk(length)),
                    Ok(Status::Partial) if input.len() < MAX_CHUNK_HEAD_BYTES => return Ok(&[]),
                    Ok(Status::Partial) | Err(_) => return Err(ProtocolFault::Chunk),
                },
                Self::Trailers => match parse_headers(input, &mut [EMPTY_HEADER; MAX_TRAILERS]) {
                    Ok(Status::Complete((used, _))) => (used, Self::Length(0)),
                    Ok(Status::Partial) if input.len() < MAX_CHUNK_HEAD_BYTES => return Ok(&[]),
                    Ok(Status::Partial) | Err(_) => return Err(ProtocolFault::Chunk),
                },
                Self::Chunk(0) | Self::ChunkHead => return Err(ProtocolFault::Chunk),
            };
            *input = &input[used..];
            *self = next;
        }
    }
}

/// Splits up to `left` bytes off the beginning of `input`.
fn take<'a>(left: &mut u64, input: &mut &'a [u8]) -> &'a [u8] {
    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    let (taken, rest) = input.split_at(length);
    *input = rest;
    *left -= length as u64;
    taken
}
