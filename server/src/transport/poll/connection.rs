use std::future::poll_fn;
use std::pin::Pin;
use std::task::{self, Poll};

use encke_core::close::SuspendReason;
use encke_core::session::ConnectionInput;
use tokio::io::{AsyncRead, ReadBuf};

use super::response::PollResponse;
use super::response_writer::PollResponseWriter;
use crate::admission::PartialMessage;
use crate::client::{Attachment, PartialMessageSender};
use crate::parking::ParkBackoff;
use crate::session::{Backlog, Signals};
use crate::transport::Socket;
use crate::transport::liveness_socket::LivenessSocket;
use crate::transport::park_timer::ParkTimer;
use crate::transport::parked::ConnectionParts;
use crate::transport::pending_subscriptions::PendingSubscriptions;
use crate::transport::pending_write::PendingWrite;
use crate::transport::progress::TooSlow;
use crate::transport::steps::poll_steps;
use crate::transport::write_hold::WriteHold;

/// Approximate maximum size of a response. The rest follows in the next response, which the client requests
/// immediately.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// Maximum number of bytes of the next request to read while this one is held: the maximum size of a request
/// head.
const READ_AHEAD_BYTES: usize = 16 * 1024;

/// A poll of a session, owned by its task.
pub(crate) struct PollConnection<S, F> {
    pub(super) socket: LivenessSocket<S>,
    pub(super) attachment: Attachment,
    /// Whether the request has yet to be counted against the rate limit.
    pub(super) is_new: bool,
    /// Bytes of the next request that were already read.
    pub(super) read_ahead: Vec<u8>,
    /// Accounts for the memory of `read_ahead`, once it is allocated.
    pub(super) account: Option<PartialMessage<PartialMessageSender>>,
    /// Set until the session is subscribed to all channels that the request asked for.
    pub(super) subscriptions: Option<Box<PendingSubscriptions>>,
    /// Whether the client has resumed the session that it asked for.
    pub(super) recovered: bool,
    /// Whether the response must be sent, even if it is empty.
    pub(super) is_due: bool,
    pub(super) writer: F,
    /// Whether the session has messages for this connection.
    pub(super) backlog: Backlog,
    /// Header lines of the response.
    pub(super) headers: Box<[u8]>,
    pub(super) keep_alive: bool,
    /// The serialized response. Empty until it is built.
    pub(super) out: PendingWrite,
    pub(super) hold: WriteHold,
    pub(super) park_timer: ParkTimer,
    pub(super) backoff: ParkBackoff,
}

/// Why a poll's loop has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paused {
    Ended(Ending),
    /// The poll may be parked.
    Park,
}

/// How a poll ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The kernel has accepted the response.
    Answered,
    /// The peer has disconnected or does not read.
    Lost,
}

impl<S: Socket, F: PollResponseWriter> PollConnection<S, F> {
    /// Restores a poll that was parked. `read_ahead` contains the bytes of the next request that were read
    /// before the poll was unparked.
    pub(super) fn unparked(
        parts: ConnectionParts<S>,
        writer: F,
        headers: Box<[u8]>,
        keep_alive: bool,
        read_ahead: Vec<u8>,
    ) -> Self {
        let (socket, attachment, backoff) = parts.into_parts();
        let mut connection = Self::bare(socket, attachment, writer, headers, keep_alive);
        (connection.read_ahead, connection.backoff) = (read_ahead, backoff);
        if !connection.read_ahead.is_empty() {
            connection.account();
        }
        connection
    }

    /// Creates a poll that only has to deliver the session's messages.
    pub(super) fn bare(
        socket: LivenessSocket<S>,
        attachment: Attachment,
        writer: F,
        headers: Box<[u8]>,
        keep_alive: bool,
    ) -> Self {
        Self {
            socket,
            attachment,
            is_new: false,
            read_ahead: Vec::new(),
            account: None,
            subscriptions: None,
            recovered: true,
            is_due: false,
            writer,
            backlog: Backlog { has_more: true, awaits_ack: false },
            headers,
            keep_alive,
            out: PendingWrite::default(),
            hold: WriteHold::default(),
            park_timer: ParkTimer::default(),
            backoff: ParkBackoff::default(),
        }
    }

    /// Drops everything that a parked poll does not need.
    pub(super) fn into_parked_parts(self) -> (ConnectionParts<S>, F, Box<[u8]>, bool) {
        let Self { socket, attachment, writer, headers, keep_alive, backoff, .. } = self;
        (ConnectionParts::new(socket, attachment, backoff), writer, headers, keep_alive)
    }

    /// Returns the backoff, which decides how soon the poll may be parked.
    pub(crate) fn backoff(&self) -> ParkBackoff {
        self.backoff
    }

    /// Sets the backoff carried over from earlier polls on the connection.
    pub(crate) fn set_backoff(&mut self, backoff: ParkBackoff) {
        self.backoff = backoff;
    }

    pub(crate) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    pub(crate) fn writer(&self) -> &F {
        &self.writer
    }

    /// Holds the request until it is answered or may be parked.
    pub(super) async fn run(&mut self) -> Paused {
        poll_fn(|context| match poll_steps(|| self.poll_step(context)) {
            Poll::Pending if self.is_idle() => self.poll_park(),
            polled => polled.map(Paused::Ended),
        })
        .await
    }

    /// Whether there is nothing to do but wait.
    fn is_idle(&self) -> bool {
        !self.backlog.has_more
            && !self.is_due
            && self.out.is_empty()
            && self.subscriptions.is_none()
            && self.read_ahead.is_empty()
            && self.socket.can_park()
    }

