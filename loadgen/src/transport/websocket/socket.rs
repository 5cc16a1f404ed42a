//! A WebSocket over a stream: reads, answers control frames, and buffers writes.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::end::ConnectionEnd;
use super::head::Opcode;
use super::reader::{FrameReader, Incoming};
use super::writer::{write_close, write_frame};
use crate::transport::read_buffer;

/// Size limit for a message.
const MAX_MESSAGE_BYTES: u32 = 1 << 20;
/// Maximum number of bytes buffered for writing. Above this, nothing is read, so a server that does not read
/// the answers gets no more of them.
const MAX_UNWRITTEN_BYTES: usize = 64 * 1024;

/// A client's WebSocket, after the handshake.
///
/// An idle socket keeps no buffer: bytes are read into the thread's shared buffer. Reading also flushes
/// buffered writes, answers pings, and answers a Close frame.
#[derive(Debug)]
pub(crate) struct WebSocket<S = TcpStream> {
    stream: S,
    reader: FrameReader,
    /// Boxed because usually there is nothing buffered.
    buffers: Option<Box<SocketBuffers>>,
    is_mute: bool,
    answers_pings: bool,
    /// Number of bytes that may still be read. `u32::MAX`: unlimited.
    read_allowance: u32,
}

#[derive(Debug, Default)]
struct SocketBuffers {
    /// Bytes that were read after the event at which the reader stopped.
    unread: Vec<u8>,
    /// Bytes that the kernel has not accepted yet.
    unwritten: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Wraps a stream after the handshake. `unread` are the bytes that followed the handshake.
    pub(crate) fn new(stream: S, unread: Vec<u8>) -> Self {
        let mut socket = Self {
            stream,
            reader: FrameReader::new(MAX_MESSAGE_BYTES),
            buffers: None,
            is_mute: false,
            answers_pings: true,
            read_allowance: u32::MAX,
        };
        socket.keep_unread(unread);
        socket
    }

    /// Stops sending: no pongs, no answer to a Close frame, no messages.
    pub(crate) fn mute(&mut self) {
        self.is_mute = true;
    }

    /// Disables automatic answers to pings. Only [`Self::send_pong`] answers them.
    pub(crate) fn disable_answers(&mut self) {
        self.answers_pings = false;
    }

    /// Limits the total number of bytes that may be read from this call on. `u32::MAX`: unlimited.
    pub(crate) fn allow_reading(&mut self, bytes: u32) {
        self.read_allowance = bytes;
    }

    /// Sends a text message. Returns when the kernel has accepted it.
    pub(crate) async fn send_text(&mut self, text: &str) -> io::Result<()> {
        self.send(Opcode::Text, text.as_bytes()).await
    }

    pub(crate) async fn send_ping(&mut self, payload: &[u8]) -> io::Result<()> {
        self.send(Opcode::Ping, payload).await
    }

    pub(crate) async fn send_pong(&mut self, payload: &[u8]) -> io::Result<()> {
        self.send(Opcode::Pong, payload).await
    }

    pub(crate) async fn send_close(&mut self, code: u16) -> io::Result<()> {
        self.send(Opcode::Close, &code.to_be_bytes()).await
    }

    /// Buffers frames until the next read or send.
    pub(crate) fn queue(&mut self, frames: &[u8]) {
        self.unwritten().extend_from_slice(frames);
    }

