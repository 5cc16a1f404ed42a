mod quiet;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{self, Poll};

use encke_core::close::{CloseCode, SuspendReason};
use encke_core::dialect::{Event, Texts, pong_seq};
use encke_core::session::ConnectionInput;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::fault;
use super::frame::{Frames, OutgoingFrames, write_ping};
use super::goodbye::Ending;
use super::inbox::Inbox;
use super::spoken::Spoken;
use super::{Upgraded, websocket};
use crate::channel::ChannelName;
use crate::client::{Attachment, Commands, Context, hello, unsubscribed};
use crate::rest::Pace;
use crate::session::{Backlog, Notes};
use crate::transport::Socket;
use crate::transport::metered::PingFate;
use crate::transport::progress::TooSlow;
use crate::transport::steps::poll_steps;
use crate::transport::until_rest::UntilRest;
use crate::transport::unwritten::Unwritten;
use crate::transport::write_hold::WriteHold;

/// One WebSocket of a session, owned by its task.
///
/// What the server sends is written here as whole frames; tungstenite reads, and answers the peer's control frames. At
/// most one of the two has something to write: nothing is read before [`Unwritten`] is empty, and nothing of that is
/// written before tungstenite's answers are.
pub(super) struct Connection<S, D: Spoken> {
    socket: WebSocketStream<Inbox<S>>,
    attachment: Attachment,
    dialect: D,
    out: Unwritten,
    /// tungstenite has an answer that the kernel may not have yet.
    answer_unflushed: bool,
    /// A ping is in `out`, with this seq.
    ping: Option<u64>,
    /// What the session has for this connection.
    backlog: Backlog,
    /// The request that the client has had held is to be answered, whatever there is.
    is_due: bool,
    hold: WriteHold,
    commands: Commands<D>,
    until_rest: UntilRest,
    pace: Pace,
    /// Its client has said something that wakes one at rest, since that was looked at last.
    spoke: bool,
    /// What ends the connection, and was read while commands wait: their responses come first.
    last: Option<Box<Result<Message, Error>>>,
}

/// Why a connection's loop has stopped.
pub(super) enum Paused {
    Ended(Ending),
    /// It is to be [renewed](Connection::renew).
    Renew,
    /// It may go to rest.
    Rest,
}

/// What was agreed on when the connection began.
#[derive(Debug)]
pub(super) struct Greeting<D> {
    pub(super) dialect: D,
    /// The session is the one that the client asked for.
    pub(super) recovered: bool,
    /// The channels that its client may no longer follow.
    pub(super) revoked: Vec<ChannelName>,
}

/// What a pong tells the session.
pub(super) fn pong(dialect: &impl Spoken, seq: u64) -> ConnectionInput {
    match dialect.told(u64::MAX) <= seq {
        true => ConnectionInput::LastPongFrame { seq },
        false => ConnectionInput::PongFrame { seq },
    }
}

/// The task's loop goes on, or the connection ends.
type Step<T = ()> = Result<T, Ending>;

impl<S: Socket, D: Spoken> Connection<S, D> {
    /// A connection that says its hello, after `answer`.
    pub(super) fn new(
        socket: WebSocketStream<Inbox<S>>,
        attachment: Attachment,
        greeting: Greeting<D>,
        answer: Vec<u8>,
    ) -> Self {
        let mut connection = Self::begun(socket, attachment, greeting.dialect);
        connection.out = answer.into();
        let token = connection.attachment.session.resume_token().expose();
        let hello = hello(&connection.attachment, &token, greeting.recovered);
        connection.notify(&hello);
        for channel in &greeting.revoked {
            connection.notify(&unsubscribed(channel, "forbidden"));
        }
        connection
    }

    /// A connection that says nothing of itself.
    pub(super) fn begun(socket: WebSocketStream<Inbox<S>>, attachment: Attachment, dialect: D) -> Self {
        Self {
            socket,
            attachment,
            dialect,
            out: Unwritten::default(),
            answer_unflushed: false,
            ping: None,
            // There may be something to send again.
            backlog: Backlog { more: true, until_acknowledged: false },
            is_due: false,
            hold: WriteHold::default(),
            commands: Commands::new(),
            until_rest: UntilRest::default(),
            pace: Pace::default(),
            spoke: false,
            last: None,
        }
    }

    /// Says this first.
    pub(super) fn say(&mut self, text: &str) {
        Frames(&mut self.out.bytes).text(text);
    }

