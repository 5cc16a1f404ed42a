//! Bayeux 1.0 over WebSocket: the same messages as over long-polling, in text frames. While a connect is
//! held, other messages are exchanged on the same socket.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep};

use super::bayeux::{BayeuxPolls, greeting_of, handshake, resume_with};
use super::bayeux_response::{BayeuxResponse, parse_response};
use super::{Dialect as _, ReceivedItems, deliver_all};
use crate::client::{ClientEvent, ClientFailure, Greeting, Ticket};
use crate::target::ServerUrl;
use crate::transport::websocket::{ConnectionEnd, Incoming, Opcode, WebSocket, write_frame};

#[derive(Debug)]
pub(in crate::client) struct BayeuxSocket {
    socket: WebSocket,
    dialect: BayeuxPolls,
    /// When the pending connect was sent.
    connect_sent_at: Option<Instant>,
    received: ReceivedItems,
    /// Delay before the next connect.
    delay: Option<Pin<Box<Sleep>>>,
}

/// Opens a session over a WebSocket, or resumes one.
pub(in crate::client) async fn open(
    mut socket: WebSocket,
    url: &Rc<ServerUrl>,
    resume: Option<&Ticket>,
    acknowledges: bool,
) -> Result<(BayeuxSocket, Greeting), ClientFailure> {
    let mut dialect = BayeuxPolls::new(url, "websocket", String::new(), resume, acknowledges);
    if let Some(ticket) = resume {
        let connect = dialect.connect_message();
        let response = exchange(&mut socket, &connect, |response| response.connect.is_some()).await?;
        if let Some(received) = resume_with(&mut dialect, response)? {
            let greeting = Greeting { ticket: ticket.clone(), recovered: true, ..Greeting::default() };
            return Ok((
                BayeuxSocket { socket, dialect, connect_sent_at: None, received, delay: None },
                greeting,
            ));
        }
    }
    let response =
        exchange(&mut socket, &handshake("websocket", acknowledges), |response| response.handshake.is_some())
            .await?;
    let greeting = greeting_of(&mut dialect, response, acknowledges)?;
    Ok((
        BayeuxSocket { socket, dialect, connect_sent_at: None, received: ReceivedItems::new(), delay: None },
        greeting,
    ))
}

/// Sends messages, and collects everything that arrives up to and including the reply.
async fn exchange(
    socket: &mut WebSocket,
    messages: &str,
    is_reply: fn(&BayeuxResponse) -> bool,
) -> Result<BayeuxResponse, ClientFailure> {
    // Ignore an error: it is reported while waiting for the reply.
    let _ = socket.send_text(messages).await;
    let mut all = BayeuxResponse::default();
    let response = poll_fn(|context| {
        socket.poll_each(context, &mut |incoming| {
            let Incoming::Text(text) = incoming else { return ControlFlow::Continue(()) };
            match parse_response(text.as_bytes()) {
                Err(end) => ControlFlow::Break(Err(end)),
                Ok(response) => {
                    all.add(response);
                    if is_reply(&all) { ControlFlow::Break(Ok(())) } else { ControlFlow::Continue(()) }
                }
            }
        })
    });
    response.await.and_then(|response| response).map_err(ClientFailure::ClosedBeforeHello)?;
    Ok(all)
}

impl BayeuxSocket {
    pub(in crate::client) fn socket(&mut self) -> &mut WebSocket {
        &mut self.socket
    }

    pub(in crate::client) fn into_socket(self) -> WebSocket {
        self.socket
    }

    pub(in crate::client) fn dialect(&self) -> &BayeuxPolls {
        &self.dialect
    }

    pub(in crate::client) async fn send(&mut self, message: &str) {
        // Ignore an error: the next read reports it.
        let _ = self.socket.send_text(&format!("[{message}]")).await;
    }

    /// Ends the session.
    pub(in crate::client) async fn close(mut self, code: u16) {
        let command = self.dialect.close_command();
        self.send(&command).await;
        let _ = self.socket.send_close(code).await;
    }

    /// Works like [`super::LongPoll::poll_each`].
    pub(in crate::client) fn poll_each<T>(
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
            self.queue_connect(context);
            let Self { socket, dialect, connect_sent_at, received, delay } = self;
            let polled = socket.poll_each(context, &mut |incoming| {
                let Incoming::Text(text) = incoming else { return ControlFlow::Continue(()) };
                let response = match parse_response(text.as_bytes()) {
                    Ok(response) => response,
                    Err(end) => return ControlFlow::Break(Err(end)),
                };
                let mut elapsed = std::time::Duration::ZERO;
                if response.connect.is_some() {
                    elapsed = connect_sent_at.take().map_or(elapsed, |at| at.elapsed());
                }
                let is_connect = response.connect.is_some();
                let taken = dialect.process(response, elapsed, received);
                if is_connect && !dialect.poll_delay().is_zero() {
                    *delay = Some(Box::pin(sleep(dialect.poll_delay())));
                }
                ControlFlow::Break(taken)
            });
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(end) | Ok(Err(end))) => {
                    // First deliver the messages that arrived together with the end.
                    if let ControlFlow::Break(value) = deliver_all(&mut self.received, on_event) {
                        return Poll::Ready(Ok(value));
                    }
                    return Poll::Ready(Err(end));
                }
                Poll::Ready(Ok(Ok(()))) => {}
            }
        }
    }

    /// Queues the next connect if it is due. The next read sends it.
    fn queue_connect(&mut self, context: &mut Context<'_>) {
        if self.connect_sent_at.is_some() {
            return;
        }
        if self.delay.as_mut().is_some_and(|delay| delay.as_mut().poll(context).is_pending()) {
            return;
        }
        self.delay = None;
        let mut frame = Vec::new();
        write_frame(&mut frame, Opcode::Text, self.dialect.connect_message().as_bytes());
        self.connect_sent_at = Some(Instant::now());
        self.socket.queue(&frame);
    }
}
