//! An HTTP client that reconnects after the server has closed the connection.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;

use super::http_connection::{CompleteResponse, HttpConnection};
use super::source::connect_from_same_address;
use super::websocket::ConnectionEnd;

type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>>>>;

/// Sends one request after the other. When the server closes the connection, the client opens a new one from
/// the same source address.
pub(crate) enum HttpClient {
    Open(HttpConnection),
    Connecting(Connecting),
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(connection) => connection.fmt(f),
            Self::Connecting(_) => f.write_str("Connecting"),
        }
    }
}

impl HttpClient {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self::Open(HttpConnection::new(stream))
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// Returns a client that opens a second connection to the same server, from the same address. `None`
    /// while this client's connection is not open.
    pub(crate) fn open_second(&self) -> Option<Self> {
        let Self::Open(connection) = self else { return None };
        Some(Self::Connecting(Box::pin(connect_from_same_address(connection.stream()))))
    }

    /// Sends a request as soon as the connection is open. `make` creates the request at that time.
    pub(crate) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Poll<Result<(), ConnectionEnd>> {
        if let Self::Connecting(connecting) = self {
            let stream =
                ready!(connecting.as_mut().poll(context)).map_err(|_| ConnectionEnd::NoCloseFrame)?;
            *self = Self::new(stream);
        }
        if let Self::Open(connection) = self {
            connection.send(context, make());
        }
        Poll::Ready(Ok(()))
    }

    /// Passes the response to `read`. After the last response on a connection, a new one is opened.
    pub(crate) fn poll_response<T>(
        &mut self,
        context: &mut Context<'_>,
        read: impl FnOnce(CompleteResponse<'_>) -> T,
    ) -> Poll<Result<T, ConnectionEnd>> {
        // Without a connection, no request can be pending.
        let Self::Open(connection) = self else { return Poll::Pending };
        let read = |response: CompleteResponse<'_>| (response.is_last, read(response));
        let (is_last, value) = ready!(connection.poll_response(context, read))?;
        if is_last && let Some(next) = self.open_second() {
            *self = next;
        }
        Poll::Ready(Ok(value))
    }

    /// Becomes ready when the server has closed the connection. No request may be pending.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Open(connection) => connection.poll_end(context),
            Self::Connecting(_) => Poll::Pending,
        }
    }

    /// Makes the connection, if there is one, close with a reset when it is dropped.
    pub(crate) fn reset_on_drop(&self) {
        if let Self::Open(connection) = self {
            connection.reset_on_drop();
        }
    }
}