    /// Carries out what a text asks for.
    pub(super) fn heard(&mut self, text: &str) {
        let (dialect, mut frames) = (&mut self.dialect, Frames(&mut self.out.bytes));
        let speaker = self.attachment.speaker();
        self.commands.received(text, speaker, &mut self.backlog, dialect, &mut frames);
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.attachment.context
    }

    /// Does what the session's notes and the peer's messages ask, until one of them ends it, or something else is to be done first.
    pub(super) async fn run(&mut self) -> Paused {
        poll_fn(|context| {
            self.socket.get_mut().begin_turn(D::TURN_FRAMES);
            match poll_steps(|| self.poll_step(context)) {
                Poll::Pending if self.may_be_renewed() => Poll::Ready(Paused::Renew),
                Poll::Pending if self.is_quiet() => self.poll_rest(),
                polled => polled.map(Paused::Ended),
            }
        })
        .await
    }

    /// Nothing of what tungstenite knows would be lost.
    fn may_be_renewed(&self) -> bool {
        self.socket.get_ref().has_spare_buffer() && !self.answer_unflushed && self.last.is_none()
    }

    /// Gives tungstenite new buffers: the old ones are as large as the longest message, and a client may be idle for hours after it.
    pub(super) async fn renew(self) -> Self {
        let settings = &self.attachment.context.settings;
        let mut socket = websocket(self.socket.into_inner(), Vec::new(), settings).await;
        socket.get_mut().buffer_renewed();
        Self { socket, ..self }
    }

    /// Lets go of the session. Returns the text by which the client opens another, and what it has not been told yet.
    pub(super) fn into_opening(mut self) -> (Upgraded<S>, Unwritten, Option<String>) {
        let opening = self.dialect.take_opening();
        (self.socket.into_inner().into_parts(), self.out, opening)
    }

    /// Lets go of the session; what is left is to end the connection. Returns what was not written yet.
    pub(super) async fn into_socket(mut self, ending: Ending) -> (WebSocketStream<Inbox<S>>, Unwritten) {
        if ending == Ending::Close(CloseCode::TryAgainLater) && !self.answer_unflushed {
            // What it had begun to send takes memory, for which it has to go.
            self = self.renew().await;
        }
        self.socket.get_mut().open();
        (self.socket, self.out)
    }

