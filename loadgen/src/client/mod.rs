//! One client connection, whatever it speaks: opened by a [`Dialer`], then events until the end.

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

pub use self::admin::Admin;
pub(crate) use self::channel_reader::take_number;
pub use self::channel_reader::{ChannelReader, Received};
pub use self::dialer::{DialOptions, Dialer};
pub use self::failure::Failure;
pub(crate) use self::failure::kind_of_end;
pub(crate) use self::failures::Failures;
use self::polling::{BayeuxPolls, BayeuxSocket, Dialect as _, JsonPolls, LongPoll};
pub use self::ticket::Ticket;
pub use self::token::{Secret, TokenSource};
use crate::record::Live;
use crate::target::Target;
use crate::transport::event_stream::{EventStream, Found};
use crate::transport::websocket::{End, Incoming, Socket};

/// RFC 6455, section 7.4.1: the purpose of the connection is fulfilled.
const NORMAL: u16 = 1000;

/// What the server announced at the beginning; zero where it announced nothing.
#[derive(Debug, Default)]
pub struct Greeting {
    pub(crate) ticket: Ticket,
    pub(crate) recovered: bool,
    /// How long a client may be silent before it is pinged.
    pub(crate) ping_interval: Duration,
    pub(crate) pong_timeout: Duration,
    /// How long a lost connection can be resumed.
    pub(crate) reconnect_window: Duration,
    /// How long a poll is held for which there is nothing.
    pub(crate) poll_hold: Duration,
}

