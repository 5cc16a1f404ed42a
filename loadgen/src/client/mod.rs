//! One client connection, whatever it speaks: opened by a [`Dialer`], then events until the end.

mod dialer;
mod socketio;
mod ticket;

use std::borrow::Cow;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) use self::dialer::Dialer;
use self::socketio::Packet;
pub(crate) use self::ticket::Ticket;
use crate::event_stream::{EventStream, Found};
use crate::target::Target;
use crate::websocket::{End, Incoming, Socket};

/// RFC 6455, section 7.4.1: the purpose of the connection is fulfilled.
const NORMAL: u16 = 1000;

/// What the server said when the connection began.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    pub(crate) ticket: Ticket,
    pub(crate) recovered: bool,
    pub(crate) pong_timeout: Duration,
    /// How long a lost connection can be resumed.
    pub(crate) reconnect_window: Duration,
}

/// What happens on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A ping arrived, and was answered unless the connection does not.
    Ping(&'a [u8]),
    /// The answer to a ping of ours.
    Pong,
    Text(&'a str),
    /// What comes next has this id, to come back with.
    Id(&'a str),
}

/// How bytes travel.
#[derive(Debug)]
enum Wire {
    WebSocket(Socket),
    Events(Box<EventStream>),
}

/// A connection that has been greeted. Dropping it drops the socket, without a Close frame.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
    target: Target,
}

impl Connection {
    /// From now on nothing is sent any more: no pongs, no answer to a Close frame.
    pub(crate) fn mute(&mut self) {
        if let Wire::WebSocket(socket) = &mut self.wire {
            socket.mute();
        }
    }

    /// From now on pings wait for [`Self::pong`].
    pub(crate) fn stop_answering(&mut self) {
        if let Wire::WebSocket(socket) = &mut self.wire {
            socket.stop_answering();
        }
    }

    /// Answers a ping. An error shows as the end of the connection when the next event is asked for.
    pub(crate) async fn pong(&mut self, payload: &[u8]) {
        if let Wire::WebSocket(socket) = &mut self.wire {
            let _ = match self.target {
                Target::Socketio => socket.send_text(socketio::PONG).await,
                Target::Encke | Target::Plain | Target::Sse => socket.send_pong(payload).await,
            };
        }
    }

    /// Sends a ping of our own.
    pub(crate) async fn ping(&mut self) {
        if let Wire::WebSocket(socket) = &mut self.wire {
            let _ = socket.send_ping(&[]).await;
        }
    }

    /// Ends the connection with a reset. Where that cannot be had, it ends like any other that is dropped.
    pub(crate) fn reset(self) {
        let _ = match self.wire {
            Wire::WebSocket(socket) => socket.reset(),
            Wire::Events(stream) => stream.reset(),
        };
    }

    /// Ends the connection with a Close frame, where there are such, which says that all was well.
    pub(crate) async fn close(mut self) {
        if let Wire::WebSocket(socket) = &mut self.wire {
            let _ = socket.send_close(NORMAL).await;
        }
    }

    /// From now on no more than this is read in all, unless more is allowed.
    pub(crate) fn allow_reading(&mut self, bytes: u32) {
        if let Wire::WebSocket(socket) = &mut self.wire {
            socket.allow_reading(bytes);
        }
    }

    /// Sends a command. An error shows as the end of the connection when the next event is asked for.
    pub(crate) async fn send(&mut self, command: &str) {
        if let Wire::WebSocket(socket) = &mut self.wire {
            let _ = socket.send_text(command).await;
        }
    }

    /// Hands every event to `on_event` until it breaks or the connection ends. May be dropped and called again at
    /// any time.
    pub(crate) fn each<T>(
        &mut self,
        mut on_event: impl FnMut(Event<'_>) -> ControlFlow<T>,
    ) -> impl Future<Output = Result<T, End>> {
        poll_fn(move |context| match &mut self.wire {
            Wire::WebSocket(socket) if self.target == Target::Socketio => {
                poll_packets(socket, context, &mut on_event)
            }
            Wire::WebSocket(socket) => socket.poll_each(context, &mut |incoming| match incoming {
                Incoming::Ping(payload) => on_event(Event::Ping(&payload)),
                Incoming::Pong(_) => on_event(Event::Pong),
                Incoming::Text(text) => on_event(Event::Text(&text)),
                Incoming::Binary(_) | Incoming::Close(_) => ControlFlow::Continue(()),
            }),
            Wire::Events(stream) => stream.poll_each(context, &mut |found| match found {
                Found::Id(id) => on_event(Event::Id(id)),
                Found::Event(data) => on_event(Event::Text(data)),
                Found::Comment => ControlFlow::Continue(()),
            }),
        })
    }

    /// The same below what the target makes of it.
    fn each_incoming<T>(
        &mut self,
        mut on_incoming: impl FnMut(Incoming<'_>) -> ControlFlow<T>,
    ) -> impl Future<Output = Result<T, End>> {
        poll_fn(move |context| match &mut self.wire {
            Wire::WebSocket(socket) => socket.poll_each(context, &mut on_incoming),
            Wire::Events(_) => Poll::Ready(Err(End::Cut)),
        })
    }
}

/// Engine.IO has pings of its own.
fn poll_packets<T>(
    socket: &mut Socket,
    context: &mut Context<'_>,
    on_event: &mut impl FnMut(Event<'_>) -> ControlFlow<T>,
) -> Poll<Result<T, End>> {
    loop {
        let mut is_ping = false;
        let polled = socket.poll_each(context, &mut |incoming| {
            let text: Cow<'_, str> = match incoming {
                Incoming::Text(text) => text,
                Incoming::Pong(_) => return on_event(Event::Pong).map_break(|value| Step::Done(Ok(value))),
                _ => return ControlFlow::Continue(()),
            };
            match Packet::read(&text) {
                Packet::Ping => {
                    is_ping = true;
                    // To be answered before anything else is done.
                    ControlFlow::Break(match on_event(Event::Ping(&[])) {
                        ControlFlow::Break(value) => Step::Done(Ok(value)),
                        ControlFlow::Continue(()) => Step::GoOn,
                    })
                }
                Packet::Close => ControlFlow::Break(Step::Done(Err(End::Closed(None)))),
                Packet::Event(event) => {
                    if let Some(offset) = socketio::offset_of(event) {
                        on_event(Event::Id(&offset)).map_break(|value| Step::Done(Ok(value)))?;
                    }
                    on_event(Event::Text(event)).map_break(|value| Step::Done(Ok(value)))
                }
                Packet::Open(_) | Packet::Connected(_) | Packet::Refused(_) | Packet::Other => {
                    ControlFlow::Continue(())
                }
            }
        });
        if is_ping {
            socket.poll_answer(context, socketio::PONG);
        }
        return match polled {
            Poll::Ready(Ok(Step::GoOn)) => continue,
            Poll::Ready(Ok(Step::Done(result))) => Poll::Ready(result),
            Poll::Ready(Err(end)) => Poll::Ready(Err(end)),
            Poll::Pending => Poll::Pending,
        };
    }
}

/// What one look at the packets came to.
enum Step<T> {
    GoOn,
    Done(Result<T, End>),
}
