//! Limits the input that tungstenite reads: whole frames, and a limited number of them at a time.
//!
//! By itself, tungstenite reserves memory for the whole length that a frame announces, reads the frame in
//! small pieces, and continues as long as there is input. With this limiter, a frame takes memory only for
//! the bytes that have arrived and is read in one piece, and other tasks get to run.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use encke_core::frame_walk::{FrameWalk, Walked};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::admission::PartialMessage;
use crate::client::PartialMessageSender;
use crate::timeouts::Sleep;
use crate::transport::Socket;
use crate::transport::liveness_socket::LivenessSocket;

/// Maximum number of frames that a connection reads per poll, before other tasks run.
pub(super) const FRAMES_PER_POLL: u16 = 16;
const BYTES_PER_POLL: u32 = 64 * 1024;

/// Maximum size of a single read, in bytes, that tungstenite's buffer can hold without growing permanently.
const LONG_READ_BYTES: usize = 1024;

thread_local! {
    /// Buffer that sockets are read into, shared by all connections of a thread. A connection that is idle,
    /// or between frames, owns no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; BYTES_PER_POLL as usize].into());
}

/// A socket that yields whole frames. It is part of every connection's task.
pub(super) struct FrameLimiter<S> {
    socket: LivenessSocket<S>,
    budget: ReadBudget,
    /// Usually `None`, because most connections are idle and between frames.
    buffered: Option<Box<BufferedInput>>,
}

/// State that exists while a frame or message is incomplete, or frames are delayed.
#[derive(Debug, Default)]
struct BufferedInput {
    walk: FrameWalk,
    /// Bytes that were read but not passed on.
    bytes: Vec<u8>,
    /// Number of bytes that were scanned for frame boundaries.
    scanned: usize,
    /// Number of bytes in whole frames, which may be passed on.
    whole: usize,
    /// Number of bytes of whole frames that were already passed on.
    passed_on: usize,
    /// Pause before anything more is passed on, set while frames exceed the rate limit.
    pause: Option<Sleep>,
    /// Accounts for the memory of the buffered input.
    account: Option<PartialMessage<PartialMessageSender>>,
}

/// Remaining input allowance of the current poll.
#[derive(Clone, Copy, Debug)]
struct ReadBudget {
    bytes: u32,
    frames: u16,
    /// Whether everything is passed on as it arrives. Permanent once set.
    is_unlimited: bool,
    /// State that outlives the poll. It is stored here because this struct has a spare byte.
    parser_buffer: ParserBuffer,
}

/// State of tungstenite's buffer, which never shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParserBuffer {
    Small,
    /// The buffer has held a long message.
    Grown,
    /// The buffer has held a long message and is now empty.
    Spare,
}

impl ReadBudget {
    const FULL: Self = Self {
        bytes: BYTES_PER_POLL,
        frames: FRAMES_PER_POLL,
        is_unlimited: false,
        parser_buffer: ParserBuffer::Small,
    };
    const UNLIMITED: Self =
        Self { bytes: 0, frames: 0, is_unlimited: true, parser_buffer: ParserBuffer::Small };

    fn is_used_up(self) -> bool {
        self.frames == 0 || self.bytes == 0
    }
}

impl<S: Socket> FrameLimiter<S> {
    /// `read_already` contains bytes that were read together with the request.
    pub(super) fn new(socket: LivenessSocket<S>, read_already: Vec<u8>) -> Self {
        let buffered = BufferedInput { bytes: read_already, ..BufferedInput::default() };
        let buffered = (!buffered.bytes.is_empty()).then(|| Box::new(buffered));
        Self { socket, budget: ReadBudget::FULL, buffered }
    }

    pub(super) fn socket(&self) -> &LivenessSocket<S> {
        &self.socket
    }

    pub(super) fn socket_mut(&mut self) -> &mut LivenessSocket<S> {
        &mut self.socket
    }

    pub(super) fn into_socket(self) -> LivenessSocket<S> {
        self.socket
    }

