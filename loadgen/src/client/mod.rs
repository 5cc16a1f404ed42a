//! A client connection in any of the protocols. It is opened by a [`Dialer`], and delivers events until it
//! ends.

mod admin;
mod bayeux_reader;
mod channel_reader;
mod dialer;
mod encke;
mod failure;
mod failures;
mod polling;
mod socketio;
mod ticket;
mod token;

use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::{Context, Poll};
use std::time::Duration;

pub use self::admin::AdminClient;
pub(crate) use self::channel_reader::take_number;
pub use self::channel_reader::{ChannelReader, Received};
pub use self::dialer::{DialOptions, Dialer};
pub use self::failure::ClientFailure;
pub(crate) use self::failure::kind_of_end;
pub(crate) use self::failures::Failures;
use self::polling::{BayeuxPolls, BayeuxSocket, Dialect as _, JsonPolls, LongPoll};
pub use self::ticket::Ticket;
pub use self::token::TokenSource;
pub(crate) use self::token::is_token;
use crate::record::ConnectionGuard;
use crate::target::Target;
use crate::transport::event_stream::{EventStream, StreamItem};
use crate::transport::websocket::{ConnectionEnd, Incoming, WebSocket};

/// Close code for a normal closure: the purpose of the connection has been fulfilled (RFC 6455, section
/// 7.4.1).
const NORMAL: u16 = 1000;

/// Parameters that the server announced at the beginning; zero for values that it did not announce.
#[derive(Debug, Default)]
pub struct Greeting {
    pub(crate) ticket: Ticket,
    pub(crate) recovered: bool,
    /// How long a client may be silent before it is pinged.
    pub(crate) ping_interval: Duration,
    pub(crate) pong_timeout: Duration,
    /// How long a lost connection can be resumed.
    pub(crate) reconnect_window: Duration,
    /// How long a poll is held while there is nothing to deliver.
    pub(crate) poll_hold: Duration,
}