    async fn send(&mut self, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        if self.is_mute {
            return Ok(());
        }
        write_frame(self.unwritten(), opcode, payload);
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// Passes everything that arrives to `on_incoming`, until it breaks or the connection ends. When a ping
    /// is passed on, it has already been answered, unless automatic answers are disabled. After `Pending`,
    /// the caller may stop calling without losing data.
    pub(crate) fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_incoming: &mut impl FnMut(Incoming<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, ConnectionEnd>> {
        loop {
            let unread = self.buffers.as_mut().map(|buffers| mem::take(&mut buffers.unread));
            if let Some(result) = unread.and_then(|unread| self.take(context, &unread, on_incoming)) {
                return Poll::Ready(result);
            }
            if self.poll_flush(context).map_err(|_| ConnectionEnd::NoCloseFrame)?.is_pending()
                && self.unwritten_bytes() > MAX_UNWRITTEN_BYTES
            {
                return Poll::Pending;
            }
            if self.read_allowance == 0 {
                return Poll::Pending;
            }
            let result = read_buffer::lend(|buffer| {
                let limit = buffer.len().min(self.read_allowance as usize);
                let mut buffer = ReadBuf::new(&mut buffer[..limit]);
                match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                    Ok(()) if buffer.filled().is_empty() => {
                        Poll::Ready(Some(Err(ConnectionEnd::NoCloseFrame)))
                    }
                    Ok(()) => {
                        self.note_read(buffer.filled().len());
                        Poll::Ready(self.take(context, buffer.filled(), on_incoming))
                    }
                    Err(_) => Poll::Ready(Some(Err(ConnectionEnd::NoCloseFrame))),
                }
            });
            if let Some(result) = ready!(result) {
                return Poll::Ready(result);
            }
        }
    }

    fn note_read(&mut self, bytes: usize) {
        if self.read_allowance != u32::MAX {
            let bytes = u32::try_from(bytes).expect("the allowance is a u32");
            self.read_allowance -= bytes;
        }
    }

    /// Handles bytes that were read. Returns `None` if more must be read.
    fn take<T>(
        &mut self,
        context: &mut Context<'_>,
        mut bytes: &[u8],
        on_incoming: &mut impl FnMut(Incoming<'_>) -> ControlFlow<T>,
    ) -> Option<Result<T, ConnectionEnd>> {
        let result = loop {
            match self.reader.next(&mut bytes) {
                Ok(None) => return None,
                Ok(Some(Incoming::Close(code))) => {
                    break Err(self.answer_close(code, ConnectionEnd::Closed(code)));
                }
                Err(fault) => {
                    break Err(self.answer_close(Some(fault.close_code()), ConnectionEnd::Fault(fault)));
                }
                Ok(Some(incoming)) => {
                    self.answer(&incoming);
                    if let ControlFlow::Break(value) = on_incoming(incoming) {
                        break Ok(value);
                    }
                }
            }
        };
        self.keep_unread(bytes.to_vec());
        // Bytes that cannot be written now are written by the next call, which also reports an error.
        let _ = self.poll_flush(context);
        Some(result)
    }

    fn answer(&mut self, incoming: &Incoming<'_>) {
        if let Incoming::Ping(payload) = incoming
            && self.answers_pings
            && !self.is_mute
        {
            write_frame(self.unwritten(), Opcode::Pong, payload);
        }
    }

    fn answer_close(&mut self, code: Option<u16>, end: ConnectionEnd) -> ConnectionEnd {
        if !self.is_mute {
            write_close(self.unwritten(), code);
        }
        end
    }

    /// Sends a text message without waiting for the kernel to accept it. Reading sends the rest.
    pub(crate) fn poll_send_text(&mut self, context: &mut Context<'_>, text: &str) {
        if self.answers_pings && !self.is_mute {
            write_frame(self.unwritten(), Opcode::Text, text.as_bytes());
            // Ignore an error: the next read reports it.
            let _ = self.poll_flush(context);
        }
    }

    fn keep_unread(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.buffers.get_or_insert_default().unread = bytes;
        }
    }

    fn unwritten(&mut self) -> &mut Vec<u8> {
        &mut self.buffers.get_or_insert_default().unwritten
    }

    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.buffers.as_ref().map_or(0, |buffers| buffers.unwritten.len())
    }

    /// Becomes ready when nothing is left to write. Frees empty buffers.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(buffers) = &mut self.buffers else { return Poll::Ready(Ok(())) };
        while !buffers.unwritten.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &buffers.unwritten))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            buffers.unwritten.drain(..written);
        }
        buffers.unwritten = Vec::new();
        if buffers.unread.is_empty() {
            self.buffers = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl WebSocket<TcpStream> {
    /// Closes the connection with a reset, as happens when a process dies with unread bytes.
    pub(crate) fn reset(self) {
        self.reset_on_drop();
    }

    /// Makes the connection close with a reset when it is dropped.
    pub(crate) fn reset_on_drop(&self) {
        // If the option cannot be set, the socket closes normally.
        let _ = self.stream.set_zero_linger();
    }
}
