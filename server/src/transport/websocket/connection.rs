mod parking;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{self, Poll};

use encke_core::close::{CloseCode, SuspendReason};
use encke_core::dialect::{ServerEvent, TextSink, pong_seq};
use encke_core::session::ConnectionInput;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::closing::Ending;
use super::dialect::WebSocketDialect;
use super::error_class;
use super::frame::{Frames, OutgoingFrames, write_ping};
use super::frame_limiter::FrameLimiter;
use super::{Upgraded, websocket};
use crate::channel::ChannelName;
use crate::client::{Attachment, Commands, Services, hello, unsubscribed};
use crate::parking::ParkBackoff;
use crate::session::{Backlog, Signals};
use crate::transport::Socket;
use crate::transport::liveness_socket::PingFate;
use crate::transport::park_timer::ParkTimer;
use crate::transport::pending_write::PendingWrite;
use crate::transport::progress::TooSlow;
use crate::transport::steps::poll_steps;
use crate::transport::write_hold::WriteHold;

/// A WebSocket of a session, owned by its task.
///
/// This type writes output as whole frames; tungstenite reads input, and answers the peer's control frames.
/// Only one of the two has pending output at a time: nothing is read while [`PendingWrite`] has output, and
/// that output is not written until tungstenite's answers have been flushed.
pub(super) struct WebSocketConnection<S, D: WebSocketDialect> {
    socket: WebSocketStream<FrameLimiter<S>>,
    attachment: Attachment,
    dialect: D,
    out: PendingWrite,
    /// Whether the kernel may not have accepted tungstenite's last answer yet.
    answer_unflushed: bool,
    /// Seq of the ping in `out`.
    ping: Option<u64>,
    /// Whether the session has messages for this connection.
    backlog: Backlog,
    /// Whether the client's held request must be answered, even if there are no messages.
    is_due: bool,
    hold: WriteHold,
    commands: Commands<D>,
    park_timer: ParkTimer,
    backoff: ParkBackoff,
    /// Whether input that would unpark a connection has arrived since the last check.
    has_input: bool,
    /// Input that ends the connection but was read while commands were pending. It is handled after their
    /// replies have been sent.
    deferred_end: Option<Box<Result<Message, Error>>>,
}

/// Why a connection's loop has stopped.
pub(super) enum Paused {
    Ended(Ending),
    /// The connection must be [renewed](WebSocketConnection::renew).
    Renew,
    /// The connection may be parked.
    Park,
}

/// Terms agreed on when the connection was opened.
#[derive(Debug)]
pub(super) struct Greeting<D> {
    pub(super) dialect: D,
    /// Whether the client has resumed the session that it asked for.
    pub(super) recovered: bool,
    /// Channels that the client may no longer subscribe to.
    pub(super) revoked: Vec<ChannelName>,
}

/// Returns the session's input for a pong with this seq.
pub(super) fn pong_input(dialect: &impl WebSocketDialect, seq: u64) -> ConnectionInput {
    match dialect.acknowledgeable_seq(u64::MAX) <= seq {
        true => ConnectionInput::LastPongFrame { seq },
        false => ConnectionInput::PongFrame { seq },
    }
}

/// Result of a step: either the loop continues, or the connection ends.
type StepResult<T = ()> = Result<T, Ending>;

impl<S: Socket, D: WebSocketDialect> WebSocketConnection<S, D> {
    /// Creates a connection that sends `answer`, then its hello.
    pub(super) fn new(
        socket: WebSocketStream<FrameLimiter<S>>,
        attachment: Attachment,
        greeting: Greeting<D>,
        answer: Vec<u8>,
    ) -> Self {
        let mut connection = Self::bare(socket, attachment, greeting.dialect);
        connection.out = answer.into();
        let token = connection.attachment.session.resume_token().expose();
        let hello = hello(&connection.attachment, &token, greeting.recovered);
        connection.notify(&hello);
        for channel in &greeting.revoked {
            connection.notify(&unsubscribed(channel, "forbidden"));
        }
        connection
    }

