//! A connection for requests that is opened again when the server has ended it.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;

use super::requests::{Answer, Requests};
use super::source::connect_beside;
use super::websocket::End;

type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>>>>;

/// A connection for one request after the other. It dials from where its predecessor did.
pub(crate) enum Line {
    Open(Requests),
    Connecting(Connecting),
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(requests) => requests.fmt(f),
            Self::Connecting(_) => f.write_str("Connecting"),
        }
    }
}

impl Line {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self::Open(Requests::new(stream))
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// Another one to the same server, from the same address. `None` while this one is not open itself.
    pub(crate) fn beside(&self) -> Option<Self> {
        let Self::Open(requests) = self else { return None };
        Some(Self::Connecting(Box::pin(connect_beside(requests.stream()))))
    }

    /// Sends a request once the connection is there. `make` is called when it is.
    pub(crate) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Poll<Result<(), End>> {
        if let Self::Connecting(connecting) = self {
            let stream = ready!(connecting.as_mut().poll(context)).map_err(|_| End::Cut)?;
            *self = Self::new(stream);
        }
        if let Self::Open(requests) = self {
            requests.send(context, make());
        }
        Poll::Ready(Ok(()))
    }

    /// Hands the answer to `read`. After the last one of a connection another is opened.
    pub(crate) fn poll_answer<T>(
        &mut self,
        context: &mut Context<'_>,
        read: impl FnOnce(Answer<'_>) -> T,
    ) -> Poll<Result<T, End>> {
        // No request was sent where there is no connection.
        let Self::Open(requests) = self else { return Poll::Pending };
        let read = |answer: Answer<'_>| (answer.is_last, read(answer));
        let (is_last, value) = ready!(requests.poll_answer(context, read))?;
        if is_last && let Some(next) = self.beside() {
            *self = next;
        }
        Poll::Ready(Ok(value))
    }

    /// Ready when the server has ended the connection, on which nothing was asked.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Open(requests) => requests.poll_end(context),
            Self::Connecting(_) => Poll::Pending,
        }
    }

    /// From now on the connection, if there is one, ends with a reset whenever it is dropped.
    pub(crate) fn reset_on_drop(&self) {
        if let Self::Open(requests) = self {
            requests.reset_on_drop();
        }
    }
}
