use std::future::poll_fn;
use std::sync::Arc;
use std::task::{self, Poll};

use encke_core::close::{CloseCode, SuspendReason};
use encke_core::dialect::Dialect;
use encke_core::dialect::json::Json;
use encke_core::session::ConnectionInput;

use super::event::{EventWriter, PlainEvents, write_farewell, write_heartbeat};
use super::positions::Positions;
use crate::client::{Attachment, hello, unsubscribed};
use crate::parking::ParkBackoff;
use crate::session::{Backlog, Signals, SubscribeOutcome};
use crate::transport::Socket;
use crate::transport::end_of_stream::{end_stream, poll_read_some};
use crate::transport::liveness_socket::{LivenessSocket, PingFate};
use crate::transport::park_timer::ParkTimer;
use crate::transport::parked::ConnectionParts;
use crate::transport::pending_subscriptions::{PendingSubscriptions, RefusedChannel};
use crate::transport::pending_write::PendingWrite;
use crate::transport::progress::TooSlow;
use crate::transport::steps::poll_steps;
use crate::transport::write_hold::WriteHold;

/// An event stream of a session, owned by its task.
pub(super) struct EventStreamConnection<S> {
    pub(super) socket: LivenessSocket<S>,
    pub(super) attachment: Attachment,
    pub(super) token: String,
    pub(super) out: PendingWrite,
    /// Whether `out` contains a heartbeat.
    pub(super) heartbeat: bool,
    /// Whether the session has messages for this connection.
    pub(super) backlog: Backlog,
    /// Client's position in each channel of the request's URL.
    pub(super) positions: Positions,
    /// Set until the session is subscribed to all channels that the stream asked for. The hello is sent only
    /// afterwards, because it tells the client its position in each of them.
    pub(super) subscriptions: Option<Box<PendingSubscriptions>>,
    /// Whether the client has resumed the session that it asked for.
    pub(super) recovered: bool,
    pub(super) hold: WriteHold,
    pub(super) park_timer: ParkTimer,
    pub(super) backoff: ParkBackoff,
    /// Whether the client has sent bytes since the last check. Their content is ignored.
    pub(super) has_input: bool,
}

/// Why a stream's loop has stopped.
pub(super) enum Paused {
    Ended(Ending),
    /// The stream may be parked.
    Park,
}

/// How a stream ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// The server ends the stream. The last event gives the reason.
    Close(CloseCode),
    /// The peer has disconnected.
    Lost,
}

impl<S: Socket> EventStreamConnection<S> {
    /// Creates a stream whose client was already greeted.
    pub(super) fn bare(socket: LivenessSocket<S>, attachment: Attachment, positions: Positions) -> Self {
        Self {
            socket,
            token: attachment.session.resume_token().expose().to_string(),
            attachment,
            out: PendingWrite::default(),
            heartbeat: false,
            backlog: Backlog { has_more: true, awaits_ack: false },
            positions,
            subscriptions: None,
            recovered: false,
            hold: WriteHold::default(),
            park_timer: ParkTimer::default(),
            backoff: ParkBackoff::default(),
            has_input: false,
        }
    }

    /// Restores a stream that was parked, with the output that the kernel did not accept. `heartbeat` is
    /// whether that output ends with a heartbeat.
    pub(super) fn unparked(
        parts: ConnectionParts<S>,
        positions: Positions,
        (out, heartbeat): (PendingWrite, bool),
    ) -> Self {
        let (socket, attachment, backoff) = parts.into_parts();
        Self { out, heartbeat, backoff, ..Self::bare(socket, attachment, positions) }
    }

    /// Drops everything that a parked stream does not need.
    pub(super) fn into_parked_parts(self) -> (ConnectionParts<S>, Positions) {
        let Self { socket, attachment, positions, backoff, .. } = self;
        (ConnectionParts::new(socket, attachment, backoff), positions)
    }

    /// Sends events until the stream ends or may be parked.
    pub(super) async fn run(&mut self) -> Paused {
        poll_fn(|context| match poll_steps(|| self.poll_step(context)) {
            Poll::Pending if self.is_idle() => self.poll_park(),
            polled => polled.map(Paused::Ended),
        })
        .await
    }

    /// Whether the stream may be parked: the kernel has accepted all output, and everything that remains can
    /// be done without a task.
    fn is_idle(&self) -> bool {
        !self.backlog.has_more
            && self.out.is_empty()
            && !self.heartbeat
            && self.subscriptions.is_none()
            && !self.hold.is_held()
            && self.socket.can_park()
    }

    /// Ready when the client has been silent for long enough, and still is.
    fn poll_park(&mut self) -> Poll<Paused> {
        let Self { socket, attachment, park_timer, backoff, has_input, .. } = self;
        park_timer.poll(socket, attachment, backoff, has_input).map(|()| Paused::Park)
    }

