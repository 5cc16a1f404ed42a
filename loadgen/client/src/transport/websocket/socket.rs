//! A WebSocket over a stream: reads, answers control frames, and buffers writes.

use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};

use super::end::ConnectionEnd;
use super::frame::{Opcode, write_close, write_frame};
use super::reader::{self, Fragments, Incoming};
use crate::transport::Stream;
use crate::transport::stream::{poll_parse, poll_write_all};

const MAX_MESSAGE_BYTES: u32 = 1 << 20;
/// Maximum number of bytes buffered for writing. Above this, nothing is read, so a server that does not read
/// the answers gets no more of them.
const MAX_UNWRITTEN_BYTES: usize = 64 * 1024;

/// A client's WebSocket, after the handshake.
///
/// An idle socket keeps no buffer: bytes are read into the thread's shared buffer. Reading also flushes
/// buffered writes, answers pings, and answers a Close frame.
#[derive(Debug)]
pub struct WebSocket<S = Stream> {
    stream: S,
    /// Boxed because usually there is nothing buffered.
    buffers: Option<Box<SocketBuffers>>,
    is_mute: bool,
}

#[derive(Debug, Default)]
struct SocketBuffers {
    /// Incomplete frame, or what follows the event at which the reader stopped.
    unparsed: Vec<u8>,
    fragments: Fragments,
    /// Bytes that the kernel has not accepted yet.
    unwritten: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Wraps a stream after the handshake. `unparsed` are the bytes that followed the handshake.
    pub fn new(stream: S, unparsed: Vec<u8>) -> Self {
        let buffers = SocketBuffers { unparsed, ..SocketBuffers::default() }.boxed();
        Self { stream, buffers, is_mute: false }
    }

    /// Stops sending: no pongs, no answer to a Close frame, no messages.
    pub(crate) fn mute(&mut self) {
        self.is_mute = true;
    }

    /// Sends a frame. Returns when the kernel has accepted it.
    pub(crate) async fn send(&mut self, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        if self.is_mute {
            return Ok(());
        }
        write_frame(self.unwritten(), opcode, payload);
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// Returns the buffer for frames, which the next read or send sends.
    pub(crate) fn unwritten(&mut self) -> &mut Vec<u8> {
        &mut self.buffers.get_or_insert_default().unwritten
    }

    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.buffers.as_ref().map_or(0, |buffers| buffers.unwritten.len())
    }

    /// Passes everything that arrives to `on_incoming`, until it breaks or the connection ends. When a ping
    /// is passed on, it has already been answered. After `Pending`, the caller may stop calling without losing
    /// data.
    pub fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_incoming: &mut impl FnMut(Incoming<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, ConnectionEnd>> {
        loop {
            let has_room =
                self.poll_flush(context).is_ready() || self.unwritten_bytes() <= MAX_UNWRITTEN_BYTES;
            if !has_room {
                return Poll::Pending;
            }
            let (mut kept, mut fresh) = (self.buffers.take(), SocketBuffers::default());
            let buffers = kept.as_deref_mut().unwrap_or(&mut fresh);
            let parsed = poll_parse(&mut self.stream, context, &mut buffers.unparsed, |input| {
                take_frames(input, &mut buffers.fragments, &mut buffers.unwritten, on_incoming)
            });
            if self.is_mute {
                buffers.unwritten.clear();
            }
            self.buffers = kept.or_else(|| fresh.boxed());
            match ready!(parsed) {
                Ok(None) => {}
                Ok(Some(result)) => {
                    // The next call writes what cannot be written now.
                    let _ = self.poll_flush(context);
                    return Poll::Ready(result);
                }
                Err(_) => return Poll::Ready(Err(ConnectionEnd::NoCloseFrame)),
            }
        }
    }

    /// Becomes ready when nothing is left to write, or if writing fails, which the next read reports. Frees
    /// empty buffers.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(buffers) = &mut self.buffers else { return Poll::Ready(Ok(())) };
        ready!(poll_write_all(&mut self.stream, context, &mut buffers.unwritten))?;
        self.buffers.take_if(|buffers| buffers.is_empty());
        Poll::Ready(Ok(()))
    }
}

impl SocketBuffers {
    fn is_empty(&self) -> bool {
        self.unparsed.is_empty() && self.fragments.is_none() && self.unwritten.is_empty()
    }

    fn boxed(self) -> Option<Box<Self>> {
        (!self.is_empty()).then(|| Box::new(self))
    }
}

/// Answers frames, and passes them to `on_incoming`. Returns `None` if more must be read.
fn take_frames<T>(
    input: &mut &[u8],
    fragments: &mut Fragments,
    unwritten: &mut Vec<u8>,
    on_incoming: &mut impl FnMut(Incoming<'_>) -> ControlFlow<T>,
) -> Option<Result<T, ConnectionEnd>> {
    loop {
        let (end, close_code) = match reader::next(fragments, input, MAX_MESSAGE_BYTES) {
            Ok(None) => return None,
            Ok(Some(Incoming::Close(code))) => (ConnectionEnd::Closed(code), code),
            Err(fault) => (ConnectionEnd::Fault(fault), Some(fault.close_code())),
            Ok(Some(incoming)) => {
                if let Incoming::Ping(payload) = &incoming {
                    write_frame(unwritten, Opcode::Pong, payload);
                }
                match on_incoming(incoming) {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(value) => return Some(Ok(value)),
                }
            }
        };
        write_close(unwritten, close_code);
        return Some(Err(end));
    }
}