    /// Creates a connection that sends no greeting.
    pub(super) fn bare(socket: WebSocketStream<FrameLimiter<S>>, attachment: Attachment, dialect: D) -> Self {
        Self {
            socket,
            attachment,
            dialect,
            out: PendingWrite::default(),
            answer_unflushed: false,
            ping: None,
            // There may be messages to retransmit.
            backlog: Backlog { has_more: true, awaits_ack: false },
            is_due: false,
            hold: WriteHold::default(),
            commands: Commands::new(),
            park_timer: ParkTimer::default(),
            backoff: ParkBackoff::default(),
            has_input: false,
            deferred_end: None,
        }
    }

    /// Queues a text message as the first output.
    pub(super) fn queue_text(&mut self, text: &str) {
        Frames(&mut self.out.bytes).text(text);
    }

    /// Executes the commands in a text message.
    pub(super) fn run_commands(&mut self, text: &str) {
        let (dialect, mut frames) = (&mut self.dialect, Frames(&mut self.out.bytes));
        let speaker = self.attachment.command_context();
        self.commands.handle_text(text, speaker, &mut self.backlog, dialect, &mut frames);
    }

    pub(super) fn services(&self) -> &Arc<Services> {
        &self.attachment.services
    }

    /// Handles the session's signals and the peer's messages, until the connection ends or has to be renewed
    /// or parked.
    pub(super) async fn run(&mut self) -> Paused {
        poll_fn(|context| {
            self.socket.get_mut().begin_poll(D::FRAMES_PER_POLL);
            match poll_steps(|| self.poll_step(context)) {
                Poll::Pending if self.can_be_renewed() => Poll::Ready(Paused::Renew),
                Poll::Pending if self.is_idle() => self.poll_park(),
                polled => polled.map(Paused::Ended),
            }
        })
        .await
    }

    /// Whether tungstenite can be replaced without losing state.
    fn can_be_renewed(&self) -> bool {
        self.socket.get_ref().has_spare_buffer() && !self.answer_unflushed && self.deferred_end.is_none()
    }

    /// Gives tungstenite new buffers. The old ones are as large as the longest message received, and the
    /// client may now be idle for hours.
    pub(super) async fn renew(self) -> Self {
        let settings = &self.attachment.services.settings;
        let mut socket = websocket(self.socket.into_inner(), Vec::new(), settings).await;
        socket.get_mut().buffer_renewed();
        Self { socket, ..self }
    }

    /// Detaches from the session. Returns the socket, the output that is still pending, and the text message
    /// with which the client opens another session.
    pub(super) fn into_new_session(mut self) -> (Upgraded<S>, PendingWrite, Option<String>) {
        let text = self.dialect.take_handshake();
        (self.socket.into_inner().into_parts(), self.out, text)
    }

    /// Detaches from the session, to close the connection. Returns the socket and the output that is still
    /// pending.
    pub(super) async fn into_socket(
        mut self,
        ending: Ending,
    ) -> (WebSocketStream<FrameLimiter<S>>, PendingWrite) {
        if ending == Ending::Close(CloseCode::TryAgainLater) && !self.answer_unflushed {
            // Renew the connection to free the memory of the peer's partial message, which is why the
            // connection is closed.
            self = self.renew().await;
        }
        self.socket.get_mut().lift_limits();
        (self.socket, self.out)
    }

