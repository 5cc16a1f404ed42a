use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use encke_core::close::{CloseCode, CloseReason, SuspendReason};
use encke_core::dialect::json::{
    Command, Heartbeat, Hello, Outcome, Ping, Reply, ReplyError, ServerMessage, VERSION, parse_command,
    ping_payload, pong_seq,
};
use encke_core::session::ConnectionInput;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::attachment::Attachment;
use super::fault;
use super::goodbye::Ending;
use crate::server::Shared;
use crate::session::Notes;
use crate::timeouts::Sleep;
use crate::transport::metered::Metered;

/// One WebSocket of a session, owned by its task.
pub(super) struct Connection {
    socket: WebSocketStream<Metered>,
    attachment: Attachment,
    greeting: Greeting,
    /// Something was handed to tungstenite that the kernel may not have yet.
    unflushed: bool,
    /// A ping is among it.
    ping_unflushed: bool,
    /// The peer does not read: until when it has. Nothing is read from it meanwhile, so that replies do not pile up.
    held: Option<Pin<Box<Sleep>>>,
}

/// What was agreed on when the connection began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Greeting {
    pub(super) heartbeat: Heartbeat,
    /// The session is the one that the client asked for.
    pub(super) recovered: bool,
}

/// The task's loop goes on, or the connection ends.
type Step<T = ()> = Result<T, Ending>;

impl Connection {
    pub(super) fn new(socket: WebSocketStream<Metered>, attachment: Attachment, greeting: Greeting) -> Self {
        Self { socket, attachment, greeting, unflushed: false, ping_unflushed: false, held: None }
    }

    /// Says hello, then does what the session's notes and the peer's messages ask, until one of them ends it.
    pub(super) async fn run(&mut self) -> Ending {
        if let Err(ending) = self.write(Message::text(self.hello())) {
            return ending;
        }
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Ending> {
        loop {
            match self.poll_step(context) {
                Ok(Poll::Ready(())) => {}
                Ok(Poll::Pending) => return Poll::Pending,
                Err(ending) => return Poll::Ready(ending),
            }
        }
    }

    fn hello(&self) -> String {
        let timeouts = self.shared().sessions.settings();
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        ServerMessage::Hello(Hello {
            version: VERSION,
            session: self.attachment.session.id().to_string().into(),
            resume: self.attachment.session.resume_token().expose().into(),
            recovered: self.greeting.recovered,
            seq: self.attachment.session.seq(),
            ping_interval_ms: millis(timeouts.ping_interval),
            pong_timeout_ms: millis(timeouts.pong_timeout),
            reconnect_window_ms: millis(timeouts.reconnect_window),
        })
        .to_json()
    }

    /// Lets go of the session; what is left is to end the connection.
    pub(super) fn into_socket(self) -> WebSocketStream<Metered> {
        self.socket
    }

    /// Notes, then writes, then one read.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Step<Poll<()>> {
        let notes = self.attachment.link.take_notes(context);
        if let Some(code) = notes.close_code() {
            return Err(Ending::Close(code));
        }
        if notes.contains(Notes::PING) {
            self.write_ping()?;
        }
        if self.unflushed && self.poll_flush(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        if notes.contains(Notes::PROBE) {
            self.socket.get_ref().probe();
            self.tell(ConnectionInput::Probed);
            // It may have left a note to close.
            return Ok(Poll::Ready(()));
        }
        match self.socket.poll_next_unpin(context) {
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
                    self.tell(ConnectionInput::Pong { seq });
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
                self.unflushed = true;
                Ok(())
            }
            // tungstenite gives whole messages only.
            Message::Frame(_) => Ok(()),
        }
    }

    fn received_text(&mut self, text: &str) -> Step {
        let request = match parse_command(text) {
            Ok(request) => request,
            Err(error) => {
                self.tell(ConnectionInput::Command);
                let message = error.to_string().into();
                let outcome = Outcome::Error(ReplyError { code: error.code, message });
                return self.write_message(&ServerMessage::Reply(Reply { id: error.id, outcome }));
            }
        };
        match request.command {
            Command::Ack { seq } => self.tell_and_reply(ConnectionInput::Ack { seq }, request.id),
            Command::Pong { seq } => self.tell_and_reply(ConnectionInput::Pong { seq }, request.id),
            Command::Close => {
                // While there is still a connection to reply on.
                self.reply_ok(request.id)?;
                self.tell(ConnectionInput::Close(CloseReason::Client));
                Ok(())
            }
        }
    }

    /// What ended the session gets no reply; the Close frame says it.
    fn tell_and_reply(&mut self, input: ConnectionInput, id: Option<u64>) -> Step {
        if self.tell(input) { self.reply_ok(id) } else { Ok(()) }
    }

    fn reply_ok(&mut self, id: Option<u64>) -> Step {
        match id {
            Some(_) => self.write_message(&ServerMessage::Reply(Reply { id, outcome: Outcome::Ok {} })),
            None => Ok(()),
        }
    }

    fn write_ping(&mut self) -> Step {
        let seq = self.attachment.session.seq();
        let ping = match self.greeting.heartbeat {
            Heartbeat::Frame => Message::Ping(ping_payload(seq).to_vec().into()),
            Heartbeat::Message => Message::text(ServerMessage::Ping(Ping { seq }).to_json()),
        };
        self.ping_unflushed = true;
        self.write(ping)
    }

    fn write_message(&mut self, message: &ServerMessage<'_>) -> Step {
        self.write(Message::text(message.to_json()))
    }

    fn write(&mut self, message: Message) -> Step {
        self.unflushed = true;
        self.socket.start_send_unpin(message).map_err(|error| self.failed(&error))
    }

    /// Pending while the peer does not read; its end when that has lasted for `write_timeout`.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Step<Poll<()>> {
        match self.socket.poll_flush_unpin(context) {
            Poll::Ready(Ok(())) => {
                self.flushed();
                Ok(Poll::Ready(()))
            }
            Poll::Ready(Err(error)) => Err(self.failed(&error)),
            Poll::Pending => {
                self.poll_held(context)?;
                Ok(Poll::Pending)
            }
        }
    }

    fn flushed(&mut self) {
        self.unflushed = false;
        if self.held.take().is_some() {
            self.socket.get_mut().release();
            self.tell(ConnectionInput::WriteResumed);
        }
        if std::mem::take(&mut self.ping_unflushed) {
            self.tell(ConnectionInput::PingSent);
        }
    }

    fn poll_held(&mut self, context: &mut Context<'_>) -> Step {
        let write_timeout = self.shared().config.write_timeout;
        if self.held.is_none() {
            self.socket.get_mut().hold();
            self.held = Some(Box::pin(self.shared().timeouts.sleep(write_timeout)));
            self.tell(ConnectionInput::WriteHeld);
        }
        while let Some(patience) = &mut self.held
            && patience.as_mut().poll(context).is_ready()
        {
            let now = self.shared().timeouts.clock().now();
            match self.socket.get_ref().progress_at().map(|at| at + write_timeout) {
                Some(until) if until > now => {
                    self.held = Some(Box::pin(self.shared().timeouts.sleep_until(until)))
                }
                _ => {
                    return Err(
                        self.end((SuspendReason::SlowConsumer, Ending::Close(CloseCode::SlowConsumer)))
                    );
                }
            }
        }
        Ok(())
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

    fn tell(&self, input: ConnectionInput) -> bool {
        self.attachment.tell(input)
    }

    fn shared(&self) -> &Shared {
        &self.attachment.shared
    }
}
