//! An open event stream, read from a socket.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use super::parser::{EventParser, StreamItem};
use crate::transport::body::Framing;
use crate::transport::read_buffer;
use crate::transport::websocket::{ConnectionEnd, ProtocolFault};

#[derive(Debug)]
pub(crate) struct EventStream {
    stream: TcpStream,
    framing: Framing,
    parser: EventParser,
    /// Bytes that arrived with the head and have not been parsed yet.
    unread: Vec<u8>,
}

impl EventStream {
    /// Wraps a stream whose head has been read. `unread` are the bytes that followed the head.
    pub(crate) fn new(stream: TcpStream, framing: Framing, unread: Vec<u8>) -> Self {
        Self { stream, framing, parser: EventParser::default(), unread }
    }

    /// Closes the connection with a reset.
    pub(crate) fn reset(self) {
        // If the option cannot be set, the connection closes normally.
        let _ = self.stream.set_zero_linger();
    }

    /// Passes everything that arrives to `on_found`, until it breaks or the stream ends.
    pub(crate) fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_found: &mut impl FnMut(StreamItem<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, ConnectionEnd>> {
        let mut on_found = |found: StreamItem<'_>| match on_found(found) {
            ControlFlow::Break(value) => Some(value),
            ControlFlow::Continue(()) => None,
        };
        let unread = std::mem::take(&mut self.unread);
        if let Err(fault) = self.push(&unread) {
            return Poll::Ready(Err(ConnectionEnd::Fault(fault)));
        }
        loop {
            match self.parser.each(&mut on_found) {
                Ok(Some(value)) => return Poll::Ready(Ok(value)),
                Ok(None) if self.framing.is_over() => return Poll::Ready(Err(ConnectionEnd::Closed(None))),
                Ok(None) => {}
                Err(fault) => return Poll::Ready(Err(ConnectionEnd::Fault(fault))),
            }
            let read = read_buffer::lend(|buffer| {
                let mut buffer = ReadBuf::new(buffer);
                match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                    Ok(()) if buffer.filled().is_empty() => Poll::Ready(Err(self.end_of_stream())),
                    Ok(()) => Poll::Ready(self.push(buffer.filled()).map_err(ConnectionEnd::Fault)),
                    Err(_) => Poll::Ready(Err(ConnectionEnd::NoCloseFrame)),
                }
            });
            if let Err(end) = ready!(read) {
                return Poll::Ready(Err(end));
            }
        }
    }

    /// Passes the bytes that belong to the body to the parser.
    fn push(&mut self, mut bytes: &[u8]) -> Result<(), ProtocolFault> {
        while !bytes.is_empty() && !self.framing.is_over() {
            let body = self.framing.next(&mut bytes)?;
            self.parser.push(body);
        }
        Ok(())
    }

    fn end_of_stream(&self) -> ConnectionEnd {
        if self.framing.may_end() { ConnectionEnd::Closed(None) } else { ConnectionEnd::NoCloseFrame }
    }
}