    /// Handles signals, then writes, then checks whether the client is still connected.
    fn poll_step(&mut self, context: &mut task::Context<'_>) -> Result<Poll<()>, Ending> {
        let signals = self.attachment.mailbox.take_signals(context);
        self.park_timer.note_signals(signals);
        if let Some(code) = signals.close_code() {
            return Err(Ending::Close(code));
        }
        self.backlog.has_more |= signals.contains(Signals::READ);
        if signals.contains(Signals::PING) {
            write_heartbeat(&mut self.out.bytes);
            self.heartbeat = true;
        }
        self.poll_subscriptions(context);
        if self.poll_flush(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        if signals.contains(Signals::PROBE) {
            self.probe()?;
            // The probe may have caused a close signal.
            return Ok(Poll::Ready(()));
        }
        if self.can_take_messages() {
            let Self { out, token, positions, .. } = self;
            let mut events = EventWriter { out: &mut out.bytes, token, positions };
            let (backlog, receipts) = self.attachment.take_outgoing(&mut events);
            self.backlog = backlog;
            self.out.receipts.add(receipts);
            if self.poll_flush(context)?.is_pending() {
                return Ok(Poll::Pending);
            }
        }
        match poll_read_some(&mut self.socket, context) {
            Poll::Pending if self.can_take_messages() => {
                // Let other tasks run first.
                context.waker().wake_by_ref();
                Ok(Poll::Pending)
            }
            Poll::Pending => Ok(Poll::Pending),
            // Input is discarded: an event stream needs none.
            Poll::Ready(Ok(false)) => {
                self.has_input = true;
                Ok(Poll::Ready(()))
            }
            Poll::Ready(Ok(true) | Err(_)) => Err(self.lost(SuspendReason::ConnectionLost)),
        }
    }

    /// Whether messages may be taken from the session. The hello must be queued first.
    fn can_take_messages(&self) -> bool {
        self.backlog.has_more && self.subscriptions.is_none()
    }

    fn poll_subscriptions(&mut self, context: &mut task::Context<'_>) {
        let Self { subscriptions, attachment, positions, recovered, .. } = self;
        let Some(channels) = subscriptions else { return };
        let on_subscribed =
            |subscribed: &SubscribeOutcome, begin| positions.start(subscribed, begin, *recovered);
        if let Poll::Ready(refused) = channels.poll(context, attachment, on_subscribed) {
            self.subscriptions = None;
            self.greet(&refused);
            // The new subscriptions may have messages to read.
            self.backlog.has_more = true;
        }
    }

    fn greet(&mut self, refused: &[RefusedChannel]) {
        let exposed = self.attachment.session.resume_token().expose();
        let hello = hello(&self.attachment, &exposed, self.recovered);
        let seq = self.attachment.mailbox.start_seq();
        let Self { out, token, positions, .. } = self;
        let mut events = EventWriter { out: &mut out.bytes, token, positions };
        events.write_numbered(seq, &hello);
        for (channel, reason) in refused {
            Json::default().notify(&unsubscribed(channel, reason), &mut PlainEvents(&mut out.bytes));
        }
    }

    fn poll_flush(&mut self, context: &mut task::Context<'_>) -> Result<Poll<()>, Ending> {
        if !self.out.is_empty() {
            match self.out.poll_write(context, &mut self.socket) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.attachment.log_failure(&error);
                    return Err(self.lost(SuspendReason::ConnectionLost));
                }
                Poll::Pending => {
                    return match self.hold.poll(context, &self.socket, &self.attachment) {
                        Ok(()) => Ok(Poll::Pending),
                        Err(TooSlow) => Err(self.too_slow()),
                    };
                }
            }
        }
        self.hold.release(&self.attachment);
        if std::mem::take(&mut self.heartbeat) {
            self.socket.ping_sent();
            let seq = self.attachment.session.sent();
            self.attachment.notify_session(ConnectionInput::PingSent { seq });
        }
        Ok(Poll::Ready(()))
    }

    /// Checks an overdue heartbeat. A client cannot answer a heartbeat, but the client's kernel acknowledges
    /// it.
    fn probe(&mut self) -> Result<(), Ending> {
        let input = match self.socket.ping_fate() {
            Ok(PingFate::Delayed) => ConnectionInput::PingDelayed,
            Ok(PingFate::Lost | PingFate::Answered) => ConnectionInput::Probed,
            Ok(PingFate::Arrived) => {
                self.socket.note_received();
                ConnectionInput::Probed
            }
            Err(TooSlow) => return Err(self.too_slow()),
        };
        self.attachment.notify_session(input);
        Ok(())
    }

    fn too_slow(&self) -> Ending {
        self.lost(SuspendReason::SlowConsumer)
    }

    fn lost(&self, reason: SuspendReason) -> Ending {
        self.attachment.notify_session(ConnectionInput::Ended(reason));
        Ending::Lost
    }

    /// Sends the last event, which gives the reason and the time to wait before reconnecting, since there is
    /// no Close frame.
    pub(super) async fn close(mut self, code: CloseCode) {
        let context = Arc::clone(&self.attachment.services);
        write_farewell(&mut self.out.bytes, code, &context.entropy);
        let Self { mut socket, mut out, attachment, .. } = self;
        // Drop the attachment early: the session has already released this connection, and another one may be
        // using the permit.
        drop(attachment);
        let timeout = std::pin::pin!(context.closing_elapsed());
        let closing = std::pin::pin!(async {
            if poll_fn(|context| out.poll_write(context, &mut socket)).await.is_ok() {
                let _ = end_stream(socket).await;
            }
        });
        futures_util::future::select(timeout, closing).await;
    }
}
