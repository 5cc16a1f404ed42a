//! Requests over one HTTP/1.1 connection, and their answers in the same order, for which a server may take its time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::body::Framing;
use super::http_head::{MAX_HEAD_BYTES, ResponseHead};
use super::read_buffer;
use super::websocket::{End, Fault};

/// The longest answer that is read: what a server has gathered for a client, in one piece.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// An answer, once all of it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    /// No other request may follow on the connection.
    pub(crate) is_last: bool,
}

/// While an answer is awaited nothing is kept but the socket: bytes are read into a buffer of the whole thread.
#[derive(Debug)]
pub(crate) struct Requests<S = TcpStream> {
    stream: S,
    unwritten: Vec<u8>,
    /// What has come of an answer, or after one.
    received: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Requests<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, unwritten: Vec::new(), received: Vec::new() }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    /// Sends a request, as far as the kernel takes it; waiting for the answer sends the rest.
    pub(crate) fn send(&mut self, context: &mut Context<'_>, request: Vec<u8>) {
        self.unwritten = request;
        // An error shows when the answer is read.
        let _ = self.poll_flush(context);
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), End>> {
        while !self.unwritten.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.unwritten));
            match written {
                Ok(0) | Err(_) => return Poll::Ready(Err(End::Cut)),
                Ok(written) => drop(self.unwritten.drain(..written)),
            }
        }
        self.unwritten = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Hands the answer to `read`. Nothing is lost if it is not called again after `Pending`.
    pub(crate) fn poll_answer<T>(
        &mut self,
        context: &mut Context<'_>,
        read: impl FnOnce(Answer<'_>) -> T,
    ) -> Poll<Result<T, End>> {
        // A server may answer before it has read everything.
        let _ = self.poll_flush(context);
        let mut read = Some(read);
        // It may have come with the one before.
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

    /// Ready when the server has ended the connection, or says something that it was not asked for.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut buffer = [0];
        Pin::new(&mut self.stream).poll_read(context, &mut ReadBuf::new(&mut buffer)).map(drop)
    }

    /// Takes bytes that were read. `None`: the answer is not complete.
    fn take<T>(
        &mut self,
        bytes: &[u8],
        is_over: bool,
        read: &mut Option<impl FnOnce(Answer<'_>) -> T>,
    ) -> Result<Option<T>, End> {
        // As a rule an answer comes in one piece.
        let is_whole = self.received.is_empty();
        if !is_whole {
            self.received.extend_from_slice(bytes);
        }
        let mut body = Vec::new();
        let so_far = if is_whole { bytes } else { &self.received };
        if let Some((answer, rest)) = parse(so_far, is_over, &mut body)? {
            let value = read.take().map(|read| read(answer));
            self.received = rest.to_vec();
            return Ok(value);
        }
        if is_over {
            return Err(End::Cut);
        }
        if is_whole {
            self.received = bytes.to_vec();
        }
        Ok(None)
    }
}

impl Requests<TcpStream> {
    /// From now on the connection ends with a reset whenever it is dropped.
    pub(crate) fn reset_on_drop(&self) {
        // Where that cannot be had, it ends as usual.
        let _ = self.stream.set_zero_linger();
    }
}

/// The answer with which these bytes begin, and what follows it, once all of it is there. A body in chunks is put together in `chunks`.
fn parse<'a>(
    bytes: &'a [u8],
    is_over: bool,
    chunks: &'a mut Vec<u8>,
) -> Result<Option<(Answer<'a>, &'a [u8])>, End> {
    let split = ResponseHead::split(bytes).map_err(|_| End::Fault(Fault::NotHttp))?;
    let Some((head, length)) = split else {
        let is_too_long = bytes.len() >= MAX_HEAD_BYTES;
        return if is_too_long { Err(End::Fault(Fault::NotHttp)) } else { Ok(None) };
    };
    if bytes.len() > MAX_ANSWER_BYTES {
        return Err(End::Fault(Fault::TooBig(bytes.len() as u64)));
    }
    let mut rest = &bytes[length..];
    // RFC 9112, section 6.3: these have no body.
    let mut framing =
        if head.status == 204 || head.status == 304 { Framing::Length(0) } else { Framing::of(&head) };
    let body = match framing {
        Framing::Length(_) | Framing::UntilClose => framing.next(&mut rest).map_err(End::Fault)?,
        Framing::Chunked(_) => {
            while !rest.is_empty() && !framing.is_over() {
                chunks.extend_from_slice(framing.next(&mut rest).map_err(End::Fault)?);
            }
            &*chunks
        }
    };
    let is_complete = framing.is_over() || (is_over && framing.may_end());
    let is_last = (is_over && rest.is_empty()) || !framing.is_over() || head.lists("connection", "close");
    Ok(is_complete.then_some((Answer { status: head.status, body, is_last }, rest)))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    /// What is read of these pieces, after which the server may end the connection.
    async fn read(pieces: &[&str], ends: bool) -> Result<(u16, String, bool), End> {
        let (ours, mut theirs) = duplex(1 << 20);
        let mut requests = Requests::new(ours);
        let server = async {
            for piece in pieces {
                theirs.write_all(piece.as_bytes()).await.expect("there is room");
                tokio::task::yield_now().await;
            }
            if ends {
                theirs.shutdown().await.expect("it is open");
            }
        };
        let read = |Answer { status, body, is_last }: Answer<'_>| {
            (status, String::from_utf8(body.to_vec()).expect("text"), is_last)
        };
        let answer = poll_fn(|context| requests.poll_answer(context, read));
        tokio::join!(server, answer).1
    }

    #[tokio::test]
    async fn answers_end_where_they_say() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
        assert_eq!(read(&[whole], false).await, Ok((200, "[]".to_owned(), false)));
        let pieces: Vec<_> = whole.split_inclusive(|_| true).collect();
        assert_eq!(read(&pieces, false).await, Ok((200, "[]".to_owned(), false)));
        let last = "HTTP/1.1 409 Conflict\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(&[last], false).await, Ok((409, String::new(), true)));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = read(&[chunked, "1\r\n[\r\n1\r\n", "]\r\n0\r\n", "\r\n"], false).await;
        assert_eq!(answer, Ok((200, "[]".to_owned(), false)));
        assert_eq!(
            read(&["HTTP/1.1 200 OK\r\n\r\n", "[", "]"], true).await,
            Ok((200, "[]".to_owned(), true))
        );
        assert_eq!(read(&["HTTP/1.1 204 No Content\r\n\r\n"], false).await, Ok((204, String::new(), false)));
    }

    #[tokio::test]
    async fn answers_may_come_together() {
        let (ours, mut theirs) = duplex(1000);
        let mut requests = Requests::new(ours);
        let first = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        let second = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb";
        theirs.write_all(format!("{first}{second}").as_bytes()).await.expect("there is room");
        for expected in [b"a", b"b"] {
            let body = poll_fn(|context| requests.poll_answer(context, |answer| answer.body.to_vec())).await;
            assert_eq!(body.as_deref(), Ok(&expected[..]));
        }
    }

    #[tokio::test]
    async fn what_is_no_answer_is_an_end() {
        assert_eq!(read(&[], true).await, Err(End::Cut));
        assert_eq!(read(&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n["], true).await, Err(End::Cut));
        assert_eq!(read(&["\x01\x02"], false).await, Err(End::Fault(Fault::NotHttp)));
        let endless = "x".repeat(MAX_HEAD_BYTES);
        assert_eq!(read(&["HTTP/1.1 200 OK\r\nA: ", &endless], false).await, Err(End::Fault(Fault::NotHttp)));
        let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n";
        assert_eq!(read(&[chunk], false).await, Err(End::Fault(Fault::Chunk)));
        let long =
            format!("HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n{}", "x".repeat(MAX_ANSWER_BYTES));
        const PIECE: usize = 1 << 16;
        let pieces: Vec<_> =
            (0..long.len()).step_by(PIECE).map(|at| &long[at..long.len().min(at + PIECE)]).collect();
        assert!(matches!(read(&pieces, false).await, Err(End::Fault(Fault::TooBig(_)))));
    }
}