/// What happens on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A heartbeat arrived. It was answered, if it wants an answer, unless the connection does not.
    Ping(&'a [u8]),
    /// The answer to a ping of ours.
    Pong(&'a [u8]),
    Text(&'a str),
    /// A poll was answered with nothing, so long after it was sent: the heartbeat of long-polling.
    Held(Duration),
    /// The id of the next event, to resume from.
    Id(&'a str),
}

/// A text that arrives before the greeting is complete.
enum Early<T> {
    Greeting(T),
    Message,
    Other,
}

/// The transport and the protocol of a connection.
#[derive(Debug)]
enum Wire {
    Encke(Socket),
    Plain(Socket),
    Sse(Box<EventStream>),
    Socketio(Socket),
    Poll(Box<LongPoll<JsonPolls>>),
    Bayeux(Box<LongPoll<BayeuxPolls>>),
    BayeuxSocket(Box<BayeuxSocket>),
}

impl Wire {
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

    /// Where it is a WebSocket.
    fn socket(&mut self) -> Option<&mut Socket> {
        match self {
            Self::Encke(socket) | Self::Plain(socket) | Self::Socketio(socket) => Some(socket),
            Self::BayeuxSocket(bayeux) => Some(bayeux.socket()),
            Self::Sse(_) | Self::Poll(_) | Self::Bayeux(_) => None,
        }
    }
}

/// A connection that has been greeted. Dropping it drops the socket, without a Close frame.
#[derive(Debug)]
pub struct Connection {
    wire: Wire,
    live: Live,
}

impl Connection {
    pub(crate) fn target(&self) -> Target {
        self.wire.target()
    }

    /// From now on nothing is sent any more: no pongs, no answer to a Close frame.
    pub(crate) fn mute(&mut self) {
        if let Some(socket) = self.wire.socket() {
            socket.mute();
        }
    }

    /// From now on pings wait for [`Self::pong`].
    pub(crate) fn stop_answering(&mut self) {
        if let Some(socket) = self.wire.socket() {
            socket.stop_answering();
        }
    }

    /// Answers a ping. An error shows as the end of the connection when the next event is asked for.
    pub(crate) async fn pong(&mut self, payload: &[u8]) {
        let _ = match &mut self.wire {
            Wire::Encke(socket) | Wire::Plain(socket) => socket.send_pong(payload).await,
            Wire::Socketio(socket) => socket.send_text(socketio::PONG).await,
            Wire::BayeuxSocket(bayeux) => bayeux.socket().send_pong(payload).await,
            Wire::Sse(_) | Wire::Poll(_) | Wire::Bayeux(_) => Ok(()),
        };
    }

    /// Sends a ping of our own. An error shows as that of a pong does.
    pub(crate) async fn ping(&mut self, payload: &[u8]) {
        if let Some(socket) = self.wire.socket() {
            let _ = socket.send_ping(payload).await;
        }
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        match self.wire {
            Wire::Encke(socket) | Wire::Plain(socket) | Wire::Socketio(socket) => socket.reset(),
            Wire::Sse(stream) => stream.reset(),
            Wire::Poll(polls) => polls.reset_on_drop(),
            Wire::Bayeux(polls) => polls.reset_on_drop(),
            Wire::BayeuxSocket(bayeux) => bayeux.into_socket().reset(),
        }
    }

    /// From now on the connection ends with a reset whenever it is dropped, where it is a WebSocket.
    pub(crate) fn reset_on_drop(&mut self) {
        if let Some(socket) = self.wire.socket() {
            socket.reset_on_drop();
        }
    }

    /// Ends the connection with a Close frame, where there are such, which says that all was well. Over polls this ends the session.
    pub(crate) async fn close(self) {
        match self.wire {
            Wire::Encke(mut socket) | Wire::Plain(mut socket) | Wire::Socketio(mut socket) => {
                let _ = socket.send_close(NORMAL).await;
            }
            // Boxed, for a task is as large as what it may hold at once, for all its life.
            Wire::Poll(polls) => Box::pin(polls.close()).await,
            Wire::Bayeux(polls) => Box::pin(polls.close()).await,
            Wire::BayeuxSocket(bayeux) => Box::pin(bayeux.close(NORMAL)).await,
            Wire::Sse(_) => {}
        }
    }

    /// From now on no more than this is read in all, unless more is allowed.
    pub(crate) fn allow_reading(&mut self, bytes: u32) {
        if let Some(socket) = self.wire.socket() {
            socket.allow_reading(bytes);
        }
    }

    /// Sends a command. An error shows as the end of the connection when the next event is asked for.
    pub async fn send(&mut self, command: &str) {
        match &mut self.wire {
            Wire::Encke(socket) | Wire::Plain(socket) | Wire::Socketio(socket) => {
                let _ = socket.send_text(command).await;
            }
            Wire::Poll(polls) => polls.send(command).await,
            Wire::Bayeux(polls) => polls.send(command).await,
            Wire::BayeuxSocket(bayeux) => bayeux.send(command).await,
            Wire::Sse(_) => {}
        }
    }

    /// Asks for the messages of a channel.
    pub(crate) async fn subscribe(&mut self, channel: &str) {
        let command = match &self.wire {
            Wire::Bayeux(polls) => polls.dialect().subscribe(channel),
            Wire::BayeuxSocket(bayeux) => bayeux.dialect().subscribe(channel),
            _ => encke::subscribe(channel),
        };
        self.send(&command).await;
    }

    /// Publishes JSON to a channel.
    pub(crate) async fn publish(&mut self, id: u64, channel: &str, data: &str) {
        let command = match &self.wire {
            Wire::Bayeux(polls) => polls.dialect().publish(id, channel, data),
            Wire::BayeuxSocket(bayeux) => bayeux.dialect().publish(id, channel, data),
            _ => encke::publish(id, channel, data),
        };
        self.send(&command).await;
    }

    /// The same under a key, in Encke's dialect: said again, it is not published again.
    pub(crate) async fn publish_once(&mut self, id: u64, channel: &str, data: &str, key: &str) {
        self.send(&encke::publish_once(id, channel, data, key)).await;
    }

    /// Hands every event to `on_event` until it breaks or the connection ends. May be dropped and called again at
    /// any time.
    pub fn each<T>(
        &mut self,
        mut on_event: impl FnMut(Event<'_>) -> ControlFlow<T>,
    ) -> impl Future<Output = Result<T, End>> {
        // One closure with one pointer, for what it holds is in the task of every idle connection.
        poll_fn(move |context| self.poll_each(context, &mut on_event))
    }

    /// The same, as far as it goes now.
    fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_event: &mut impl FnMut(Event<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, End>> {
        let Self { wire, live } = self;
        let target = wire.target();
        let mut on_event = |event: Event<'_>| {
            note(live, target, event);
            on_event(event)
        };
        let polled = match wire {
            Wire::Encke(socket) | Wire::Plain(socket) => {
                socket.poll_each(context, &mut |incoming| match incoming {
                    Incoming::Ping(payload) => on_event(Event::Ping(&payload)),
                    Incoming::Pong(payload) => on_event(Event::Pong(&payload)),
                    Incoming::Text(text) => on_event(Event::Text(&text)),
                    Incoming::Binary(_) | Incoming::Close(_) => ControlFlow::Continue(()),
                })
            }
            Wire::Sse(stream) => stream.poll_each(context, &mut |found| match found {
                Found::Comment => on_event(Event::Ping(&[])),
                Found::Id(id) => on_event(Event::Id(id)),
                Found::Event(data) => on_event(Event::Text(data)),
            }),
            Wire::Socketio(socket) => socketio::poll_each(socket, context, &mut on_event),
            Wire::Poll(polls) => polls.poll_each(context, &mut on_event),
            Wire::Bayeux(polls) => polls.poll_each(context, &mut on_event),
            Wire::BayeuxSocket(bayeux) => bayeux.poll_each(context, &mut on_event),
        };
        if let Poll::Ready(Err(end)) = polled {
            live.ended(end);
        }
        polled
    }

    /// Sends what `next` gives whenever the kernel has taken all that was sent before, and reads meanwhile, until the connection ends.
    pub(crate) fn flood(
        &mut self,
        mut next: impl FnMut(&mut Vec<u8>),
        mut on_event: impl FnMut(Event<'_>),
    ) -> impl Future<Output = End> {
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
                // Nothing waits to be written where nothing can be.
                let Some(socket) = self.wire.socket().filter(|socket| socket.unwritten_bytes() == 0) else {
                    return Poll::Pending;
                };
                frames.clear();
                next(&mut frames);
                socket.queue(&frames);
            }
        })
    }

    /// Takes frames as they are. Asking for the next event sends them.
    pub(crate) fn queue(&mut self, frames: &[u8]) {
        if let Some(socket) = self.wire.socket() {
            socket.queue(frames);
        }
    }

    /// Reads until `read` has found the greeting, which is no event.
    async fn greeting<T>(&mut self, mut read: impl FnMut(&str) -> Early<T>) -> Result<T, Failure> {
        let Self { wire, live } = self;
        let Some(socket) = wire.socket() else { return Err(Failure::NoHello) };
        let found = poll_fn(|context| {
            socket.poll_each(context, &mut |incoming| {
                let Incoming::Text(text) = incoming else { return ControlFlow::Continue(()) };
                match read(&text) {
                    Early::Greeting(greeting) => return ControlFlow::Break(greeting),
                    Early::Message => live.saw_message(),
                    Early::Other => {}
                }
                ControlFlow::Continue(())
            })
        });
        found.await.map_err(|end| {
            live.ended(end);
            Failure::ClosedBeforeHello(end)
        })
    }
}

/// The reply to a command is no message.
fn note(live: &Live, target: Target, event: Event<'_>) {
    match event {
        Event::Ping(_) | Event::Held(_) => live.saw_ping(),
        Event::Text(text) if !is_reply(target, text) => live.saw_message(),
        Event::Text(_) | Event::Pong(_) | Event::Id(_) => {}
    }
}

fn is_reply(target: Target, text: &str) -> bool {
    match target {
        Target::Encke | Target::Poll => encke::is_reply(text),
        // Messages have no such field.
        Target::Bayeux => text.contains(r#""successful":"#),
        Target::Plain | Target::Sse | Target::Socketio => false,
    }
}
