//! What a peer sends, on its way to tungstenite: whole frames, and not too many of them at a time.
//!
//! Left to itself, tungstenite makes room for all that a frame announces, reads it in small pieces, and goes on as long as there is
//! something to read. Here a frame takes the room that has arrived of it, is read in one piece, and others get their turn.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use encke_core::Timestamp;
use encke_core::frame_walk::FrameWalk;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::timeouts::Sleep;
use crate::transport::Socket;
use crate::transport::metered::Metered;

/// What a connection may read before others get their turn.
const TURN_FRAMES: usize = 16;
const TURN_BYTES: usize = 64 * 1024;

/// Frames may come at once that the rate allows in this time.
const BURST_NANOS: u64 = 1_000_000_000;

thread_local! {
    /// Where sockets are read to: a connection that is idle, or between two frames, holds no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; TURN_BYTES].into());
}

/// A socket that gives whole frames.
#[derive(Debug)]
pub(super) struct Inbox<S> {
    socket: Metered<S>,
    walk: FrameWalk,
    kept: Kept,
    turn: Turn,
    rate: FrameRate,
    /// A longer frame is handed on as it comes, to be refused.
    max_frame: usize,
    /// Everything is handed on as it comes.
    is_open: bool,
}

/// What was read and not handed on.
#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    /// How many of them were looked at,
    walked: usize,
    /// how many are frames that may be handed on,
    whole: usize,
    /// and how many of these were.
    handed_on: usize,
}

/// What is left of a turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    frames: usize,
    bytes: usize,
}

impl Turn {
    const WHOLE: Self = Self { frames: TURN_FRAMES, bytes: TURN_BYTES };

    fn is_over(self) -> bool {
        self.frames == 0 || self.bytes == 0
    }
}

/// The rate of frames, as [`crate::admission::CommandRate`] keeps that of commands. What is more is read later.
#[derive(Debug)]
struct FrameRate {
    per_second: u32,
    /// In nanoseconds.
    full_at: u64,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S: Socket> Inbox<S> {
    /// `read_already` is what was read before, with the request.
    pub(super) fn new(
        socket: Metered<S>,
        read_already: Vec<u8>,
        max_frame: usize,
        frames_per_second: u32,
    ) -> Self {
        Self {
            socket,
            walk: FrameWalk::default(),
            kept: Kept { bytes: read_already, ..Kept::default() },
            turn: Turn::WHOLE,
            rate: FrameRate { per_second: frames_per_second, full_at: 0, pause: None },
            max_frame,
            is_open: false,
        }
    }

    pub(super) fn socket(&self) -> &Metered<S> {
        &self.socket
    }

    pub(super) fn socket_mut(&mut self) -> &mut Metered<S> {
        &mut self.socket
    }

    /// The connection has its turn.
    pub(super) fn begin_turn(&mut self) {
        self.turn = Turn::WHOLE;
    }

    /// Frames that are there wait for the rate: an answer may be among them.
    pub(super) fn is_paused(&self) -> bool {
        self.rate.pause.is_some()
    }

    /// The socket itself, once nothing of what comes matters any more.
    pub(super) fn open(&mut self) {
        self.is_open = true;
        self.kept = Kept::default();
    }

    /// Looks at what was kept, as far as the turn allows.
    fn walk_on(&mut self) {
        let walked = self.walk.advance(&self.kept.bytes[self.kept.walked..], self.turn.frames);
        if walked.frames > 0 {
            self.kept.whole = self.kept.walked + walked.whole;
            self.count(walked.frames);
        }
        self.kept.walked += walked.bytes;
        self.give_up_too_long();
    }

    /// Nothing is gained by waiting for the rest of a frame that will be refused.
    fn give_up_too_long(&mut self) {
        if self.walk.announced().is_some_and(|announced| announced > self.max_frame as u64) {
            self.kept.whole = self.kept.walked;
        }
    }

    fn count(&mut self, frames: usize) {
        self.turn.frames -= frames;
        self.rate.count(frames, self.socket.received_at());
    }

    /// Reads what there is. What is whole and has room goes straight on; the rest is kept. Returns how much was read.
    fn poll_fill(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch[..self.turn.bytes]);
            ready!(Pin::new(&mut self.socket).poll_read(context, &mut buffer))?;
            let read = buffer.filled();
            self.turn.bytes -= read.len();
            let mut straight_on = 0;
            if self.kept.bytes.is_empty() && read.len() <= into.remaining() {
                let walked = self.walk.advance(read, self.turn.frames);
                self.count(walked.frames);
                straight_on = walked.whole;
                into.put_slice(&read[..straight_on]);
                self.kept.walked = walked.bytes - straight_on;
            }
            if straight_on < read.len() {
                let kept = &mut self.kept.bytes;
                // Some room to spare, so that a frame that comes byte by byte is not moved with each of them.
                kept.reserve_exact((read.len() - straight_on).max(kept.len() / 8));
                kept.extend_from_slice(&read[straight_on..]);
            }
            self.give_up_too_long();
            Poll::Ready(Ok(read.len()))
        })
    }
}

impl Kept {
    fn hand_on(&mut self, into: &mut ReadBuf<'_>) {
        let end = self.whole.min(self.handed_on + into.remaining());
        into.put_slice(&self.bytes[self.handed_on..end]);
        self.handed_on = end;
        if end == self.bytes.len() {
            // Most connections are idle, most of the time.
            *self = Self::default();
        } else if end == self.whole {
            self.bytes.drain(..end);
            self.bytes.shrink_to_fit();
            (self.walked, self.whole, self.handed_on) = (self.walked - end, 0, 0);
        }
    }
}

impl FrameRate {
    fn count(&mut self, frames: usize, now: Timestamp) {
        let each = 1_000_000_000_u64.checked_div(self.per_second.into()).unwrap_or_default();
        self.full_at = self.full_at.max(now.as_nanos()).saturating_add(each.saturating_mul(frames as u64));
    }

    /// Pending while frames come too fast.
    fn poll(&mut self, context: &mut Context<'_>, socket: &Metered<impl Socket>) -> Poll<()> {
        if self.pause.is_none() {
            let until = Timestamp::from_nanos(self.full_at.saturating_sub(BURST_NANOS));
            // That time may have passed since. Then the pause is none.
            self.pause = (until > socket.received_at()).then(|| Box::pin(socket.sleep_until(until)));
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        Poll::Ready(())
    }
}

impl<S: Socket> AsyncRead for Inbox<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_open {
            return Pin::new(&mut self.socket).poll_read(context, into);
        }
        loop {
            if self.kept.handed_on < self.kept.whole {
                self.kept.hand_on(into);
                return Poll::Ready(Ok(()));
            }
            if self.turn.is_over() {
                // Others first.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Self { rate, socket, .. } = &mut *self;
            ready!(rate.poll(context, socket));
            if self.kept.walked == self.kept.bytes.len() {
                let before = into.filled().len();
                let read = ready!(self.poll_fill(context, into))?;
                // Something went straight on, or it is the end, wherever in a frame that is.
                if read == 0 || into.filled().len() > before {
                    return Poll::Ready(Ok(()));
                }
            }
            self.walk_on();
        }
    }
}

impl<S: Socket> AsyncWrite for Inbox<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
