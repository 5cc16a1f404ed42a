//! A WebSocket over a stream: reads, answers control frames, and buffers what waits to be written.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::end::End;
use super::head::Opcode;
use super::reader::{Incoming, Reader};
use super::writer::{write_close, write_frame};
use crate::transport::read_buffer;

/// The longest message that is read.
const MAX_MESSAGE_BYTES: u32 = 1 << 20;
/// While more than this waits to be written, nothing is read: a server that does not read the answers gets no more of them.
const MAX_UNWRITTEN_BYTES: usize = 64 * 1024;

/// A client's WebSocket, after the handshake.
///
/// An idle socket keeps no buffer: bytes are read into a buffer of the whole thread. Reading also writes what
/// waits, answers pings, and answers a Close frame.
#[derive(Debug)]
pub(crate) struct Socket<S = TcpStream> {
    stream: S,
    reader: Reader,
    /// Boxed, for as a rule there is nothing.
    waiting: Option<Box<Waiting>>,
    is_mute: bool,
    answers: bool,
    /// How much may still be read. `u32::MAX`: as much as there is.
    may_read_bytes: u32,
}

#[derive(Debug, Default)]
struct Waiting {
    /// What was read, but came after the event with which its reader stopped.
    unread: Vec<u8>,
    /// What the kernel has not taken yet.
    unwritten: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// `unread` is what followed the handshake.
    pub(crate) fn new(stream: S, unread: Vec<u8>) -> Self {
        let mut socket = Self {
            stream,
            reader: Reader::new(MAX_MESSAGE_BYTES),
            waiting: None,
            is_mute: false,
            answers: true,
            may_read_bytes: u32::MAX,
        };
        socket.keep_unread(unread);
        socket
    }

    /// From now on nothing is sent any more: no pongs, no answer to a Close frame, no messages.
    pub(crate) fn mute(&mut self) {
        self.is_mute = true;
    }

    /// From now on pings wait for [`Self::send_pong`].
    pub(crate) fn stop_answering(&mut self) {
        self.answers = false;
    }

    /// From now on no more than this is read in all, unless more is allowed. `u32::MAX`: as much as there is.
    pub(crate) fn allow_reading(&mut self, bytes: u32) {
        self.may_read_bytes = bytes;
    }

    /// Returns when the kernel has it.
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

    /// Takes frames as they are. Reading sends them.
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

    /// Hands everything that arrives to `on_incoming`, until it breaks or the connection ends. A ping that is handed
    /// over has been answered, unless answers are off. Nothing is lost if it is not called again after `Pending`.
    pub(crate) fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_incoming: &mut impl FnMut(Incoming<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, End>> {
        loop {
            let unread = self.waiting.as_mut().map(|waiting| mem::take(&mut waiting.unread));
            if let Some(result) = unread.and_then(|unread| self.take(context, &unread, on_incoming)) {
                return Poll::Ready(result);
            }
            if self.poll_flush(context).map_err(|_| End::Cut)?.is_pending()
                && self.unwritten_bytes() > MAX_UNWRITTEN_BYTES
            {
                return Poll::Pending;
            }
            if self.may_read_bytes == 0 {
                return Poll::Pending;
            }
            let result = read_buffer::lend(|buffer| {
                let most = buffer.len().min(self.may_read_bytes as usize);
                let mut buffer = ReadBuf::new(&mut buffer[..most]);
                match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                    Ok(()) if buffer.filled().is_empty() => Poll::Ready(Some(Err(End::Cut))),
                    Ok(()) => {
                        self.note_read(buffer.filled().len());
                        Poll::Ready(self.take(context, buffer.filled(), on_incoming))
                    }
                    Err(_) => Poll::Ready(Some(Err(End::Cut))),
                }
            });
            if let Some(result) = ready!(result) {
                return Poll::Ready(result);
            }
        }
    }

    fn note_read(&mut self, bytes: usize) {
        if self.may_read_bytes != u32::MAX {
            let bytes = u32::try_from(bytes).expect("no more was read than a u32 allows");
            self.may_read_bytes -= bytes;
        }
    }

    /// Handles bytes that were read. `None`: more must be read.
    fn take<T>(
        &mut self,
        context: &mut Context<'_>,
        mut bytes: &[u8],
        on_incoming: &mut impl FnMut(Incoming<'_>) -> ControlFlow<T>,
    ) -> Option<Result<T, End>> {
        let result = loop {
            match self.reader.next(&mut bytes) {
                Ok(None) => return None,
                Ok(Some(Incoming::Close(code))) => break Err(self.answer_close(code, End::Closed(code))),
                Err(fault) => break Err(self.answer_close(Some(fault.close_code()), End::Fault(fault))),
                Ok(Some(incoming)) => {
                    self.answer(&incoming);
                    if let ControlFlow::Break(value) = on_incoming(incoming) {
                        break Ok(value);
                    }
                }
            }
        };
        self.keep_unread(bytes.to_vec());
        // What cannot leave now leaves with the next call; an error shows there, too.
        let _ = self.poll_flush(context);
        Some(result)
    }

    fn answer(&mut self, incoming: &Incoming<'_>) {
        if let Incoming::Ping(payload) = incoming
            && self.answers
            && !self.is_mute
        {
            write_frame(self.unwritten(), Opcode::Pong, payload);
        }
    }

    fn answer_close(&mut self, code: Option<u16>, end: End) -> End {
        if !self.is_mute {
            write_close(self.unwritten(), code);
        }
        end
    }

    /// Sends a text without waiting for the kernel; reading does that.
    pub(crate) fn poll_answer(&mut self, context: &mut Context<'_>, text: &str) {
        if self.answers && !self.is_mute {
            write_frame(self.unwritten(), Opcode::Text, text.as_bytes());
            // An error shows when more is read.
            let _ = self.poll_flush(context);
        }
    }

    fn keep_unread(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.waiting.get_or_insert_default().unread = bytes;
        }
    }

    fn unwritten(&mut self) -> &mut Vec<u8> {
        &mut self.waiting.get_or_insert_default().unwritten
    }

    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| waiting.unwritten.len())
    }

    /// Ready when nothing waits to be written. Empty buffers are freed.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(waiting) = &mut self.waiting else { return Poll::Ready(Ok(())) };
        while !waiting.unwritten.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &waiting.unwritten))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            waiting.unwritten.drain(..written);
        }
        waiting.unwritten = Vec::new();
        if waiting.unread.is_empty() {
            self.waiting = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl Socket<TcpStream> {
    /// Ends the connection with a reset, as a process that dies with bytes unread would.
    pub(crate) fn reset(self) {
        self.reset_on_drop();
    }

    /// From now on it ends like this whenever it is dropped.
    pub(crate) fn reset_on_drop(&self) {
        // If that fails, the socket is closed as usual.
        let _ = self.stream.set_zero_linger();
    }
}
