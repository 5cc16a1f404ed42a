//! What a peer sends, on its way to tungstenite: whole frames, and not too many of them at a time.
//!
//! Left to itself, tungstenite makes room for all that a frame announces, reads it in small pieces, and goes on as long as there is
//! something to read. Here a frame takes the room that has arrived of it, is read in one piece, and others get their turn.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use encke_core::frame_walk::{FrameWalk, Walked};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::admission::UnfinishedMessage;
use crate::client::Sender;
use crate::timeouts::Sleep;
use crate::transport::Socket;
use crate::transport::metered::Metered;

/// What a connection may read before others get their turn.
pub(super) const TURN_FRAMES: u16 = 16;
const TURN_BYTES: u32 = 64 * 1024;

/// What is handed on at a time and makes tungstenite's buffer grow for good.
const LONG: usize = 1024;

thread_local! {
    /// Where sockets are read to: a connection that is idle, or between two frames, holds no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; TURN_BYTES as usize].into());
}

/// A socket that gives whole frames. It is part of every connection's task.
pub(super) struct Inbox<S> {
    socket: Metered<S>,
    turn: Turn,
    /// Most connections are idle, most of the time, and between two frames.
    kept: Option<Box<Kept>>,
}

/// What is there while a frame or a message is not whole, or frames wait.
#[derive(Debug, Default)]
struct Kept {
    walk: FrameWalk,
    /// Read and not handed on.
    bytes: Vec<u8>,
    /// How many of them were looked at,
    walked: usize,
    /// how many are frames that may be handed on,
    whole: usize,
    /// and how many of these were.
    handed_on: usize,
    /// Frames have come too fast: nothing is handed on before this has passed.
    pause: Option<Sleep>,
    /// What all of it counts as.
    account: Option<UnfinishedMessage<Sender>>,
}

/// What is left of a turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    bytes: u32,
    frames: u16,
    /// Everything is handed on as it comes, for ever.
    is_open: bool,
    /// It outlasts the turn, and is here because here is a byte to spare.
    above: Above,
}

/// tungstenite's buffer, which never shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    Small,
    /// It has held something long.
    Grown,
    /// It has, and is empty now.
    Spare,
}

impl Turn {
    const WHOLE: Self = Self { bytes: TURN_BYTES, frames: TURN_FRAMES, is_open: false, above: Above::Small };
    const OPEN: Self = Self { bytes: 0, frames: 0, is_open: true, above: Above::Small };

    fn is_over(self) -> bool {
        self.frames == 0 || self.bytes == 0
    }
}

impl<S: Socket> Inbox<S> {
    /// `read_already` is what was read before, with the request.
    pub(super) fn new(socket: Metered<S>, read_already: Vec<u8>) -> Self {
        let kept = Kept { bytes: read_already, ..Kept::default() };
        let kept = (!kept.bytes.is_empty()).then(|| Box::new(kept));
        Self { socket, turn: Turn::WHOLE, kept }
    }

    pub(super) fn socket(&self) -> &Metered<S> {
        &self.socket
    }

    pub(super) fn socket_mut(&mut self) -> &mut Metered<S> {
        &mut self.socket
    }

    /// The socket alone.
    pub(super) fn into_socket(self) -> Metered<S> {
        self.socket
    }

    /// The socket, and what was read and not handed on.
    pub(super) fn into_parts(self) -> (S, Vec<u8>) {
        let kept = self.kept.map(|kept| kept.bytes).unwrap_or_default();
        (self.socket.into_inner(), kept)
    }

    /// Whether nothing of what was read is here or above: the next byte begins a message.
    pub(super) fn is_between_messages(&self) -> bool {
        self.kept.is_none() && !self.turn.is_over()
    }

    /// The connection has its turn, of at most so many frames.
    pub(super) fn begin_turn(&mut self, frames: u16) {
        self.turn = Turn { frames, above: self.turn.above, ..Turn::WHOLE };
    }

    /// Whether tungstenite has a large buffer and nothing in it.
    pub(super) fn has_spare_buffer(&self) -> bool {
        self.turn.above == Above::Spare
    }

    /// tungstenite has a new buffer.
    pub(super) fn buffer_renewed(&mut self) {
        self.turn.above = Above::Small;
    }

