//! A response that goes on, read from a socket.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use super::parser::{Found, Parser};
use crate::transport::body::Framing;
use crate::transport::read_buffer;
use crate::transport::websocket::{End, Fault};

#[derive(Debug)]
pub(crate) struct EventStream {
    stream: TcpStream,
    framing: Framing,
    parser: Parser,
    /// What came with the head, until it is asked for.
    unread: Vec<u8>,
}

impl EventStream {
    /// `unread` is what followed the head.
    pub(crate) fn new(stream: TcpStream, framing: Framing, unread: Vec<u8>) -> Self {
        Self { stream, framing, parser: Parser::default(), unread }
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
        let mut on_found = |found: Found<'_>| match on_found(found) {
            ControlFlow::Break(value) => Some(value),
            ControlFlow::Continue(()) => None,
        };
        let unread = std::mem::take(&mut self.unread);
        if let Err(fault) = self.push(&unread) {
            return Poll::Ready(Err(End::Fault(fault)));
        }
        loop {
            match self.parser.each(&mut on_found) {
                Ok(Some(value)) => return Poll::Ready(Ok(value)),
                Ok(None) if self.framing.is_over() => return Poll::Ready(Err(End::Closed(None))),
                Ok(None) => {}
                Err(fault) => return Poll::Ready(Err(End::Fault(fault))),
            }
            let read = read_buffer::lend(|buffer| {
                let mut buffer = ReadBuf::new(buffer);
                match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                    Ok(()) if buffer.filled().is_empty() => Poll::Ready(Err(self.end_of_stream())),
                    Ok(()) => Poll::Ready(self.push(buffer.filled()).map_err(End::Fault)),
                    Err(_) => Poll::Ready(Err(End::Cut)),
                }
            });
            if let Err(end) = ready!(read) {
                return Poll::Ready(Err(end));
            }
        }
    }

    /// What of these bytes is the body's goes to the parser.
    fn push(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() && !self.framing.is_over() {
            let body = self.framing.next(&mut bytes)?;
            self.parser.push(body);
        }
        Ok(())
    }

    fn end_of_stream(&self) -> End {
        if self.framing.may_end() { End::Closed(None) } else { End::Cut }
    }
}