    /// Ready when the poll has been held for long enough and its client is silent.
    fn poll_park(&mut self) -> Poll<Paused> {
        let Self { socket, attachment, park_timer, backoff, .. } = self;
        // Ignore `has_input`: any input is kept in `read_ahead`, which prevents parking.
        park_timer.poll(socket, attachment, backoff, &mut false).map(|()| Paused::Park)
    }

    /// Detaches from the session. Returns the socket, and the bytes of the next request that were already
    /// read.
    pub(super) fn into_socket(self) -> (S, Vec<u8>) {
        (self.socket.into_inner(), self.read_ahead)
    }

    fn poll_step(&mut self, context: &mut task::Context<'_>) -> Result<Poll<()>, Ending> {
        if !self.out.is_empty() {
            return self.poll_write(context);
        }
        let signals = self.attachment.mailbox.take_signals(context);
        self.park_timer.note_signals(signals);
        if let Some(code) = signals.close_code() {
            let content = self.writer.respond_closed(code, &self.attachment);
            self.queue_response(&content);
            return Ok(Poll::Ready(()));
        }
        if signals.contains(Signals::SUPERSEDED) {
            let content = self.writer.respond_superseded(&self.attachment);
            self.queue_response(&content);
            return Ok(Poll::Ready(()));
        }
        self.is_due |= signals.contains(Signals::ANSWER);
        self.backlog.has_more |= signals.contains(Signals::READ);
        self.poll_subscriptions(context);
        if self.subscriptions.is_none() && (self.backlog.has_more || self.is_due) && self.make_response() {
            return Ok(Poll::Ready(()));
        }
        self.poll_read_ahead(context)
    }

    fn poll_subscriptions(&mut self, context: &mut task::Context<'_>) {
        let Some(subscriptions) = &mut self.subscriptions else { return };
        let Poll::Ready(refused) = subscriptions.poll(context, &self.attachment, |_, _| {}) else { return };
        self.subscriptions = None;
        // The new subscriptions may have messages to read.
        self.backlog.has_more = true;
        if !self.recovered {
            self.writer.greet(&self.attachment);
        }
        for (channel, reason) in &refused {
            self.writer.report_refused(channel, reason);
        }
        self.is_due |= !refused.is_empty();
    }

    /// Builds the response if there is something to send or a response is due. Returns whether the loop must
    /// run again, either to write the response or to handle a signal that takes precedence.
    fn make_response(&mut self) -> bool {
        self.writer.begin_messages();
        while self.backlog.has_more && self.writer.len() < MAX_RESPONSE_BYTES {
            let (backlog, receipts) = self.attachment.take_outgoing(&mut self.writer);
            self.backlog = backlog;
            self.out.receipts.add(receipts);
        }
        if !self.writer.has_messages() && !self.is_due {
            return false;
        }
        // From now on, the session sends nothing more to this poll. If a signal is already pending, it takes
        // precedence, and the next connection gets the messages taken here.
        if !self.attachment.notify_session(ConnectionInput::Sent) {
            self.writer.discard_messages();
            self.out.receipts.forget();
            if !self.is_due {
                self.is_due = true;
                return true;
            }
        }
        let content = self.writer.respond(&self.attachment);
        self.queue_response(&content);
        true
    }

    /// Queues the response for writing.
    fn queue_response(&mut self, content: &PollResponse) {
        self.out.bytes = content.response(&self.headers, self.keep_alive);
    }

    fn poll_write(&mut self, context: &mut task::Context<'_>) -> Result<Poll<()>, Ending> {
        match self.out.poll_write(context, &mut self.socket) {
            Poll::Ready(Ok(())) => {
                self.hold.release(&self.attachment);
                self.attachment.notify_session(ConnectionInput::Answered { pause: self.writer.pause() });
                Err(Ending::Answered)
            }
            Poll::Ready(Err(error)) => {
                self.attachment.log_failure(&error);
                Err(self.lost(SuspendReason::ConnectionLost))
            }
            Poll::Pending => match self.hold.poll(context, &self.socket, &self.attachment) {
                Ok(()) => Ok(Poll::Pending),
                Err(TooSlow) => Err(self.lost(SuspendReason::SlowConsumer)),
            },
        }
    }

    /// Reads ahead, to notice when the client disconnects. It may have sent its next request already.
    fn poll_read_ahead(&mut self, context: &mut task::Context<'_>) -> Result<Poll<()>, Ending> {
        let mut scratch = [0; 2048];
        let room = READ_AHEAD_BYTES.saturating_sub(self.read_ahead.len()).min(scratch.len());
        if room == 0 {
            return Ok(Poll::Pending);
        }
        let mut buffer = ReadBuf::new(&mut scratch[..room]);
        match Pin::new(&mut self.socket).poll_read(context, &mut buffer) {
            Poll::Pending => Ok(Poll::Pending),
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                self.read_ahead.extend_from_slice(buffer.filled());
                self.account();
                Ok(Poll::Ready(()))
            }
            Poll::Ready(_) => Err(self.lost(SuspendReason::ConnectionLost)),
        }
    }

    /// Accounts for the memory of the bytes that were read ahead.
    fn account(&mut self) {
        self.socket.account(&mut self.account, self.read_ahead.capacity());
    }

    fn lost(&self, reason: SuspendReason) -> Ending {
        self.attachment.notify_session(ConnectionInput::Ended(reason));
        Ending::Lost
    }
}
