//! HTTP/1.1 requests over one connection, with responses in the same order. A server may delay a response, as
//! in long-polling.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::body::Framing;
use super::http_head::{MAX_HEAD_BYTES, ResponseHead};
use super::read_buffer;
use super::websocket::{ConnectionEnd, ProtocolFault};

/// Size limit for a response, which may contain all messages that a server has gathered for a client.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompleteResponse<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    /// Whether this is the last response on the connection, so that no other request may follow.
    pub(crate) is_last: bool,
}

/// Sends requests over a stream. While a response is pending, only the socket is kept: bytes are read into
/// the thread's shared buffer.
#[derive(Debug)]
pub(crate) struct HttpConnection<S = TcpStream> {
    stream: S,
    unwritten: Vec<u8>,
    /// Incomplete response, or bytes that followed a complete response.
    received: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> HttpConnection<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, unwritten: Vec::new(), received: Vec::new() }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    /// Sends as much of a request as the kernel accepts. Waiting for the response sends the rest.
    pub(crate) fn send(&mut self, context: &mut Context<'_>, request: Vec<u8>) {
        self.unwritten = request;
        // Ignore an error: it is reported when the response is read.
        let _ = self.poll_flush(context);
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionEnd>> {
        while !self.unwritten.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.unwritten));
            match written {
                Ok(0) | Err(_) => return Poll::Ready(Err(ConnectionEnd::NoCloseFrame)),
                Ok(written) => drop(self.unwritten.drain(..written)),
            }
        }
        self.unwritten = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Passes the response to `read`. After `Pending`, the caller may stop calling without losing data.
    pub(crate) fn poll_response<T>(
        &mut self,
        context: &mut Context<'_>,
        read: impl FnOnce(CompleteResponse<'_>) -> T,
    ) -> Poll<Result<T, ConnectionEnd>> {
        // Ignore errors: a server may respond before it has read the whole request.
        let _ = self.poll_flush(context);
        let mut read = Some(read);
        // The response may have arrived together with the previous one.
        if !self.received.is_empty()
            && let Some(value) = self.take(&[], false, &mut read)?
        {
            return Poll::Ready(Ok(value));
        }
        loop {
            let step = read_buffer::lend(|buffer| {
                let mut buffer = ReadBuf::new(buffer);
                let polled = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
                let is_over = polled.is_err() || buffer.filled().is_empty();
                Poll::Ready(self.take(buffer.filled(), is_over, &mut read))
            });
            if let Some(value) = ready!(step)? {
                return Poll::Ready(Ok(value));
            }
        }
    }

    /// Becomes ready when the server has closed the connection, or has sent something without a request.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut buffer = [0];
        Pin::new(&mut self.stream).poll_read(context, &mut ReadBuf::new(&mut buffer)).map(drop)
    }

    /// Handles bytes that were read. Returns `None` if the response is not complete.
    fn take<T>(
        &mut self,
        bytes: &[u8],
        is_over: bool,
        read: &mut Option<impl FnOnce(CompleteResponse<'_>) -> T>,
    ) -> Result<Option<T>, ConnectionEnd> {
        // Avoid copying: a response usually arrives in one piece.
        let is_whole = self.received.is_empty();
        if !is_whole {
            self.received.extend_from_slice(bytes);
        }
        let mut body = Vec::new();
        let so_far = if is_whole { bytes } else { &self.received };
        if let Some((response, rest)) = parse(so_far, is_over, &mut body)? {
            let value = read.take().map(|read| read(response));
            self.received = rest.to_vec();
            return Ok(value);
        }
        if is_over {
            return Err(ConnectionEnd::NoCloseFrame);
        }
        if is_whole {
            self.received = bytes.to_vec();
        }
        Ok(None)
    }
}

impl HttpConnection<TcpStream> {
    /// Makes the connection close with a reset when it is dropped.
    pub(crate) fn reset_on_drop(&self) {
        // If the option cannot be set, the connection closes normally.
        let _ = self.stream.set_zero_linger();
    }
}

