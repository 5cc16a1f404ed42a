//! A connection with or without TLS, and reading and writing without a buffer for each connection.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

const READ_BUFFER_BYTES: usize = 64 * 1024;

/// A connection to a server. TLS is boxed, so that it does not enlarge connections without it.
pub type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

pub(super) fn tcp(stream: &Stream) -> &TcpStream {
    match stream {
        Either::Left(stream) => stream,
        Either::Right(stream) => stream.get_ref().0,
    }
}

thread_local! {
    static READ_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Passes bytes to `parse`, which removes those that it uses. The others stay in `unparsed`, which takes no
/// memory while it is empty, and are passed again together with those that arrive later. Returns `None` if
/// `parse` has used bytes without a result, or needs more. The end of the stream is the error `UnexpectedEof`.
pub(super) fn poll_parse<S: AsyncRead + Unpin, T>(
    stream: &mut S,
    context: &mut Context<'_>,
    unparsed: &mut Vec<u8>,
    mut parse: impl FnMut(&mut &[u8]) -> Option<T>,
) -> Poll<io::Result<Option<T>>> {
    let kept = unparsed.len();
    let found = parse_kept(unparsed, &mut parse);
    if found.is_some() || unparsed.len() < kept {
        return Poll::Ready(Ok(found));
    }
    // A nested call gets a separate buffer.
    let mut buffer = READ_BUFFER.take();
    buffer.resize(READ_BUFFER_BYTES, 0);
    let found = poll_read(stream, context, &mut buffer).map_ok(|mut bytes| {
        if unparsed.is_empty() {
            let found = parse(&mut bytes);
            *unparsed = bytes.to_vec();
            found
        } else {
            unparsed.extend_from_slice(bytes);
            parse_kept(unparsed, &mut parse)
        }
    });
    READ_BUFFER.set(buffer);
    found
}

fn parse_kept<T>(unparsed: &mut Vec<u8>, parse: &mut impl FnMut(&mut &[u8]) -> Option<T>) -> Option<T> {
    if unparsed.is_empty() {
        return None;
    }
    let mut rest = unparsed.as_slice();
    let found = parse(&mut rest);
    if rest.is_empty() {
        *unparsed = Vec::new();
    } else {
        unparsed.drain(..unparsed.len() - rest.len());
    }
    found
}

/// Reads into the buffer, and returns the bytes. The end of the stream is the error `UnexpectedEof`.
pub(super) fn poll_read<'a, S: AsyncRead + Unpin>(
    stream: &mut S,
    context: &mut Context<'_>,
    buffer: &'a mut [u8],
) -> Poll<io::Result<&'a [u8]>> {
    let mut read = ReadBuf::new(buffer);
    ready!(Pin::new(stream).poll_read(context, &mut read))?;
    let length = read.filled().len();
    Poll::Ready(if length == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(&buffer[..length]) })
}

/// Becomes ready when nothing is left to write. Then the vector uses no memory.
pub(super) fn poll_write_all<S: AsyncWrite + Unpin>(
    stream: &mut S,
    context: &mut Context<'_>,
    unwritten: &mut Vec<u8>,
) -> Poll<io::Result<()>> {
    while !unwritten.is_empty() {
        let written = ready!(Pin::new(&mut *stream).poll_write(context, unwritten))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        unwritten.drain(..written);
    }
    *unwritten = Vec::new();
    // TLS keeps records that the kernel has not accepted.
    Pin::new(stream).poll_flush(context)
}
