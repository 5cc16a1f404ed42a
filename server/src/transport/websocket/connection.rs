use std::future::poll_fn;
use std::task::{Context, Poll};

use encke_core::close::{CloseCode, SuspendReason};
use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, Event, Response, pong_seq};
use encke_core::session::{ConnectionInput, Heartbeat};
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::fault;
use super::frame::{Frames, OutgoingFrames};
use super::goodbye::Ending;
use crate::channel::ChannelName;
use crate::server::Shared;
use crate::session::{Left, Notes};
use crate::transport::attachment::Attachment;
use crate::transport::greeting::{hello, unsubscribed};
use crate::transport::metered::Metered;
use crate::transport::rate::CommandRate;
use crate::transport::steps::poll_steps;
use crate::transport::unwritten::Unwritten;
use crate::transport::write_hold::{Overdue, WriteHold};

/// One WebSocket of a session, owned by its task.
///
/// What the server says is written here as whole frames; tungstenite reads, and answers the peer's control frames. Of the
/// two, one at most has something to write: nothing is read before [`Unwritten`] is empty, and nothing of it is written
/// before tungstenite's answers are.
pub(super) struct Connection {
    socket: WebSocketStream<Metered>,
    pub(super) attachment: Attachment,
    pub(super) dialect: Json,
    out: Unwritten,
    /// tungstenite has an answer that the kernel may not have yet.
    answer_unflushed: bool,
    /// A ping is in `out`, with this seq.
    ping: Option<u64>,
    /// What the session has for this connection.
    pub(super) left: Left,
    hold: WriteHold,
    pub(super) rate: CommandRate,
}

/// What was agreed on when the connection began.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) dialect: Json,
    /// The session is the one that the client asked for.
    pub(super) recovered: bool,
    /// The channels that its client may not follow any more.
    pub(super) revoked: Vec<ChannelName>,
}

/// The task's loop goes on, or the connection ends.
pub(super) type Step<T = ()> = Result<T, Ending>;

impl Connection {
    pub(super) fn new(socket: WebSocketStream<Metered>, attachment: Attachment, greeting: Greeting) -> Self {
        let shared = &attachment.shared;
        let rate = CommandRate::new(shared.config.limits.commands_per_second, shared.timeouts.clock().now());
        let mut connection = Self {
            socket,
            attachment,
            dialect: greeting.dialect,
            out: Unwritten::default(),
            answer_unflushed: false,
            ping: None,
            // There may be something to send again.
            left: Left { more: true, until_acknowledged: false },
            hold: WriteHold::default(),
            rate,
        };
        connection.notify(&hello(&connection.attachment, greeting.recovered));
        connection.tell_revoked(&greeting.revoked);
        connection
    }

    /// Does what the session's notes and the peer's messages ask, until one of them ends it.
    pub(super) async fn run(&mut self) -> Ending {
        poll_fn(|context| poll_steps(|| self.poll_step(context))).await
    }

    /// Lets go of the session; what is left is to end the connection. Returns what was not written yet.
    pub(super) fn into_socket(self) -> (WebSocketStream<Metered>, Unwritten) {
        (self.socket, self.out)
    }

    /// Notes, then writes, then one read.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Step<Poll<()>> {
        let notes = self.attachment.link.take_notes(context);
        if let Some(code) = notes.close_code() {
            return Err(Ending::Close(code));
        }
        self.left.more |= notes.contains(Notes::READ);
        if notes.contains(Notes::PING) {
            self.write_ping();
        }
        if self.poll_flush(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        if notes.contains(Notes::PROBE) {
            self.socket.get_ref().probe();
            self.tell(ConnectionInput::Probed);
            // It may have left a note to close.
            return Ok(Poll::Ready(()));
        }
        if self.left.more {
            let (dialect, frames) = (&mut self.dialect, Frames(&mut self.out.bytes));
            self.left = self.attachment.take_outgoing(&mut OutgoingFrames { dialect, frames });
            if self.poll_flush(context)?.is_pending() {
                return Ok(Poll::Pending);
            }
        }
        match self.socket.poll_next_unpin(context) {
            Poll::Pending if self.left.more => {
                // Others first.
                context.waker().wake_by_ref();
                Ok(Poll::Pending)
            }
            Poll::Pending => Ok(Poll::Pending),
            Poll::Ready(Some(Ok(message))) => self.received(message).map(Poll::Ready),
            Poll::Ready(Some(Err(error))) => Err(self.failed(&error)),
            Poll::Ready(None) => Err(self.end(fault::LOST)),
        }
    }