    /// Returns the socket, and the bytes that were read but not passed on.
    pub(super) fn into_parts(self) -> (S, Vec<u8>) {
        let buffered = self.buffered.map(|buffered| buffered.bytes).unwrap_or_default();
        (self.socket.into_inner(), buffered)
    }

    /// Whether neither this limiter nor tungstenite has buffered input, so that the next byte begins a
    /// message.
    pub(super) fn is_between_messages(&self) -> bool {
        self.buffered.is_none() && !self.budget.is_used_up()
    }

    /// Begins a poll that may read at most `frames` frames.
    pub(super) fn begin_poll(&mut self, frames: u16) {
        self.budget = ReadBudget { frames, parser_buffer: self.budget.parser_buffer, ..ReadBudget::FULL };
    }

    /// Whether tungstenite has a large buffer that is empty.
    pub(super) fn has_spare_buffer(&self) -> bool {
        self.budget.parser_buffer == ParserBuffer::Spare
    }

    /// Records that tungstenite has a new buffer.
    pub(super) fn buffer_renewed(&mut self) {
        self.budget.parser_buffer = ParserBuffer::Small;
    }

    /// Whether the rate limit delays frames. The delayed frames may include the answer to a ping.
    pub(super) fn is_paused(&self) -> bool {
        self.buffered.as_ref().is_some_and(|buffered| buffered.pause.is_some())
    }

    /// From now on, passes input on unchanged: its content no longer matters.
    pub(super) fn lift_limits(&mut self) {
        self.budget = ReadBudget::UNLIMITED;
        self.buffered = None;
    }

    /// Pending while frames exceed the rate limit.
    fn poll_rate(&mut self, context: &mut task::Context<'_>) -> Poll<()> {
        // The rate limit applies to the session.
        let Some(until) = self.socket.session().map(|session| session.frames.next_at()) else {
            return Poll::Ready(());
        };
        // Read the clock only if frames have exceeded the limit.
        if until > self.socket.received_at() && until > self.socket.now() {
            let buffered = self.buffered.get_or_insert_default();
            let pause = buffered.pause.get_or_insert_with(|| self.socket.sleep_until(until));
            ready!(Pin::new(pause).poll(context));
            buffered.pause = None;
        }
        Poll::Ready(())
    }

    /// Passes on as many whole buffered frames as the allowance permits. Returns whether there were any.
    fn pass_on(&mut self, into: &mut ReadBuf<'_>) -> bool {
        let Some(buffered) = &mut self.buffered else { return false };
        if buffered.passed_on == buffered.whole {
            let frames = buffered.scan(self.budget.frames, self.socket.settings().max_message);
            self.count_frames(frames);
        }
        let Some(buffered) = &mut self.buffered else { return false };
        if buffered.whole > LONG_READ_BYTES {
            self.budget.parser_buffer = ParserBuffer::Grown;
        }
        let passed_any = buffered.pass_on(into);
        if buffered.bytes.is_empty() && buffered.walk.is_between_messages() {
            self.buffered = None;
        } else if buffered.whole == 0 {
            // All whole frames have been passed on.
            self.account();
        }
        passed_any
    }

    /// Accounts for the buffered bytes, which count towards the common limit of all connections.
    fn account(&mut self) {
        if let Some(buffered) = &mut self.buffered {
            let bytes = buffered.partial_bytes();
            self.socket.account(&mut buffered.account, bytes);
        }
    }

    fn count_frames(&mut self, frames: usize) {
        self.budget.frames -= u16::try_from(frames).expect("a poll reads no more frames");
        if let Some(session) = self.socket.session() {
            session.frames.count_input(
                frames,
                self.socket.settings().frames_per_second,
                self.socket.received_at(),
            );
        }
    }

