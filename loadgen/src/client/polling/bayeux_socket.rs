//! Bayeux 1.0 over WebSocket: the messages of long-polling in text frames, and a connect that is held beside all else.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep};

use super::bayeux::{BayeuxPolls, come_back_with, greeting_of, handshake};
use super::bayeux_answer::{Heard, hear};
use super::{Dialect as _, Said, tell_all};
use crate::client::{Event, Failure, Greeting, Ticket};
use crate::target::ServerUrl;
use crate::transport::websocket::{End, Incoming, Opcode, Socket, write_frame};

#[derive(Debug)]
pub(in crate::client) struct BayeuxSocket {
    socket: Socket,
    dialect: BayeuxPolls,
    /// When the connect was sent that is not answered yet.
    asked_at: Option<Instant>,
    said: Said,
    /// Until the next connect.
    rest: Option<Pin<Box<Sleep>>>,
}

/// Opens a session over a WebSocket, or comes back to one.
pub(in crate::client) async fn open(
    mut socket: Socket,
    url: &Rc<ServerUrl>,
    resume: Option<&Ticket>,
    acknowledges: bool,
) -> Result<(BayeuxSocket, Greeting), Failure> {
    let mut dialect = BayeuxPolls::new(url, "websocket", String::new(), resume, acknowledges);
    if let Some(ticket) = resume {
        let connect = dialect.connect_message();
        let heard = ask(&mut socket, &connect, |heard| heard.connect.is_some()).await?;
        if let Some(said) = come_back_with(&mut dialect, heard)? {
            let greeting = Greeting { ticket: ticket.clone(), recovered: true, ..Greeting::default() };
            return Ok((BayeuxSocket { socket, dialect, asked_at: None, said, rest: None }, greeting));
        }
    }
    let heard =
        ask(&mut socket, &handshake("websocket", acknowledges), |heard| heard.handshake.is_some()).await?;
    let greeting = greeting_of(&mut dialect, heard, acknowledges)?;
    Ok((BayeuxSocket { socket, dialect, asked_at: None, said: Said::new(), rest: None }, greeting))
}

/// Sends messages, and hears all that comes up to the reply.
async fn ask(socket: &mut Socket, messages: &str, is_reply: fn(&Heard) -> bool) -> Result<Heard, Failure> {
    // An error shows when the reply is awaited.
    let _ = socket.send_text(messages).await;
    let mut all = Heard::default();
    let heard = poll_fn(|context| {
        socket.poll_each(context, &mut |incoming| {
            let Incoming::Text(text) = incoming else { return ControlFlow::Continue(()) };
            match hear(text.as_bytes()) {
                Err(end) => ControlFlow::Break(Err(end)),
                Ok(heard) => {
                    all.add(heard);
                    if is_reply(&all) { ControlFlow::Break(Ok(())) } else { ControlFlow::Continue(()) }
                }
            }
        })
    });
    heard.await.and_then(|heard| heard).map_err(Failure::ClosedBeforeHello)?;
    Ok(all)
}

impl BayeuxSocket {
    pub(in crate::client) fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    pub(in crate::client) fn into_socket(self) -> Socket {
        self.socket
    }

    pub(in crate::client) fn dialect(&self) -> &BayeuxPolls {
        &self.dialect
    }

    pub(in crate::client) async fn send(&mut self, message: &str) {
        // An error shows when the next event is asked for.
        let _ = self.socket.send_text(&format!("[{message}]")).await;
    }

    /// Ends the session.
    pub(in crate::client) async fn close(mut self, code: u16) {
        let goodbye = self.dialect.goodbye();
        self.send(&goodbye).await;
        let _ = self.socket.send_close(code).await;
    }

    /// As [`super::LongPoll::poll_each`].
    pub(in crate::client) fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_event: &mut impl FnMut(Event<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, End>> {
        loop {
            if let ControlFlow::Break(value) = tell_all(&mut self.said, on_event) {
                return Poll::Ready(Ok(value));
            }
            // A client that waits keeps nothing.
            self.said = Said::new();
            self.ask(context);
            let Self { socket, dialect, asked_at, said, rest } = self;
            let polled = socket.poll_each(context, &mut |incoming| {
                let Incoming::Text(text) = incoming else { return ControlFlow::Continue(()) };
                let heard = match hear(text.as_bytes()) {
                    Ok(heard) => heard,
                    Err(end) => return ControlFlow::Break(Err(end)),
                };
                let mut after = std::time::Duration::ZERO;
                if heard.connect.is_some() {
                    after = asked_at.take().map_or(after, |at| at.elapsed());
                }
                let is_connect = heard.connect.is_some();
                let taken = dialect.take(heard, after, said);
                if is_connect && !dialect.pause().is_zero() {
                    *rest = Some(Box::pin(sleep(dialect.pause())));
                }
                ControlFlow::Break(taken)
            });
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(end) | Ok(Err(end))) => {
                    // What came with the end is told first.
                    if let ControlFlow::Break(value) = tell_all(&mut self.said, on_event) {
                        return Poll::Ready(Ok(value));
                    }
                    return Poll::Ready(Err(end));
                }
                Poll::Ready(Ok(Ok(()))) => {}
            }
        }
    }

    /// Sends the next connect, if it is time for it. Reading sends it.
    fn ask(&mut self, context: &mut Context<'_>) {
        if self.asked_at.is_some() {
            return;
        }
        if self.rest.as_mut().is_some_and(|rest| rest.as_mut().poll(context).is_pending()) {
            return;
        }
        self.rest = None;
        let mut frame = Vec::new();
        write_frame(&mut frame, Opcode::Text, self.dialect.connect_message().as_bytes());
        self.asked_at = Some(Instant::now());
        self.socket.queue(&frame);
    }
}
