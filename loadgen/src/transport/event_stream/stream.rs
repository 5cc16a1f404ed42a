//! A response that goes on, read from a socket.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use super::body::Framing;
use super::parser::{Found, Parser};
use crate::transport::read_buffer;
use crate::transport::websocket::{End, Fault};

#[derive(Debug)]
pub(crate) struct EventStream {
    stream: TcpStream,
    framing: Framing,
    parser: Parser,
    /// What was read, but came after the event with which its reader stopped: first of the body, then of the stream.
    unparsed: Vec<u8>,
    unread: Vec<u8>,
}

impl EventStream {
    /// `unread` is what followed the head.
    pub(crate) fn new(stream: TcpStream, framing: Framing, unread: Vec<u8>) -> Self {
        Self { stream, framing, parser: Parser::default(), unparsed: Vec::new(), unread }
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        // Where that cannot be had, it ends like any other that is dropped.
        let _ = self.stream.set_zero_linger();
    }

    /// Hands everything that arrives to `on_found`, until it breaks or the stream ends.
    pub(crate) fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_found: &mut impl FnMut(Found<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, End>> {
        loop {
            let (unparsed, unread) = (std::mem::take(&mut self.unparsed), std::mem::take(&mut self.unread));
            if let Some(result) = self.take(&unparsed, &unread, on_found) {
                return Poll::Ready(result);
            }
            let result = read_buffer::lend(|buffer| {
                let mut buffer = ReadBuf::new(buffer);
                match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                    Ok(()) if buffer.filled().is_empty() => Poll::Ready(Some(Err(self.end_of_stream()))),
                    Ok(()) => Poll::Ready(self.take(&[], buffer.filled(), on_found)),
                    Err(_) => Poll::Ready(Some(Err(End::Cut))),
                }
            });
            if let Some(result) = ready!(result) {
                return Poll::Ready(result);
            }
        }
    }

    fn end_of_stream(&self) -> End {
        if self.framing.may_end() { End::Closed(None) } else { End::Cut }
    }

    /// What comes of bytes of the body, and then of the stream. `None`: and reading goes on.
    fn take<T>(
        &mut self,
        body: &[u8],
        bytes: &[u8],
        on_found: &mut impl FnMut(Found<'_>) -> ControlFlow<T>,
    ) -> Option<Result<T, End>> {
        match self.try_take(body, bytes, on_found) {
            Ok(Some(value)) => Some(Ok(value)),
            Ok(None) if self.framing.is_over() => Some(Err(End::Closed(None))),
            Ok(None) => None,
            Err(fault) => Some(Err(End::Fault(fault))),
        }
    }

    fn try_take<'a, T>(
        &mut self,
        mut body: &'a [u8],
        mut bytes: &'a [u8],
        on_found: &mut impl FnMut(Found<'_>) -> ControlFlow<T>,
    ) -> Result<Option<T>, Fault> {
        let mut found = |found: Found<'_>| match on_found(found) {
            ControlFlow::Break(value) => Some(value),
            ControlFlow::Continue(()) => None,
        };
        loop {
            if let Some((value, rest)) = self.parser.feed(body, &mut found)? {
                self.unparsed = rest.to_vec();
                self.unread = bytes.to_vec();
                return Ok(Some(value));
            }
            if bytes.is_empty() || self.framing.is_over() {
                return Ok(None);
            }
            body = self.framing.next(&mut bytes)?;
        }
    }
}