    fn received(&mut self, message: Message) -> Step {
        match message {
            Message::Text(text) => self.received_text(&text),
            Message::Pong(payload) => {
                if let Some(seq) = pong_seq(&payload) {
                    self.tell_progress(ConnectionInput::PongFrame { seq });
                }
                Ok(())
            }
            Message::Close(_) => Err(self.end((SuspendReason::PeerClosed, Ending::ClosedByPeer))),
            Message::Binary(_) => {
                Err(self.end((SuspendReason::BadFrame, Ending::Close(CloseCode::UnsupportedData))))
            }
            Message::Ping(_) => {
                // tungstenite has queued the pong. It must leave before more is read: who pings and does not read
                // is a slow consumer like any other.
                self.answer_unflushed = true;
                Ok(())
            }
            // tungstenite gives whole messages only.
            Message::Frame(_) => Ok(()),
        }
    }

    fn write_ping(&mut self) {
        let seq = self.attachment.session.sent();
        match self.dialect.heartbeat() {
            Heartbeat::Frame => Frames(&mut self.out.bytes).ping(seq),
            Heartbeat::Message => self.notify(&Event::Ping { seq }),
        }
        self.ping = Some(seq);
    }

    pub(super) fn tell_revoked(&mut self, channels: &[ChannelName]) {
        for channel in channels {
            self.notify(&unsubscribed(channel, "forbidden"));
        }
    }

    fn notify(&mut self, event: &Event<'_>) {
        self.dialect.notify(event, &mut Frames(&mut self.out.bytes));
    }

    pub(super) fn respond(&mut self, response: Response<'_, u64>) {
        self.dialect.respond(&[response], &mut Frames(&mut self.out.bytes));
    }

    /// Pending while the peer does not read; its end when that has lasted for `write_timeout`.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Step<Poll<()>> {
        if self.answer_unflushed {
            match self.socket.poll_flush_unpin(context) {
                Poll::Ready(Ok(())) => self.answer_unflushed = false,
                Poll::Ready(Err(error)) => return Err(self.failed(&error)),
                Poll::Pending => return self.poll_held(context),
            }
        }
        if !self.out.is_empty() {
            match self.out.poll_write(context, self.socket.get_mut()) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Err(self.failed(&Error::Io(error))),
                Poll::Pending => return self.poll_held(context),
            }
        }
        self.hold.release(self.socket.get_mut(), &self.attachment);
        if let Some(seq) = self.ping.take() {
            self.tell(ConnectionInput::PingSent { seq });
        }
        Ok(Poll::Ready(()))
    }

    fn poll_held(&mut self, context: &mut Context<'_>) -> Step<Poll<()>> {
        match self.hold.poll(context, self.socket.get_mut(), &self.attachment) {
            Ok(()) => Ok(Poll::Pending),
            Err(Overdue) => {
                Err(self.end((SuspendReason::SlowConsumer, Ending::Close(CloseCode::SlowConsumer))))
            }
        }
    }

    fn failed(&self, error: &Error) -> Ending {
        tracing::debug!(session = %self.attachment.session.id(), %error, "connection failed");
        self.end(fault::judge(error))
    }

    /// The session must know before the closing handshake begins: its client may be back before that ends.
    fn end(&self, (reason, ending): (SuspendReason, Ending)) -> Ending {
        self.tell(ConnectionInput::Ended(reason));
        ending
    }

    pub(super) fn tell(&self, input: ConnectionInput) -> bool {
        self.attachment.tell(input)
    }

    /// Tells that the client has something: then there may be room for more.
    pub(super) fn tell_progress(&mut self, input: ConnectionInput) -> bool {
        self.left.more |= self.left.until_acknowledged;
        self.tell(input)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.attachment.shared
    }
}