    /// Reads available bytes. Whole frames that fit into `into` are passed on directly, and the rest is
    /// buffered. Returns the number of bytes read.
    fn poll_read_socket(
        &mut self,
        context: &mut task::Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch[..self.budget.bytes as usize]);
            ready!(Pin::new(&mut self.socket).poll_read(context, &mut buffer))?;
            let read = buffer.filled();
            self.budget.bytes -= u32::try_from(read.len()).expect("the buffer is limited to the allowance");
            let (mut walk, mut walked) = (FrameWalk::default(), Walked::default());
            if self.buffered.is_none() && read.len() <= into.remaining() {
                walked = walk.advance(read, self.budget.frames.into());
                self.count_frames(walked.frames);
                into.put_slice(&read[..walked.whole]);
            }
            let rest = &read[walked.whole..];
            if !rest.is_empty() || !walk.is_between_messages() {
                let buffered = self.buffered.get_or_insert_with(|| {
                    Box::new(BufferedInput {
                        walk,
                        scanned: walked.bytes - walked.whole,
                        ..BufferedInput::default()
                    })
                });
                buffered.append(rest);
            }
            Poll::Ready(Ok(read.len()))
        })
    }

    /// Reads whole frames.
    fn poll_frames(
        &mut self,
        context: &mut task::Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_rate(context));
            if self.pass_on(into) {
                return Poll::Ready(Ok(()));
            }
            if self.budget.is_used_up() {
                // Let other tasks run first.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let before = into.filled().len();
            let read = ready!(self.poll_read_socket(context, into))?;
            self.account();
            // Return if bytes were passed on directly, or if the stream has ended, possibly within a frame.
            if read == 0 || into.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl BufferedInput {
    /// Scans the buffered bytes up to the end of the given number of frames. Returns the number of frames
    /// found.
    fn scan(&mut self, frames: u16, max_frame: usize) -> usize {
        let walked = self.walk.advance(&self.bytes[self.scanned..], frames.into());
        if walked.frames > 0 {
            self.whole = self.scanned + walked.whole;
        }
        self.scanned += walked.bytes;
        // Pass on what has arrived of a frame that is too long: there is no point in waiting for the rest of
        // a frame that will be rejected.
        if self.walk.payload_len().is_some_and(|announced| announced > max_frame as u64) {
            self.whole = self.scanned;
        }
        walked.frames
    }

    /// Returns the number of bytes of memory used by partial messages: the bytes buffered here, and
    /// tungstenite's buffer, which doubles as it grows.
    fn partial_bytes(&self) -> usize {
        let parser_bytes = usize::try_from(self.walk.partial_message_len()).unwrap_or(usize::MAX);
        self.bytes.capacity().saturating_add(parser_bytes.saturating_mul(2))
    }

    fn append(&mut self, bytes: &[u8]) {
        // Reserve some spare capacity, so that a frame that arrives byte by byte is not moved for each byte.
        self.bytes.reserve_exact(bytes.len().max(self.bytes.len() / 8));
        self.bytes.extend_from_slice(bytes);
    }

    fn pass_on(&mut self, into: &mut ReadBuf<'_>) -> bool {
        if self.passed_on == self.whole {
            return false;
        }
        let end = self.whole.min(self.passed_on + into.remaining());
        into.put_slice(&self.bytes[self.passed_on..end]);
        self.passed_on = end;
        if end == self.whole {
            self.bytes.drain(..end);
            self.bytes.shrink_to_fit();
            (self.scanned, self.whole, self.passed_on) = (self.scanned - end, 0, 0);
        }
        true
    }
}

impl<S: Socket> AsyncRead for FrameLimiter<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.budget.is_unlimited {
            return Pin::new(&mut self.socket).poll_read(context, into);
        }
        let read = self.poll_frames(context, into);
        match (read.is_pending(), self.budget.parser_buffer) {
            // tungstenite reads more only once it has processed everything it was given, and it was given
            // whole messages.
            (true, ParserBuffer::Grown) if self.buffered.is_none() => {
                self.budget.parser_buffer = ParserBuffer::Spare
            }
            (false, ParserBuffer::Spare) => self.budget.parser_buffer = ParserBuffer::Grown,
            _ => {}
        }
        read
    }
}

impl<S: Socket> AsyncWrite for FrameLimiter<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