    /// Handles signals, then writes, then reads once.
    fn poll_step(&mut self, context: &mut task::Context<'_>) -> StepResult<Poll<()>> {
        let signals = self.attachment.mailbox.take_signals(context);
        self.park_timer.note_signals(signals);
        match signals.close_code() {
            // The client's partial message was evicted. The session does not know of this yet.
            Some(code @ CloseCode::TryAgainLater) => {
                return Err(self.end((SuspendReason::Unfinished, Ending::Close(code))));
            }
            Some(code) => {
                self.dialect.answer_held_on_close(code, &self.attachment, &mut Frames(&mut self.out.bytes));
                return Err(Ending::Close(code));
            }
            None => {}
        }
        self.backlog.has_more |= signals.contains(Signals::READ);
        if signals.contains(Signals::PING) {
            self.write_ping();
        }
        self.is_due |= signals.contains(Signals::ANSWER);
        if self.poll_flush(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        if signals.contains(Signals::PROBE) {
            self.probe()?;
            // The probe may have caused a close signal.
            return Ok(Poll::Ready(()));
        }
        // Read input first: it may be a disconnect, after which the client gets its bundled messages on its
        // next connection.
        let reads_first =
            self.dialect.bundles_messages() && self.backlog.has_more && self.has_readable_bytes();
        if self.backlog.has_more && self.dialect.can_send_messages() && !reads_first {
            let (dialect, frames) = (&mut self.dialect, Frames(&mut self.out.bytes));
            let (backlog, receipts) = self.attachment.take_outgoing(&mut OutgoingFrames { dialect, frames });
            self.backlog = backlog;
            self.out.receipts.add(receipts);
        }
        self.is_due |= self.dialect.has_buffered();
        // Answer last, so that an immediate answer includes the output above.
        if !reads_first && std::mem::take(&mut self.is_due) {
            self.answer();
        }
        if !self.out.is_empty() && self.poll_flush(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        let (dialect, mut frames) = (&mut self.dialect, Frames(&mut self.out.bytes));
        let waiting = self.commands.poll_pending(
            context,
            self.attachment.command_context(),
            &mut self.backlog,
            dialect,
            &mut frames,
        );
        let next = match waiting {
            None => match self.deferred_end.take() {
                Some(last) => Poll::Ready(Some(*last)),
                None => self.socket.poll_next_unpin(context),
            },
            Some(Poll::Pending) if self.can_read_ahead() => match self.socket.poll_next_unpin(context) {
                Poll::Ready(Some(last @ (Err(_) | Ok(Message::Close(_) | Message::Binary(_))))) => {
                    self.deferred_end = Some(Box::new(last));
                    Poll::Pending
                }
                next => next,
            },
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(())) => return Ok(Poll::Ready(())),
        };
        match next {
            // Wait for the engine: until it has answered, the client's input cannot be read. Its answer wakes
            // the task.
            Poll::Pending if reads_first && self.has_readable_bytes() => Ok(Poll::Pending),
            Poll::Pending if self.backlog.has_more && self.dialect.can_send_messages() => {
                // Let other tasks run first.
                context.waker().wake_by_ref();
                Ok(Poll::Pending)
            }
            Poll::Pending => Ok(Poll::Pending),
            Poll::Ready(Some(Ok(message))) => self.received(message).map(Poll::Ready),
            Poll::Ready(Some(Err(error))) => Err(self.failed(&error)),
            Poll::Ready(None) => Err(self.end(error_class::CONNECTION_LOST)),
        }
    }

    /// Whether to read more while commands are pending.
    fn can_read_ahead(&self) -> bool {
        D::READS_WHILE_COMMANDS_PENDING && self.commands.has_room() && self.deferred_end.is_none()
    }

    fn received(&mut self, message: Message) -> StepResult {
        self.has_input |= !matches!(message, Message::Pong(_));
        match message {
            Message::Text(text) => {
                if self.dialect.store_handshake(&text) {
                    return Err(self.end((SuspendReason::ConnectionLost, Ending::NewSession)));
                }
                self.run_commands(&text);
                Ok(())
            }
            Message::Pong(payload) => {
                if let Some(seq) = pong_seq(&payload) {
                    self.backlog.acknowledged();
                    self.notify_session(pong_input(&self.dialect, seq));
                }
                Ok(())
            }
            Message::Close(_) => Err(self.end((SuspendReason::PeerClosed, Ending::ClosedByPeer))),
            Message::Binary(_) => {
                Err(self.end((SuspendReason::BadFrame, Ending::Close(CloseCode::UnsupportedData))))
            }
            Message::Ping(_) => {
                // tungstenite has queued the pong. Send it before reading more: a client that sends pings
                // without reading is a slow consumer like any other.
                self.answer_unflushed = true;
                Ok(())
            }
            // tungstenite returns only whole messages.
            Message::Frame(_) => Ok(()),
        }
    }

    /// Whether the client has sent bytes that may be read now.
    fn has_readable_bytes(&self) -> bool {
        let inbox = self.socket.get_ref();
        !inbox.is_paused() && inbox.socket().has_unread_bytes()
    }

    /// Answers the client's held request.
    fn answer(&mut self) {
        if self.dialect.answer_held(&self.attachment, &mut Frames(&mut self.out.bytes)) {
            self.notify_session(ConnectionInput::Released);
        }
    }

    fn write_ping(&mut self) {
        let seq = self.dialect.acknowledgeable_seq(self.attachment.session.sent());
        write_ping(&mut self.dialect, seq, &mut Frames(&mut self.out.bytes));
        self.ping = Some(seq);
    }

    fn notify(&mut self, event: &ServerEvent<'_>) {
        self.dialect.notify(event, &mut Frames(&mut self.out.bytes));
    }

    /// Writes all pending output. Pending while the peer does not read; if that lasts for `write_timeout`,
    /// the connection ends.
    fn poll_flush(&mut self, context: &mut task::Context<'_>) -> StepResult<Poll<()>> {
        if self.answer_unflushed {
            match self.socket.poll_flush_unpin(context) {
                Poll::Ready(Ok(())) => self.answer_unflushed = false,
                Poll::Ready(Err(error)) => return Err(self.failed(&error)),
                Poll::Pending => return self.poll_blocked(context),
            }
        }
        if !self.out.is_empty() {
            match self.out.poll_write(context, self.socket.get_mut()) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Err(self.failed(&Error::Io(error))),
                Poll::Pending => return self.poll_blocked(context),
            }
        }
        self.hold.release(&self.attachment);
        if let Some(seq) = self.ping.take() {
            self.socket.get_mut().socket_mut().ping_sent();
            self.notify_session(ConnectionInput::PingSent { seq });
        }
        Ok(Poll::Ready(()))
    }