/// Parses the response at the beginning of the bytes if it is complete, and returns it with the bytes that
/// follow. A chunked body is assembled in `chunks`.
fn parse<'a>(
    bytes: &'a [u8],
    is_over: bool,
    chunks: &'a mut Vec<u8>,
) -> Result<Option<(CompleteResponse<'a>, &'a [u8])>, ConnectionEnd> {
    let split = ResponseHead::split(bytes).map_err(|_| ConnectionEnd::Fault(ProtocolFault::NotHttp))?;
    let Some((head, length)) = split else {
        let is_too_long = bytes.len() >= MAX_HEAD_BYTES;
        return if is_too_long { Err(ConnectionEnd::Fault(ProtocolFault::NotHttp)) } else { Ok(None) };
    };
    if bytes.len() > MAX_RESPONSE_BYTES {
        return Err(ConnectionEnd::Fault(ProtocolFault::TooBig(bytes.len() as u64)));
    }
    let mut rest = &bytes[length..];
    // RFC 9112, section 6.3: responses with these statuses have no body.
    let mut framing =
        if head.status == 204 || head.status == 304 { Framing::Length(0) } else { Framing::of(&head) };
    let body = match framing {
        Framing::Length(_) | Framing::UntilClose => framing.next(&mut rest).map_err(ConnectionEnd::Fault)?,
        Framing::Chunked(_) => {
            while !rest.is_empty() && !framing.is_over() {
                chunks.extend_from_slice(framing.next(&mut rest).map_err(ConnectionEnd::Fault)?);
            }
            &*chunks
        }
    };
    let is_complete = framing.is_over() || (is_over && framing.may_end());
    let is_last = (is_over && rest.is_empty()) || !framing.is_over() || head.has_token("connection", "close");
    Ok(is_complete.then_some((CompleteResponse { status: head.status, body, is_last }, rest)))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    /// Reads a response that is sent in these pieces. If `ends`, the server then closes the connection.
    async fn read(pieces: &[&str], ends: bool) -> Result<(u16, String, bool), ConnectionEnd> {
        let (ours, mut theirs) = duplex(1 << 20);
        let mut requests = HttpConnection::new(ours);
        let server = async {
            for piece in pieces {
                theirs.write_all(piece.as_bytes()).await.expect("the buffer has room");
                tokio::task::yield_now().await;
            }
            if ends {
                theirs.shutdown().await.expect("the stream is open");
            }
        };
        let read = |CompleteResponse { status, body, is_last }: CompleteResponse<'_>| {
            (status, String::from_utf8(body.to_vec()).expect("the body is text"), is_last)
        };
        let response = poll_fn(|context| requests.poll_response(context, read));
        tokio::join!(server, response).1
    }

    #[tokio::test]
    async fn responses_end_where_their_framing_says() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
        assert_eq!(read(&[whole], false).await, Ok((200, "[]".to_owned(), false)));
        let pieces: Vec<_> = whole.split_inclusive(|_| true).collect();
        assert_eq!(read(&pieces, false).await, Ok((200, "[]".to_owned(), false)));
        let last = "HTTP/1.1 409 Conflict\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(&[last], false).await, Ok((409, String::new(), true)));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let response = read(&[chunked, "1\r\n[\r\n1\r\n", "]\r\n0\r\n", "\r\n"], false).await;
        assert_eq!(response, Ok((200, "[]".to_owned(), false)));
        assert_eq!(
            read(&["HTTP/1.1 200 OK\r\n\r\n", "[", "]"], true).await,
            Ok((200, "[]".to_owned(), true))
        );
        assert_eq!(read(&["HTTP/1.1 204 No Content\r\n\r\n"], false).await, Ok((204, String::new(), false)));
    }

    #[tokio::test]
    async fn responses_may_arrive_together() {
        let (ours, mut theirs) = duplex(1000);
        let mut requests = HttpConnection::new(ours);
        let first = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        let second = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb";
        theirs.write_all(format!("{first}{second}").as_bytes()).await.expect("the buffer has room");
        for expected in [b"a", b"b"] {
            let body =
                poll_fn(|context| requests.poll_response(context, |response| response.body.to_vec())).await;
            assert_eq!(body.as_deref(), Ok(&expected[..]));
        }
    }

    #[tokio::test]
    async fn invalid_responses_end_the_connection() {
        assert_eq!(read(&[], true).await, Err(ConnectionEnd::NoCloseFrame));
        assert_eq!(
            read(&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n["], true).await,
            Err(ConnectionEnd::NoCloseFrame)
        );
        assert_eq!(read(&["\x01\x02"], false).await, Err(ConnectionEnd::Fault(ProtocolFault::NotHttp)));
        let endless = "x".repeat(MAX_HEAD_BYTES);
        assert_eq!(
            read(&["HTTP/1.1 200 OK\r\nA: ", &endless], false).await,
            Err(ConnectionEnd::Fault(ProtocolFault::NotHttp))
        );
        let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n";
        assert_eq!(read(&[chunk], false).await, Err(ConnectionEnd::Fault(ProtocolFault::Chunk)));
        let long =
            format!("HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n{}", "x".repeat(MAX_RESPONSE_BYTES));
        const PIECE: usize = 1 << 16;
        let pieces: Vec<_> =
            (0..long.len()).step_by(PIECE).map(|at| &long[at..long.len().min(at + PIECE)]).collect();
        assert!(matches!(read(&pieces, false).await, Err(ConnectionEnd::Fault(ProtocolFault::TooBig(_)))));
    }
}
