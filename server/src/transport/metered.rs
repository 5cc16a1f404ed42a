use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use encke_core::Timestamp;
use encke_sys::Unacknowledged;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Socket;
use super::progress::{Checkpoint, TooSlow};
use crate::admission::UnfinishedMessage;
use crate::arena::Borrowed;
use crate::client::{ClientSettings, Context, Sender};
use crate::session::{Link, SessionCell};
use crate::timeouts::Sleep;

/// The kernel's clock of acknowledgements is as coarse as its timer interrupt.
const COARSENESS: Duration = Duration::from_millis(20);

/// A socket that notes signs of life. It sits below the frame decoder, because a large message that arrives slowly is a
/// sign of life, too.
pub(crate) struct Metered<S> {
    socket: S,
    link: Arc<Link>,
    context: Arc<Context>,
    /// Bytes that the kernel has taken. It wraps around, as TCP's own count does: far more than can be on the way.
    sent: u32,
    /// `sent` at the end of the last ping.
    ping_end: u32,
    /// Since when the last ping stands behind data.
    ping_delayed: Option<Box<Checkpoint>>,
}

/// What is known of the bytes that the kernel has taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// It wraps around.
    sent: u32,
    ping_end: u32,
}

impl Written {
    #[expect(clippy::cast_possible_truncation, reason = "it wraps around")]
    pub(super) fn note_sent(&mut self, taken: usize) {
        self.sent = self.sent.wrapping_add(taken as u32);
    }

    pub(super) fn ping_sent(&mut self) {
        self.ping_end = self.sent;
    }

    /// Whether the last ping has arrived at the peer's machine, if so many bytes are not acknowledged.
    pub(super) fn has_ping_arrived(self, unacknowledged: u64) -> bool {
        unacknowledged <= u64::from(self.sent.wrapping_sub(self.ping_end))
    }
}

/// What became of a ping whose answer is overdue, as far as the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PingFate {
    /// Something was received.
    Answered,
    /// It arrived at the peer's machine; no answer came.
    Arrived,
    /// It stands behind data that the peer is still taking.
    Delayed,
    /// It is on its way, and the peer's machine acknowledges nothing.
    Lost,
}

impl<S: Socket> Metered<S> {
    pub(crate) fn new(socket: S, link: Arc<Link>, context: Arc<Context>) -> Self {
        Self { socket, link, context, sent: 0, ping_end: 0, ping_delayed: None }
    }

    /// A socket that was used without a task meanwhile.
    pub(super) fn woken(socket: S, link: Arc<Link>, context: Arc<Context>, written: Written) -> Self {
        let Written { sent, ping_end } = written;
        Self { sent, ping_end, ..Self::new(socket, link, context) }
    }

    pub(super) fn into_inner(self) -> S {
        self.socket
    }

    /// Whether it can be used without a task.
    pub(super) fn can_rest(&self) -> bool {
        self.socket.can_rest() && self.ping_delayed.is_none()
    }

    /// Whether nothing waits to be read, not even an end.
    pub(super) fn is_silent(&self) -> bool {
        self.socket.is_silent()
    }

    pub(super) fn written(&self) -> Written {
        Written { sent: self.sent, ping_end: self.ping_end }
    }

    /// Bytes that the kernel has taken.
    pub(super) fn sent(&self) -> u32 {
        self.sent
    }

    /// Whether the kernel has bytes that were not read.
    pub(super) fn holds_bytes(&self) -> bool {
        self.socket.holds_bytes()
    }

    /// The session of its connection, if that is still there.
    pub(super) fn session(&self) -> Option<Borrowed<'_, SessionCell>> {
        self.context.sessions.get(self.link.session())
    }

    pub(super) fn settings(&self) -> &ClientSettings {
        &self.context.settings
    }

    pub(super) fn unacknowledged(&self) -> Unacknowledged {
        self.socket.unacknowledged()
    }

    /// The kernel has taken a ping, just now.
    pub(super) fn ping_sent(&mut self) {
        self.ping_end = self.sent;
        self.ping_delayed = None;
    }

    /// Asks the kernel itself what became of the last ping. The runtime may not yet know of bytes that the kernel holds.
    pub(super) fn ping_fate(&mut self) -> Result<PingFate, TooSlow> {
        let pong_timeout = self.context.sessions.settings().pong_timeout;
        if self.socket.holds_bytes() {
            self.note_received();
            return Ok(PingFate::Answered);
        }
        let unacknowledged = self.unacknowledged();
        if self.written().has_ping_arrived(unacknowledged.bytes) {
            return Ok(PingFate::Arrived);
        }
        if unacknowledged.in_flight && unacknowledged.silent_for + COARSENESS >= pong_timeout {
            return Ok(PingFate::Lost);
        }
        // A peer without room is slow, not dead. It may be slow for so long.
        let now = self.now();
        let mut checkpoint = match self.ping_delayed.take() {
            Some(checkpoint) => checkpoint,
            None => Box::new(Checkpoint::new(now, self)),
        };
        checkpoint.advance(now, self)?;
        self.ping_delayed = Some(checkpoint);
        Ok(PingFate::Delayed)
    }

    #[expect(clippy::cast_possible_truncation, reason = "it wraps around")]
    fn note_sent(&mut self, taken: usize) {
        self.sent = self.sent.wrapping_add(self.socket.sent(taken) as u32);
    }

    /// When something was last received.
    pub(super) fn received_at(&self) -> Timestamp {
        self.link.received_at()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.context.timeouts.clock().now()
    }

    pub(super) fn sleep_until(&self, deadline: Timestamp) -> Sleep {
        self.context.timeouts.sleep_until(deadline)
    }

    /// The peer's unfinished messages have so many bytes now. If all connections have too many together, one of them is closed.
    pub(super) fn account(&self, account: &mut Option<UnfinishedMessage<Sender>>, bytes: usize) {
        let sender = || Sender::Connection(Arc::clone(&self.link));
        let now = self.received_at();
        let begin = || self.context.unfinished.begin(sender(), self.link.address(), now);
        self.context.account(account.get_or_insert_with(begin), bytes, now);
    }

    /// Something is a sign of life.
    pub(super) fn note_received(&self) {
        self.link.received(self.now());
    }
}

impl<S: Socket> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buf);
        // Half a record of TLS gives nothing to read, and is life all the same.
        if self.socket.has_received(buf.filled().len() > before) {
            self.note_received();
        }
        read
    }
}

impl<S: Socket> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, buf);
        let taken = if let Poll::Ready(Ok(taken)) = written { taken } else { 0 };
        self.note_sent(taken);
        written
    }

    // Apart from its callers, it takes 1 % of a delivery.
    #[inline]
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        // The kernel has no flush. With TLS it takes here what it could not take before.
        self.note_sent(0);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