    fn poll_blocked(&mut self, context: &mut task::Context<'_>) -> StepResult<Poll<()>> {
        match self.hold.poll(context, self.socket.get_ref().socket(), &self.attachment) {
            Ok(()) => Ok(Poll::Pending),
            Err(TooSlow) => Err(self.too_slow()),
        }
    }

    /// Checks an overdue ping.
    fn probe(&mut self) -> StepResult {
        let inbox = self.socket.get_mut();
        let is_paused = inbox.is_paused();
        let socket = inbox.socket_mut();
        if is_paused {
            socket.note_received();
        }
        let input = match socket.ping_fate() {
            Ok(PingFate::Delayed) => ConnectionInput::PingDelayed,
            Ok(PingFate::Answered | PingFate::Arrived | PingFate::Lost) => ConnectionInput::Probed,
            Err(TooSlow) => return Err(self.too_slow()),
        };
        self.notify_session(input);
        Ok(())
    }

    fn too_slow(&self) -> Ending {
        self.end((SuspendReason::SlowConsumer, Ending::Close(CloseCode::SlowConsumer)))
    }

    fn failed(&self, error: &Error) -> Ending {
        self.attachment.log_failure(error);
        self.end(error_class::classify(error))
    }

    /// Notifies the session before the closing handshake begins, because the client may reconnect before that
    /// handshake ends.
    fn end(&self, (reason, ending): (SuspendReason, Ending)) -> Ending {
        self.notify_session(ConnectionInput::Ended(reason));
        ending
    }

    fn notify_session(&self, input: ConnectionInput) -> bool {
        self.attachment.notify_session(input)
    }
}
