//! A session whose client polls: it sends a request that the server holds until it has something to deliver.

mod bayeux;
mod bayeux_response;
mod dialect;
mod http;
mod json;
mod socket;

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep, timeout};

pub(crate) use self::bayeux::BayeuxDialect;
pub(crate) use self::dialect::Dialect;
use self::dialect::Inbox;
pub(crate) use self::http::HttpWire;
pub(crate) use self::json::JsonDialect;
pub(crate) use self::socket::SocketWire;
use crate::event::ClientEvent;
use crate::transport::websocket::{ConnectionEnd, WebSocket};
use crate::transport::{ConnectError, Request};
use crate::{ClientFailure, Greeting};

/// How long to wait for the response to the message that ends a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of commands in one request.
const MAX_COMMANDS: usize = 64;

#[derive(Debug)]
pub(crate) struct PollSession {
    wire: PollWire,
    state: SessionState,
    end: Option<ConnectionEnd>,
}

/// Transport of the requests of a session.
#[derive(Debug)]
pub(crate) enum PollWire {
    Http(HttpWire),
    Socket(SocketWire),
}

#[derive(Debug)]
struct SessionState {
    dialect: Box<dyn Dialect>,
    inbox: Inbox,
    /// Commands that have not been sent yet, at most [`MAX_COMMANDS`].
    unsent: Vec<String>,
    /// Delays the next poll.
    delay: Option<Pin<Box<Sleep>>>,
}

impl PollSession {
    /// Opens a session, or resumes one, as the dialect requests.
    pub(crate) async fn open(
        wire: PollWire,
        dialect: Box<dyn Dialect>,
    ) -> Result<(Self, Greeting), ClientFailure> {
        let state = SessionState { dialect, inbox: Inbox::default(), unsent: Vec::new(), delay: None };
        let mut session = Self { wire, state, end: None };
        session.advance_until(|session| session.state.inbox.opened.is_some()).await;
        match (session.state.inbox.opened.take(), session.end) {
            (Some(opened), _) => Ok((session, opened?)),
            (None, Some(ConnectionEnd::Status(status))) => Err(ConnectError::Refused(status).into()),
            (None, end) => Err(ClientFailure::ClosedBeforeHello(end.unwrap_or(ConnectionEnd::NoCloseFrame))),
        }
    }

    pub(crate) fn dialect(&self) -> &dyn Dialect {
        &*self.state.dialect
    }

    pub(crate) fn socket(&mut self) -> Option<&mut WebSocket> {
        match &mut self.wire {
            PollWire::Http(_) => None,
            PollWire::Socket(wire) => Some(&mut wire.socket),
        }
    }

    /// Polls the server until `on_event` breaks or the session ends. Passes everything that the server sends
    /// to `on_event`.
    pub(crate) fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_event: &mut impl FnMut(ClientEvent<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, ConnectionEnd>> {
        loop {
            if let ControlFlow::Break(value) = self.state.inbox.events.deliver(on_event) {
                return Poll::Ready(Ok(value));
            }
            if let Some(end) = self.end {
                return Poll::Ready(Err(end));
            }
            if !self.advance(context) {
                return Poll::Pending;
            }
        }
    }

    /// Sends a command. Returns when the command has been sent or is queued. Queued commands are sent
    /// together, after the response to the commands before them.
    pub(crate) async fn send(&mut self, command: &str) {
        self.state.unsent.push(command.to_owned());
        self.advance_until(|session| session.state.unsent.len() < MAX_COMMANDS).await;
    }

    /// Ends the session, and waits until the server has answered.
    pub(crate) async fn close(&mut self) {
        let command = self.state.dialect.close_command();
        self.send(&command).await;
        let answered = self.advance_until(|session| match &session.wire {
            PollWire::Http(wire) => session.state.unsent.is_empty() && !wire.awaits_reply(),
            PollWire::Socket(wire) => wire.socket.unwritten_bytes() == 0,
        });
        // If the server does not answer, it may keep the session.
        let _ = timeout(CLOSE_TIMEOUT, answered).await;
    }

    /// Sends and receives until the condition holds or the session has ended.
    async fn advance_until(&mut self, is_done: fn(&Self) -> bool) {
        poll_fn(|context| {
            loop {
                let has_advanced = self.advance(context);
                if self.end.is_some() || is_done(self) {
                    return Poll::Ready(());
                }
                if !has_advanced {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }

    /// Sends and receives what is possible without waiting. Returns whether anything was received, in which
    /// case it should be called again. If the session ends, stores how it ended.
    fn advance(&mut self, context: &mut Context<'_>) -> bool {
        let advanced = match &mut self.wire {
            PollWire::Http(wire) => wire.advance(context, &mut self.state),
            PollWire::Socket(wire) => wire.advance(context, &mut self.state),
        };
        if let Poll::Ready(Err(end)) = advanced {
            self.end = Some(end);
        }
        advanced.is_ready()
    }
}

impl SessionState {
    /// Processes a response. Returns whether it answers the poll that was sent `polled_for` ago.
    fn on_response(
        &mut self,
        status: u16,
        body: &[u8],
        polled_for: Option<Duration>,
    ) -> Result<bool, ConnectionEnd> {
        let Self { dialect, inbox, .. } = self;
        let is_answer = dialect.on_response(status, body, polled_for, inbox)?;
        let delay = dialect.poll_delay();
        if is_answer && !delay.is_zero() {
            self.delay = Some(Box::pin(sleep(delay)));
        }
        Ok(is_answer)
    }

    fn is_delayed(&mut self, context: &mut Context<'_>) -> bool {
        self.delay.take_if(|delay| delay.as_mut().poll(context).is_ready());
        self.delay.is_some()
    }

    fn commands(&mut self) -> Request {
        self.dialect.commands(&std::mem::take(&mut self.unsent))
    }
}
