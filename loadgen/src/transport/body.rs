//! Framing of the body of an HTTP/1.1 response (RFC 9112, section 6).

use httparse::Status;

use crate::transport::http_head::ResponseHead;
use crate::transport::websocket::ProtocolFault;

/// Maximum length of the line at the head of a chunk, including extensions.
const MAX_LINE_BYTES: usize = 1024;

/// Determines which bytes of a stream belong to the body.
#[derive(Debug)]
pub(crate) enum Framing {
    /// Everything up to the end of the stream belongs to the body.
    UntilClose,
    /// Number of bytes still to come.
    Length(u64),
    Chunked(Chunked),
}

/// State of reading a chunked body.
#[derive(Debug)]
pub(crate) enum Chunked {
    /// Reading a chunk, with this many bytes left.
    Data(u64),
    /// Reading the line with the length of the next chunk, or the line break that ends a chunk.
    Head(Vec<u8>),
    /// Reading the trailer lines after the last chunk.
    Trailer(Vec<u8>),
    Over,
}

impl Framing {
    pub(crate) fn of(head: &ResponseHead) -> Self {
        if head.has_token("transfer-encoding", "chunked") {
            return Self::Chunked(Chunked::Head(Vec::new()));
        }
        match head.header("content-length").and_then(|length| length.parse().ok()) {
            Some(length) => Self::Length(length),
            None => Self::UntilClose,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunked::Over))
    }

    /// Returns whether the body may end when the stream ends.
    pub(crate) fn may_end(&self) -> bool {
        self.is_over() || matches!(self, Self::UntilClose)
    }

    /// Consumes bytes from the beginning of `input`, and returns the next bytes of the body. The result is
    /// empty if all of the input was consumed or the body is over.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<&'a [u8], ProtocolFault> {
        match self {
            Self::UntilClose => Ok(std::mem::take(input)),
            Self::Length(left) => Ok(take(left, input)),
            Self::Chunked(chunked) => chunked.next(input),
        }
    }
}

impl Chunked {
    fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<&'a [u8], ProtocolFault> {
        loop {
            match self {
                Self::Data(left) => {
                    let data = take(left, input);
                    if *left == 0 {
                        *self = Self::Head(Vec::new());
                    }
                    return Ok(data);
                }
                Self::Head(line) => {
                    if !take_line(line, input)? {
                        return Ok(&[]);
                    }
                    // The line break after a chunk shows up as an empty line before the next head.
                    *self = match chunk_length(line)? {
                        None => Self::Head(Vec::new()),
                        Some(0) => Self::Trailer(Vec::new()),
                        Some(length) => Self::Data(length),
                    };
                }
                Self::Trailer(line) => {
                    if !take_line(line, input)? {
                        return Ok(&[]);
                    }
                    *self = if line.is_empty() { Self::Over } else { Self::Trailer(Vec::new()) };
                }
                // The remaining bytes do not belong to the body.
                Self::Over => return Ok(&[]),
            }
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

/// Moves bytes from `input` to the line up to its line break, which is then removed. Returns whether the line
/// is complete.
fn take_line(line: &mut Vec<u8>, input: &mut &[u8]) -> Result<bool, ProtocolFault> {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (taken, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
    *input = rest;
    line.extend_from_slice(taken);
    if line.len() > MAX_LINE_BYTES {
        return Err(ProtocolFault::Chunk);
    }
    if end.is_some() {
        line.pop();
        line.pop_if(|byte| *byte == b'\r');
    }
    Ok(end.is_some())
}

/// Parses the length of the next chunk. `None` for an empty line.
fn chunk_length(line: &[u8]) -> Result<Option<u64>, ProtocolFault> {
    if line.is_empty() {
        return Ok(None);
    }
    match httparse::parse_chunk_size(&[line, b"\r\n"].concat()) {
        Ok(Status::Complete((_, length))) => Ok(Some(length)),
        Ok(Status::Partial) | Err(_) => Err(ProtocolFault::Chunk),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut framing: Framing, input: &[u8], piece: usize) -> Result<(Vec<u8>, bool), ProtocolFault> {
        let mut body = Vec::new();
        for mut piece in input.chunks(piece) {
            while !piece.is_empty() && !framing.is_over() {
                body.extend_from_slice(framing.next(&mut piece)?);
            }
        }
        Ok((body, framing.is_over()))
    }

    fn chunked() -> Framing {
        Framing::Chunked(Chunked::Head(Vec::new()))
    }

    #[test]
    fn bodies_end_where_their_framing_says() {
        let stream = b"5\r\nhello\r\nA;x=y\r\n, world: 1\r\n0\r\nTrailer: x\r\n\r\nmore";
        for piece in [1, 2, 3, 7, 100] {
            assert_eq!(read(chunked(), stream, piece), Ok((b"hello, world: 1".to_vec(), true)), "{piece}");
            assert_eq!(read(Framing::Length(3), b"abc", piece), Ok((b"abc".to_vec(), true)));
            assert_eq!(read(Framing::UntilClose, b"abc", piece), Ok((b"abc".to_vec(), false)));
        }
    }

    #[test]
    fn invalid_chunks_are_faults() {
        for bad in [&b"x\r\n"[..], b"-1\r\n", b"+1\r\n", b"11111111111111111\r\n", &[b'1'; 2000]] {
            assert_eq!(read(chunked(), bad, 100), Err(ProtocolFault::Chunk), "{bad:?}");
        }
    }
}