/// Event on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent<'a> {
    /// A heartbeat arrived. If it needs an answer, the answer has already been sent, unless the connection is
    /// muted or automatic answers are disabled.
    Ping(&'a [u8]),
    /// Answer to a ping that this client sent.
    Pong(&'a [u8]),
    Text(&'a str),
    /// A poll was answered without messages, this long after it was sent. This is the heartbeat of
    /// long-polling.
    EmptyPoll(Duration),
    /// Id of the event that follows. A client can resume from it.
    Id(&'a str),
}

/// Text that arrives before the greeting is complete.
enum EarlyText<T> {
    Greeting(T),
    Message,
    Other,
}

/// Transport and protocol of a connection.
#[derive(Debug)]
enum ProtocolConnection {
    Encke(WebSocket),
    Plain(WebSocket),
    Sse(Box<EventStream>),
    Socketio(WebSocket),
    Poll(Box<LongPoll<JsonPolls>>),
    Bayeux(Box<LongPoll<BayeuxPolls>>),
    BayeuxSocket(Box<BayeuxSocket>),
}

impl ProtocolConnection {
    fn target(&self) -> Target {
        match self {
            Self::Encke(_) => Target::Encke,
            Self::Plain(_) => Target::Plain,
            Self::Sse(_) => Target::Sse,
            Self::Socketio(_) => Target::Socketio,
            Self::Poll(_) => Target::Poll,
            Self::Bayeux(_) | Self::BayeuxSocket(_) => Target::Bayeux,
        }
    }

    /// Returns the WebSocket, if the transport is one.
    fn socket(&mut self) -> Option<&mut WebSocket> {
        match self {
            Self::Encke(socket) | Self::Plain(socket) | Self::Socketio(socket) => Some(socket),
            Self::BayeuxSocket(bayeux) => Some(bayeux.socket()),
            Self::Sse(_) | Self::Poll(_) | Self::Bayeux(_) => None,
        }
    }
}

/// A connection that has received its greeting. Dropping it closes the socket without a Close frame.
#[derive(Debug)]
pub struct ClientConnection {
    wire: ProtocolConnection,
    live: ConnectionGuard,
}

impl ClientConnection {
    pub(crate) fn target(&self) -> Target {
        self.wire.target()
    }

    /// Stops sending: no pongs, no answer to a Close frame.
    pub(crate) fn mute(&mut self) {
        if let Some(socket) = self.wire.socket() {
            socket.mute();
        }
    }

    /// Disables automatic answers to pings. Only [`Self::pong`] answers them.
    pub(crate) fn disable_answers(&mut self) {
        if let Some(socket) = self.wire.socket() {
            socket.disable_answers();
        }
    }

    /// Answers a ping. If sending fails, the next read reports the end of the connection.
    pub(crate) async fn pong(&mut self, payload: &[u8]) {
        let _ = match &mut self.wire {
            ProtocolConnection::Encke(socket) | ProtocolConnection::Plain(socket) => {
                socket.send_pong(payload).await
            }
            ProtocolConnection::Socketio(socket) => socket.send_text(socketio::PONG).await,
            ProtocolConnection::BayeuxSocket(bayeux) => bayeux.socket().send_pong(payload).await,
            ProtocolConnection::Sse(_) | ProtocolConnection::Poll(_) | ProtocolConnection::Bayeux(_) => {
                Ok(())
            }
        };
    }

    /// Sends a ping. Errors are reported as in [`Self::pong`].
    pub(crate) async fn ping(&mut self, payload: &[u8]) {
        if let Some(socket) = self.wire.socket() {
            let _ = socket.send_ping(payload).await;
        }
    }

    /// Closes the connection with a reset.
    pub(crate) fn reset(self) {
        match self.wire {
            ProtocolConnection::Encke(socket)
            | ProtocolConnection::Plain(socket)
            | ProtocolConnection::Socketio(socket) => socket.reset(),
            ProtocolConnection::Sse(stream) => stream.reset(),
            ProtocolConnection::Poll(polls) => polls.reset_on_drop(),
            ProtocolConnection::Bayeux(polls) => polls.reset_on_drop(),
            ProtocolConnection::BayeuxSocket(bayeux) => bayeux.into_socket().reset(),
        }
    }

    /// Makes a WebSocket connection close with a reset when it is dropped. Has no effect on other
    /// connections.
    pub(crate) fn reset_on_drop(&mut self) {
        if let Some(socket) = self.wire.socket() {
            socket.reset_on_drop();
        }
    }

    /// Closes the connection with a Close frame with code 1000, if the protocol has one. With polls, ends the
    /// session.
    pub(crate) async fn close(self) {
        match self.wire {
            ProtocolConnection::Encke(mut socket)
            | ProtocolConnection::Plain(mut socket)
            | ProtocolConnection::Socketio(mut socket) => {
                let _ = socket.send_close(NORMAL).await;
            }
            // Boxed because a task is as large as its largest state, for as long as it lives.
            ProtocolConnection::Poll(polls) => Box::pin(polls.close()).await,
            ProtocolConnection::Bayeux(polls) => Box::pin(polls.close()).await,
            ProtocolConnection::BayeuxSocket(bayeux) => Box::pin(bayeux.close(NORMAL)).await,
            ProtocolConnection::Sse(_) => {}
        }
    }

    /// Limits the total number of bytes that may be read from this call on.
    pub(crate) fn allow_reading(&mut self, bytes: u32) {
        if let Some(socket) = self.wire.socket() {
            socket.allow_reading(bytes);
        }
    }

    /// Sends a command. If sending fails, the next read reports the end of the connection.
    pub async fn send(&mut self, command: &str) {
        match &mut self.wire {
            ProtocolConnection::Encke(socket)
            | ProtocolConnection::Plain(socket)
            | ProtocolConnection::Socketio(socket) => {
                let _ = socket.send_text(command).await;
            }
            ProtocolConnection::Poll(polls) => polls.send(command).await,
            ProtocolConnection::Bayeux(polls) => polls.send(command).await,
            ProtocolConnection::BayeuxSocket(bayeux) => bayeux.send(command).await,
            ProtocolConnection::Sse(_) => {}
        }
    }

    /// Subscribes to a channel.
    pub(crate) async fn subscribe(&mut self, channel: &str) {
        let command = match &self.wire {
            ProtocolConnection::Bayeux(polls) => polls.dialect().subscribe(channel),
            ProtocolConnection::BayeuxSocket(bayeux) => bayeux.dialect().subscribe(channel),
            _ => encke::subscribe(channel),
        };
        self.send(&command).await;
    }

    /// Publishes JSON to a channel.
    pub(crate) async fn publish(&mut self, id: u64, channel: &str, data: &str) {
        let command = match &self.wire {
            ProtocolConnection::Bayeux(polls) => polls.dialect().publish(id, channel, data),
            ProtocolConnection::BayeuxSocket(bayeux) => bayeux.dialect().publish(id, channel, data),
            _ => encke::publish(id, channel, data),
        };
        self.send(&command).await;
    }

    /// Like [`Self::publish`], but with a key, so that the server publishes a repeated command only once.
    /// Encke's dialect only.
    pub(crate) async fn publish_once(&mut self, id: u64, channel: &str, data: &str, key: &str) {
        self.send(&encke::publish_once(id, channel, data, key)).await;
    }

    /// Passes every event to `on_event` until it breaks or the connection ends. The future can be dropped at
    /// any time, and the method called again.
    pub fn each<T>(
        &mut self,
        mut on_event: impl FnMut(ClientEvent<'_>) -> ControlFlow<T>,
    ) -> impl Future<Output = Result<T, ConnectionEnd>> {
        // Use one closure that captures one pointer: its captures are part of the task of every idle
        // connection.
        poll_fn(move |context| self.poll_each(context, &mut on_event))
    }

    /// Polling version of [`Self::each`].
    fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_event: &mut impl FnMut(ClientEvent<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, ConnectionEnd>> {
        let Self { wire, live } = self;
        let target = wire.target();
        let mut on_event = |event: ClientEvent<'_>| {
            count_event(live, target, event);
            on_event(event)
        };
        let polled = match wire {
            ProtocolConnection::Encke(socket) | ProtocolConnection::Plain(socket) => {
                socket.poll_each(context, &mut |incoming| match incoming {
                    Incoming::Ping(payload) => on_event(ClientEvent::Ping(&payload)),
                    Incoming::Pong(payload) => on_event(ClientEvent::Pong(&payload)),
                    Incoming::Text(text) => on_event(ClientEvent::Text(&text)),
                    Incoming::Binary(_) | Incoming::Close(_) => ControlFlow::Continue(()),
                })
            }
            ProtocolConnection::Sse(stream) => stream.poll_each(context, &mut |found| match found {
                StreamItem::Comment => on_event(ClientEvent::Ping(&[])),
                StreamItem::Id(id) => on_event(ClientEvent::Id(id)),
                StreamItem::Event(data) => on_event(ClientEvent::Text(data)),
            }),
            ProtocolConnection::Socketio(socket) => socketio::poll_each(socket, context, &mut on_event),
            ProtocolConnection::Poll(polls) => polls.poll_each(context, &mut on_event),
            ProtocolConnection::Bayeux(polls) => polls.poll_each(context, &mut on_event),
            ProtocolConnection::BayeuxSocket(bayeux) => bayeux.poll_each(context, &mut on_event),
        };
        if let Poll::Ready(Err(end)) = polled {
            live.record_end(end);
        }
        polled
    }

    /// Sends the output of `next` whenever the kernel has accepted everything sent before. Keeps reading
    /// until the connection ends.
    pub(crate) fn flood(
        &mut self,
        mut next: impl FnMut(&mut Vec<u8>),
        mut on_event: impl FnMut(ClientEvent<'_>),
    ) -> impl Future<Output = ConnectionEnd> {
        let mut frames = Vec::new();
        poll_fn(move |context| {
            loop {
                let polled = self.poll_each(context, &mut |event| {
                    on_event(event);
                    ControlFlow::<Infallible>::Continue(())
                });
                if let Poll::Ready(Err(end)) = polled {
                    return Poll::Ready(end);
                }
                // Only a WebSocket can send frames.
                let Some(socket) = self.wire.socket().filter(|socket| socket.unwritten_bytes() == 0) else {
                    return Poll::Pending;
                };
                frames.clear();
                next(&mut frames);
                socket.queue(&frames);
            }
        })
    }

    /// Buffers encoded frames. The next read sends them.
    pub(crate) fn queue(&mut self, frames: &[u8]) {
        if let Some(socket) = self.wire.socket() {
            socket.queue(frames);
        }
    }

    /// Reads until `read` finds the greeting. The greeting is not reported as an event.
    async fn greeting<T>(&mut self, mut read: impl FnMut(&str) -> EarlyText<T>) -> Result<T, ClientFailure> {
        let Self { wire, live } = self;
        let Some(socket) = wire.socket() else { return Err(ClientFailure::NoHello) };
        let found = poll_fn(|context| {
            socket.poll_each(context, &mut |incoming| {
                let Incoming::Text(text) = incoming else { return ControlFlow::Continue(()) };
                match read(&text) {
                    EarlyText::Greeting(greeting) => return ControlFlow::Break(greeting),
                    EarlyText::Message => live.record_message(),
                    EarlyText::Other => {}
                }
                ControlFlow::Continue(())
            })
        });
        found.await.map_err(|end| {
            live.record_end(end);
            ClientFailure::ClosedBeforeHello(end)
        })
    }
}

/// Counts an event. Replies to commands do not count as messages.
fn count_event(live: &ConnectionGuard, target: Target, event: ClientEvent<'_>) {
    match event {
        ClientEvent::Ping(_) | ClientEvent::EmptyPoll(_) => live.record_ping(),
        ClientEvent::Text(text) if !is_reply(target, text) => live.record_message(),
        ClientEvent::Text(_) | ClientEvent::Pong(_) | ClientEvent::Id(_) => {}
    }
}

fn is_reply(target: Target, text: &str) -> bool {
    match target {
        Target::Encke | Target::Poll => encke::is_reply(text),
        // Replies have this field, messages do not.
        Target::Bayeux => text.contains(r#""successful":"#),
        Target::Plain | Target::Sse | Target::Socketio => false,
    }
}