    /// Notes, then writes, then one read.
    fn poll_step(&mut self, context: &mut task::Context<'_>) -> Step<Poll<()>> {
        let notes = self.attachment.link.take_notes(context);
        self.until_rest.hears(notes);
        match notes.close_code() {
            // The session does not know yet.
            Some(code @ CloseCode::TryAgainLater) => {
                return Err(self.end((SuspendReason::Unfinished, Ending::Close(code))));
            }
            Some(code) => {
                self.dialect.farewell(code, &self.attachment, &mut Frames(&mut self.out.bytes));
                return Err(Ending::Close(code));
            }
            None => {}
        }
        self.backlog.more |= notes.contains(Notes::READ);
        if notes.contains(Notes::PING) {
            self.write_ping();
        }
        self.is_due |= notes.contains(Notes::ANSWER);
        if self.poll_flush(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        if notes.contains(Notes::PROBE) {
            self.probe()?;
            // It may have left a note to close.
            return Ok(Poll::Ready(()));
        }
        // A client that has left gets what rides on an answer on its next connection.
        let hears_first = self.dialect.rides() && self.backlog.more && self.holds_bytes();
        if self.backlog.more && self.dialect.takes_messages() && !hears_first {
            let (dialect, frames) = (&mut self.dialect, Frames(&mut self.out.bytes));
            let (backlog, receipts) = self.attachment.take_outgoing(&mut OutgoingFrames { dialect, frames });
            self.backlog = backlog;
            self.out.receipts.add(receipts);
        }
        self.is_due |= self.dialect.has_kept();
        // After what there was to send: a request that is answered at once brings it as well.
        if !hears_first && std::mem::take(&mut self.is_due) {
            self.answer();
        }
        if !self.out.is_empty() && self.poll_flush(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        let (dialect, mut frames) = (&mut self.dialect, Frames(&mut self.out.bytes));
        let waiting = self.commands.poll_waiting(
            context,
            self.attachment.speaker(),
            &mut self.backlog,
            dialect,
            &mut frames,
        );
        let next = match waiting {
            None => match self.last.take() {
                Some(last) => Poll::Ready(Some(*last)),
                None => self.socket.poll_next_unpin(context),
            },
            Some(Poll::Pending) if self.reads_ahead() => match self.socket.poll_next_unpin(context) {
                Poll::Ready(Some(last @ (Err(_) | Ok(Message::Close(_) | Message::Binary(_))))) => {
                    self.last = Some(Box::new(last));
                    Poll::Pending
                }
                next => next,
            },
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(())) => return Ok(Poll::Ready(())),
        };
        match next {
            // What the client has said cannot be read before an engine has answered, which wakes the task.
            Poll::Pending if hears_first && self.holds_bytes() => Ok(Poll::Pending),
            Poll::Pending if self.backlog.more && self.dialect.takes_messages() => {
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

    /// Whether more is read while commands wait.
    fn reads_ahead(&self) -> bool {
        D::READS_WHILE_COMMANDS_WAIT && self.commands.have_room() && self.last.is_none()
    }

    fn received(&mut self, message: Message) -> Step {
        self.spoke |= !matches!(message, Message::Pong(_));
        match message {
            Message::Text(text) => {
                if self.dialect.opens_anew(&text) {
                    return Err(self.end((SuspendReason::ConnectionLost, Ending::Anew)));
                }
                self.heard(&text);
                Ok(())
            }
            Message::Pong(payload) => {
                if let Some(seq) = pong_seq(&payload) {
                    self.backlog.acknowledged();
                    self.tell(pong(&self.dialect, seq));
                }
                Ok(())
            }
            Message::Close(_) => Err(self.end((SuspendReason::PeerClosed, Ending::ClosedByPeer))),
            Message::Binary(_) => {
                Err(self.end((SuspendReason::BadFrame, Ending::Close(CloseCode::UnsupportedData))))
            }
            Message::Ping(_) => {
                // tungstenite has queued the pong. It must leave before more is read: a client that pings and does not read
                // is a slow consumer like any other.
                self.answer_unflushed = true;
                Ok(())
            }
            // tungstenite gives whole messages only.
            Message::Frame(_) => Ok(()),
        }
    }

    /// Whether the client has said something that may be read now.
    fn holds_bytes(&self) -> bool {
        let inbox = self.socket.get_ref();
        !inbox.is_paused() && inbox.socket().holds_bytes()
    }

    /// Answers the request that the client has had held.
    fn answer(&mut self) {
        if self.dialect.answer(&self.attachment, &mut Frames(&mut self.out.bytes)) {
            self.tell(ConnectionInput::Released);
        }
    }

    fn write_ping(&mut self) {
        let seq = self.dialect.told(self.attachment.session.sent());
        write_ping(&mut self.dialect, seq, &mut Frames(&mut self.out.bytes));
        self.ping = Some(seq);
    }

    fn notify(&mut self, event: &Event<'_>) {
        self.dialect.notify(event, &mut Frames(&mut self.out.bytes));
    }

    /// Pending while the peer does not read; its end when that has lasted for `write_timeout`.
    fn poll_flush(&mut self, context: &mut task::Context<'_>) -> Step<Poll<()>> {
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
        self.hold.release(&self.attachment);
        if let Some(seq) = self.ping.take() {
            self.socket.get_mut().socket_mut().ping_sent();
            self.tell(ConnectionInput::PingSent { seq });
        }
        Ok(Poll::Ready(()))
    }

    fn poll_held(&mut self, context: &mut task::Context<'_>) -> Step<Poll<()>> {
        match self.hold.poll(context, self.socket.get_ref().socket(), &self.attachment) {
            Ok(()) => Ok(Poll::Pending),
            Err(TooSlow) => Err(self.too_slow()),
        }
    }

    /// The answer to a ping is overdue.
    fn probe(&mut self) -> Step {
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
        self.tell(input);
        Ok(())
    }

    fn too_slow(&self) -> Ending {
        self.end((SuspendReason::SlowConsumer, Ending::Close(CloseCode::SlowConsumer)))
    }

    fn failed(&self, error: &Error) -> Ending {
        self.attachment.failed(error);
        self.end(fault::judge(error))
    }

    /// The session must know before the closing handshake begins: its client may be back before that ends.
    fn end(&self, (reason, ending): (SuspendReason, Ending)) -> Ending {
        self.tell(ConnectionInput::Ended(reason));
        ending
    }

    fn tell(&self, input: ConnectionInput) -> bool {
        self.attachment.tell(input)
    }
}
