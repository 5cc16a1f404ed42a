//! A client connection in any of the protocols. It delivers events until it ends.

use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::{Context, Poll};

use encke_core::dialect::json::ServerMessage;

use crate::json;
use crate::polling::PollSession;
use crate::traffic::ConnectionGuard;
use crate::transport::EventStream;
use crate::transport::websocket::{ConnectionEnd, Incoming, Opcode, WebSocket};
use crate::{ClientEvent, ClientFailure, Greeting, Target};

/// Close code for a normal closure: the purpose of the connection has been fulfilled (RFC 6455, section
/// 7.4.1).
const NORMAL: u16 = 1000;

/// A connection that has received its greeting. Dropping it closes the socket without a Close frame.
#[derive(Debug)]
pub struct ClientConnection {
    target: Target,
    wire: Wire,
    pub(crate) live: ConnectionGuard,
}

#[derive(Debug)]
pub(crate) enum Wire {
    /// Encke's `json` dialect, or any messages.
    Socket(WebSocket),
    Events(Box<EventStream>),
    Polls(Box<PollSession>),
}

impl Wire {
    fn socket(&mut self) -> Option<&mut WebSocket> {
        match self {
            Self::Socket(socket) => Some(socket),
            Self::Polls(session) => session.socket(),
            Self::Events(_) => None,
        }
    }
}

impl ClientConnection {
    pub(crate) fn new(target: Target, wire: Wire, live: ConnectionGuard) -> Self {
        Self { target, wire, live }
    }

    pub fn mute(&mut self) {
        if let Some(socket) = self.wire.socket() {
            socket.mute();
        }
    }

    /// Sends a ping. If sending fails, the next read reports the end of the connection.
    pub async fn ping(&mut self, payload: &[u8]) {
        if let Some(socket) = self.wire.socket() {
            let _ = socket.send(Opcode::Ping, payload).await;
        }
    }

    /// Ends the session, if the client polls. Then closes the connection, with a Close frame with code 1000 if
    /// the protocol has one.
    pub async fn close(mut self) {
        if let Wire::Polls(session) = &mut self.wire {
            // Boxed because a task is as large as its largest state, for as long as it lives.
            Box::pin(session.close()).await;
        }
        if let Some(socket) = self.wire.socket() {
            let _ = socket.send(Opcode::Close, &NORMAL.to_be_bytes()).await;
        }
    }

    /// Sends a command. If sending fails, the next read reports the end of the connection.
    pub async fn send(&mut self, command: &str) {
        match &mut self.wire {
            Wire::Socket(socket) => drop(socket.send(Opcode::Text, command.as_bytes()).await),
            Wire::Polls(session) => session.send(command).await,
            Wire::Events(_) => {}
        }
    }

    pub async fn subscribe(&mut self, channel: &str) {
        let command = match &self.wire {
            Wire::Polls(session) => session.dialect().subscribe(channel),
            Wire::Socket(_) | Wire::Events(_) => json::subscribe(channel),
        };
        self.send(&command).await;
    }

