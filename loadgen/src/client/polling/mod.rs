//! A session over long-polling: one connection for the poll that is held, and, if needed, a second connection
//! for commands sent while it is held.

mod bayeux;
mod bayeux_response;
mod bayeux_socket;
mod json;
mod json_response;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep, timeout};

pub(super) use self::bayeux::{BayeuxPolls, open as open_bayeux};
pub(super) use self::bayeux_socket::{BayeuxSocket, open as open_bayeux_socket};
pub(super) use self::json::{JsonPolls, open as open_json};
use super::ClientEvent;
use crate::transport::websocket::ConnectionEnd;
use crate::transport::{CompleteResponse, HttpClient};

/// How long to wait for the response to the message that ends a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests and responses of a protocol.
pub(super) trait Dialect {
    /// Maximum number of commands in one request.
    const MAX_COMMANDS: usize;

    /// Returns the request that the server holds.
    fn poll(&mut self) -> Vec<u8>;
    /// Returns a request with these commands, at least one.
    fn commands(&mut self, commands: &[String]) -> Vec<u8>;
    fn subscribe(&self, channel: &str) -> String;
    /// Returns the command that publishes `data`, which is JSON.
    fn publish(&self, id: u64, channel: &str, data: &str) -> String;
    /// Returns the command that ends the session.
    fn close_command(&self) -> String;
    /// Processes the response to a poll that was sent this long ago.
    fn on_poll_response(
        &mut self,
        response: CompleteResponse<'_>,
        elapsed: Duration,
        received: &mut ReceivedItems,
    ) -> Result<(), ConnectionEnd>;
    /// Processes the response to commands.
    fn on_command_response(
        &mut self,
        response: CompleteResponse<'_>,
        received: &mut ReceivedItems,
    ) -> Result<(), ConnectionEnd>;
    /// Returns how long to wait before the next poll.
    fn poll_delay(&self) -> Duration;
}

/// Received items that have not been delivered as events yet.
pub(super) type ReceivedItems = VecDeque<ReceivedItem>;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReceivedItem {
    Text(Box<str>),
    /// Id from which to resume.
    Id(Box<str>),
    /// The poll was answered without messages, after this time.
    Empty(Duration),
}