    /// Frames that are there wait for the rate: an answer may be among them.
    pub(super) fn is_paused(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.pause.is_some())
    }

    /// The socket itself, once nothing of what comes matters any more.
    pub(super) fn open(&mut self) {
        self.turn = Turn::OPEN;
        self.kept = None;
    }

    /// Pending while frames come too fast.
    fn poll_rate(&mut self, context: &mut task::Context<'_>) -> Poll<()> {
        // The rate of frames is the session's.
        let Some(until) = self.socket.session().map(|session| session.frames.next_at()) else {
            return Poll::Ready(());
        };
        // The clock is read only when frames have come too fast.
        if until > self.socket.received_at() && until > self.socket.now() {
            let kept = self.kept.get_or_insert_default();
            let pause = kept.pause.get_or_insert_with(|| self.socket.sleep_until(until));
            ready!(Pin::new(pause).poll(context));
            kept.pause = None;
        }
        Poll::Ready(())
    }

    /// Hands on what was kept, as far as it is whole and the turn allows. Returns whether there was anything.
    fn hand_on(&mut self, into: &mut ReadBuf<'_>) -> bool {
        let Some(kept) = &mut self.kept else { return false };
        if kept.handed_on == kept.whole {
            let frames = kept.walk_on(self.turn.frames, self.socket.settings().max_message);
            self.count(frames);
        }
        let Some(kept) = &mut self.kept else { return false };
        if kept.whole > LONG {
            self.turn.above = Above::Grown;
        }
        let is_anything = kept.hand_on(into);
        if kept.bytes.is_empty() && kept.walk.is_between_messages() {
            self.kept = None;
        } else if kept.whole == 0 {
            // All that was whole is handed on now.
            self.account();
        }
        is_anything
    }

    /// What is kept counts for all connections together.
    fn account(&mut self) {
        if let Some(kept) = &mut self.kept {
            let bytes = kept.unfinished();
            self.socket.account(&mut kept.account, bytes);
        }
    }

    fn count(&mut self, frames: usize) {
        self.turn.frames -= u16::try_from(frames).expect("a turn has no more");
        if let Some(session) = self.socket.session() {
            session.frames.count(frames, self.socket.settings().frames_per_second, self.socket.received_at());
        }
    }

    /// Reads what there is. What is whole and has room goes straight on; the rest is kept. Returns how much was read.
    fn poll_fill(
        &mut self,
        context: &mut task::Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch[..self.turn.bytes as usize]);
            ready!(Pin::new(&mut self.socket).poll_read(context, &mut buffer))?;
            let read = buffer.filled();
            self.turn.bytes -= u32::try_from(read.len()).expect("the buffer is no larger");
            let (mut walk, mut walked) = (FrameWalk::default(), Walked::default());
            if self.kept.is_none() && read.len() <= into.remaining() {
                walked = walk.advance(read, self.turn.frames.into());
                self.count(walked.frames);
                into.put_slice(&read[..walked.whole]);
            }
            let rest = &read[walked.whole..];
            if !rest.is_empty() || !walk.is_between_messages() {
                let kept = self.kept.get_or_insert_with(|| {
                    Box::new(Kept { walk, walked: walked.bytes - walked.whole, ..Kept::default() })
                });
                kept.keep(rest);
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
            if self.hand_on(into) {
                return Poll::Ready(Ok(()));
            }
            if self.turn.is_over() {
                // Others first.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let before = into.filled().len();
            let read = ready!(self.poll_fill(context, into))?;
            self.account();
            // Something went straight on, or it is the end, wherever in a frame that is.
            if read == 0 || into.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl Kept {
    /// Looks at what is there, to the end of so many frames. Returns how many there were.
    fn walk_on(&mut self, frames: u16, max_frame: usize) -> usize {
        let walked = self.walk.advance(&self.bytes[self.walked..], frames.into());
        if walked.frames > 0 {
            self.whole = self.walked + walked.whole;
        }
        self.walked += walked.bytes;
        // Nothing is gained by waiting for the rest of a frame that will be refused.
        if self.walk.announced().is_some_and(|announced| announced > max_frame as u64) {
            self.whole = self.walked;
        }
        walked.frames
    }

    /// What messages that are not whole take, in bytes: here, and above in a buffer that doubles as it grows.
    fn unfinished(&self) -> usize {
        let above = usize::try_from(self.walk.unfinished_message()).unwrap_or(usize::MAX);
        self.bytes.capacity().saturating_add(above.saturating_mul(2))
    }

    fn keep(&mut self, bytes: &[u8]) {
        // Some room to spare, so that a frame that comes byte by byte is not moved with each of them.
        self.bytes.reserve_exact(bytes.len().max(self.bytes.len() / 8));
        self.bytes.extend_from_slice(bytes);
    }

    fn hand_on(&mut self, into: &mut ReadBuf<'_>) -> bool {
        if self.handed_on == self.whole {
            return false;
        }
        let end = self.whole.min(self.handed_on + into.remaining());
        into.put_slice(&self.bytes[self.handed_on..end]);
        self.handed_on = end;
        if end == self.whole {
            self.bytes.drain(..end);
            self.bytes.shrink_to_fit();
            (self.walked, self.whole, self.handed_on) = (self.walked - end, 0, 0);
        }
        true
    }
}

impl<S: Socket> AsyncRead for Inbox<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.turn.is_open {
            return Pin::new(&mut self.socket).poll_read(context, into);
        }
        let read = self.poll_frames(context, into);
        match (read.is_pending(), self.turn.above) {
            // It asks for more only when it has used up all that it was given, and it was given whole messages.
            (true, Above::Grown) if self.kept.is_none() => self.turn.above = Above::Spare,
            (false, Above::Spare) => self.turn.above = Above::Grown,
            _ => {}
        }
        read
    }
}

impl<S: Socket> AsyncWrite for Inbox<S> {
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