    /// Publishes JSON to a channel.
    pub async fn publish(&mut self, id: u64, channel: &str, data: &str) {
        let command = match &self.wire {
            Wire::Polls(session) => session.dialect().publish(id, channel, data),
            Wire::Socket(_) | Wire::Events(_) => json::publish(id, channel, data),
        };
        self.send(&command).await;
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

    /// Passes every event to `on_event` until the connection ends.
    pub fn listen(
        &mut self,
        mut on_event: impl FnMut(ClientEvent<'_>),
    ) -> impl Future<Output = ConnectionEnd> {
        poll_fn(move |context| self.poll_listen(context, &mut on_event))
    }

    fn poll_listen(
        &mut self,
        context: &mut Context<'_>,
        on_event: &mut impl FnMut(ClientEvent<'_>),
    ) -> Poll<ConnectionEnd> {
        let polled = self.poll_each(context, &mut |event| {
            on_event(event);
            ControlFlow::<Infallible>::Continue(())
        });
        polled.map(|Err(end)| end)
    }

    /// Like [`Self::each`], without waiting.
    fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_event: &mut impl FnMut(ClientEvent<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, ConnectionEnd>> {
        let Self { target, wire, live } = self;
        let mut on_event = |event: ClientEvent<'_>| {
            count_event(live, *target, event);
            on_event(event)
        };
        let polled = match wire {
            Wire::Socket(socket) => socket.poll_each(context, &mut |incoming| match incoming {
                Incoming::Ping(payload) => on_event(ClientEvent::Ping(&payload)),
                Incoming::Pong(payload) => on_event(ClientEvent::Pong(&payload)),
                Incoming::Text(text) => on_event(ClientEvent::Text(&text)),
                Incoming::Binary(_) | Incoming::Close(_) => ControlFlow::Continue(()),
            }),
            Wire::Events(stream) => stream.poll_each(context, &mut on_event),
            Wire::Polls(session) => session.poll_each(context, &mut on_event),
        };
        if let Poll::Ready(Err(end)) = polled {
            live.record_end(end);
        }
        polled
    }

    /// Sends the output of `next` whenever the kernel has accepted everything sent before. Keeps reading
    /// until the connection ends.
    pub fn flood(
        &mut self,
        mut next: impl FnMut(&mut Vec<u8>),
        mut on_event: impl FnMut(ClientEvent<'_>),
    ) -> impl Future<Output = ConnectionEnd> {
        poll_fn(move |context| {
            loop {
                if let Poll::Ready(end) = self.poll_listen(context, &mut on_event) {
                    return Poll::Ready(end);
                }
                // Only a WebSocket can send frames.
                let Some(socket) = self.wire.socket().filter(|socket| socket.unwritten_bytes() == 0) else {
                    return Poll::Pending;
                };
                next(socket.unwritten());
            }
        })
    }

    /// Buffers encoded frames. The next read sends them.
    pub fn queue(&mut self, frames: &[u8]) {
        if let Some(socket) = self.wire.socket() {
            socket.unwritten().extend_from_slice(frames);
        }
    }

    /// Reads the hello of the `json` dialect. It is not reported as an event.
    pub(crate) async fn read_hello(&mut self) -> Result<Greeting, ClientFailure> {
        let Some(socket) = self.wire.socket() else { return Err(ClientFailure::NoHello) };
        let mut read = |incoming: Incoming<'_>| {
            let Incoming::Text(text) = incoming else { return ControlFlow::Continue(()) };
            match serde_json::from_str(&text) {
                Ok(ServerMessage::Hello(hello)) => ControlFlow::Break(Ok(hello.into())),
                // Skip it: the Close frame that follows gives the reason.
                Ok(ServerMessage::Goaway(_)) => ControlFlow::Continue(()),
                Ok(_) | Err(_) => ControlFlow::Break(Err(ClientFailure::NoHello)),
            }
        };
        poll_fn(|context| socket.poll_each(context, &mut read)).await.map_err(|end| {
            self.live.record_end(end);
            ClientFailure::ClosedBeforeHello(end)
        })?
    }
}

/// Counts an event. Replies to commands do not count as messages.
fn count_event(live: &ConnectionGuard, target: Target, event: ClientEvent<'_>) {
    match event {
        ClientEvent::Ping(_) | ClientEvent::EmptyPoll(_) => live.pings.increment(),
        ClientEvent::Text(text) if !is_reply(target, text) => live.messages.increment(),
        ClientEvent::Text(_) | ClientEvent::Pong(_) | ClientEvent::Id(_) => {}
    }
}

fn is_reply(target: Target, text: &str) -> bool {
    match target {
        Target::Encke | Target::Poll => json::is_reply(text),
        // Replies have this field, messages do not.
        Target::Bayeux => text.contains(r#""successful":"#),
        Target::Plain | Target::Sse => false,
    }
}