impl ReceivedItem {
    fn deliver<T>(&self, on_event: &mut impl FnMut(ClientEvent<'_>) -> ControlFlow<T>) -> ControlFlow<T> {
        match self {
            Self::Text(text) => on_event(ClientEvent::Text(text)),
            Self::Id(id) => on_event(ClientEvent::Id(id)),
            Self::Empty(elapsed) => on_event(ClientEvent::EmptyPoll(*elapsed)),
        }
    }
}

/// Delivers the received items, until `on_event` breaks.
fn deliver_all<T>(
    received: &mut ReceivedItems,
    on_event: &mut impl FnMut(ClientEvent<'_>) -> ControlFlow<T>,
) -> ControlFlow<T> {
    while let Some(item) = received.pop_front() {
        item.deliver(on_event)?;
    }
    ControlFlow::Continue(())
}

#[derive(Debug)]
pub(super) struct LongPoll<D> {
    dialect: D,
    poll_client: HttpClient,
    /// Kind of the request pending on `poll_client`.
    pending: Option<PendingRequest>,
    command_connection: Option<Box<CommandConnection>>,
    /// Commands that have not been sent yet, at most [`Dialect::MAX_COMMANDS`].
    unsent: Vec<String>,
    received: ReceivedItems,
    /// Timer that delays the next poll.
    delay: Option<Pin<Box<Sleep>>>,
    end: Option<ConnectionEnd>,
}

#[derive(Clone, Copy, Debug)]
enum PendingRequest {
    /// A poll, sent at this time.
    Poll(Instant),
    Commands,
}

/// Second connection, which sends commands while a poll is held.
#[derive(Debug)]
struct CommandConnection {
    client: HttpClient,
    is_pending: bool,
}

impl<D: Dialect> LongPoll<D> {
    fn new(poll_client: HttpClient, dialect: D) -> Self {
        Self {
            dialect,
            poll_client,
            pending: None,
            command_connection: None,
            unsent: Vec::new(),
            received: ReceivedItems::new(),
            delay: None,
            end: None,
        }
    }

    /// Records that the first poll was sent at this time, unless the connection has already ended.
    fn with_poll_sent_at(mut self, at: Instant) -> Self {
        self.pending = self.poll_client.is_open().then_some(PendingRequest::Poll(at));
        self
    }

    /// Adds items that have already been received.
    fn with_received(self, received: ReceivedItems) -> Self {
        Self { received, ..self }
    }

    pub(super) fn dialect(&self) -> &D {
        &self.dialect
    }

    /// Polls the server until `on_event` breaks or the session ends. Passes everything that the server sends
    /// to `on_event`.
    pub(super) fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_event: &mut impl FnMut(ClientEvent<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, ConnectionEnd>> {
        loop {
            if let ControlFlow::Break(value) = deliver_all(&mut self.received, on_event) {
                return Poll::Ready(Ok(value));
            }
            // Free the buffer: a waiting client keeps none.
            self.received = ReceivedItems::new();
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
    pub(super) async fn send(&mut self, command: &str) {
        self.unsent.push(command.to_owned());
        poll_fn(|context| {
            while self.end.is_none() && self.advance(context) {}
            let has_room = self.unsent.len() < D::MAX_COMMANDS || self.end.is_some();
            if has_room { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Ends the session, and waits until the server has answered.
    pub(super) async fn close(mut self) {
        let command = self.dialect.close_command();
        self.send(&command).await;
        let answered = poll_fn(|context| {
            while self.end.is_none() && self.advance(context) {}
            let is_answered = self.unsent.is_empty()
                && self.command_connection.as_ref().is_none_or(|connection| !connection.is_pending)
                && !matches!(self.pending, Some(PendingRequest::Commands));
            if is_answered || self.end.is_some() { Poll::Ready(()) } else { Poll::Pending }
        });
        // If the server does not answer, it may keep the session.
        let _ = timeout(CLOSE_TIMEOUT, answered).await;
    }

    /// Makes the session's connections close with resets when they are dropped.
    pub(super) fn reset_on_drop(&self) {
        self.poll_client.reset_on_drop();
        if let Some(command_connection) = &self.command_connection {
            command_connection.client.reset_on_drop();
        }
    }

    /// Sends and receives as much as possible without waiting. Returns whether anything happened, in which
    /// case it should be called again. If the session ends, stores how it ended in `end`.
    fn advance(&mut self, context: &mut Context<'_>) -> bool {
        let on_polls = match self.pending {
            None => self.send_next(context),
            Some(pending) => self.read_response(context, pending),
        };
        let progressed = on_polls.and_then(|progressed| Ok(progressed | self.advance_commands(context)?));
        progressed.unwrap_or_else(|end| {
            self.end = Some(end);
            true
        })
    }

    fn send_next(&mut self, context: &mut Context<'_>) -> Result<bool, ConnectionEnd> {
        let has_commands = !self.unsent.is_empty();
        if !has_commands && self.is_delayed(context) {
            return Ok(false);
        }
        // Take the time before the poll is sent, so that a hold never seems shorter than it was.
        let now = Instant::now();
        let Self { poll_client, dialect, unsent, .. } = self;
        let sent = poll_client.poll_send(context, || {
            if has_commands { dialect.commands(&mem::take(unsent)) } else { dialect.poll() }
        });
        if sent?.is_pending() {
            return Ok(false);
        }
        self.pending = Some(if has_commands { PendingRequest::Commands } else { PendingRequest::Poll(now) });
        Ok(true)
    }

    fn is_delayed(&mut self, context: &mut Context<'_>) -> bool {
        let is_delayed = self.delay.as_mut().is_some_and(|delay| delay.as_mut().poll(context).is_pending());
        if !is_delayed {
            self.delay = None;
        }
        is_delayed
    }

    fn read_response(
        &mut self,
        context: &mut Context<'_>,
        pending: PendingRequest,
    ) -> Result<bool, ConnectionEnd> {
        let Self { poll_client, dialect, received, .. } = self;
        let polled = poll_client.poll_response(context, |response| match pending {
            PendingRequest::Poll(at) => dialect.on_poll_response(response, at.elapsed(), received),
            PendingRequest::Commands => dialect.on_command_response(response, received),
        });
        let Poll::Ready(result) = polled? else { return Ok(false) };
        self.pending = None;
        result?;
        let delay = self.dialect.poll_delay();
        if matches!(pending, PendingRequest::Poll(_)) && !delay.is_zero() {
            self.delay = Some(Box::pin(sleep(delay)));
        }
        Ok(true)
    }

    fn advance_commands(&mut self, context: &mut Context<'_>) -> Result<bool, ConnectionEnd> {
        let Self { poll_client, dialect, received, unsent, command_connection, pending, .. } = self;
        let is_needed = !unsent.is_empty() && matches!(pending, Some(PendingRequest::Poll(_)));
        if is_needed && command_connection.is_none() {
            *command_connection = poll_client
                .open_second()
                .map(|client| Box::new(CommandConnection { client, is_pending: false }));
        }
        let Some(CommandConnection { client, is_pending }) = command_connection.as_deref_mut() else {
            return Ok(false);
        };
        if *is_pending {
            let polled =
                client.poll_response(context, |response| dialect.on_command_response(response, received));
            let Poll::Ready(result) = polled? else { return Ok(false) };
            *is_pending = false;
            return result.map(|()| true);
        }
        if is_needed {
            let sent = client.poll_send(context, || dialect.commands(&mem::take(unsent)));
            *is_pending = sent?.is_ready();
            return Ok(*is_pending);
        }
        // Drop the connection once the server closes it: servers do not keep idle connections for long.
        let is_over = client.poll_end(context).is_ready();
        if is_over {
            *command_connection = None;
        }
        Ok(is_over)
    }
}
