//! WebSockets without a session, for a dialect that opens sessions with messages.

use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{self, Poll, ready};

use encke_core::close::CloseCode;
use encke_core::frame_walk::FrameWalk;
use futures_util::future::{Either, select};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::closing::{self, Ending};
use super::{BayeuxSocket, Upgraded, error_class, websocket};
use crate::admission::PartialMessage;
use crate::client::{PartialMessageSender, Services};
use crate::transport::Socket;
use crate::transport::pending_write::PendingWrite;

const READ_BYTES: usize = 2048;

/// A WebSocket that has no session yet. Text messages are read from it until one of them opens or resumes a
/// session.
pub(crate) struct SessionlessSocket<S> {
    socket: WebSocketStream<SingleFrameReader<S>>,
}

/// How to close a socket without a session: see [`SessionlessSocket::close`].
pub(crate) struct SocketEnd(Ending);

impl From<CloseCode> for SocketEnd {
    fn from(code: CloseCode) -> Self {
        Self(Ending::Close(code))
    }
}

impl<S: Socket> SessionlessSocket<S> {
    pub(crate) async fn new(
        (socket, read_already): Upgraded<S>,
        address: IpAddr,
        context: &Arc<Services>,
    ) -> Self {
        let evicted = CancellationToken::new();
        let now = context.timeouts.clock().now();
        let account =
            context.partial_messages.begin(PartialMessageSender::Request(evicted.clone()), address, now);
        let socket = SingleFrameReader {
            socket,
            read: read_already,
            walk: FrameWalk::default(),
            passed_on: 0,
            account,
            accounted: 0,
            evicted,
            context: Arc::clone(context),
        };
        Self { socket: websocket(socket, Vec::new(), &context.settings).await }
    }

    /// Reads a text message.
    pub(crate) async fn next(&mut self) -> Result<String, SocketEnd> {
        let evicted = self.socket.get_ref().evicted.clone();
        let mut evicted = pin!(evicted.cancelled());
        loop {
            let next = match select(self.socket.next(), evicted.as_mut()).await {
                Either::Left((next, _)) => next,
                Either::Right(_) => return Err(CloseCode::TryAgainLater.into()),
            };
            match next {
                Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
                Some(Ok(Message::Binary(_))) => return Err(CloseCode::UnsupportedData.into()),
                Some(Ok(Message::Close(_))) => return Err(SocketEnd(Ending::ClosedByPeer)),
                // tungstenite answers pings.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(error)) => return Err(SocketEnd(error_class::classify(&error).1)),
                None => return Err(SocketEnd(Ending::Lost)),
            }
        }
    }

    pub(crate) async fn send(&mut self, text: String) -> Result<(), SocketEnd> {
        self.socket
            .send(Message::text(text))
            .await
            .map_err(|error| SocketEnd(error_class::classify(&error).1))
    }

    /// Returns the socket, positioned after the last text message, and the bytes already read after that
    /// message.
    pub(crate) fn into_parts(self) -> Upgraded<S> {
        let SingleFrameReader { socket, read, .. } = self.socket.into_inner();
        (socket, read)
    }

    pub(crate) async fn close(self, SocketEnd(ending): SocketEnd, context: &Arc<Services>) {
        // Replace tungstenite, to free the memory of the peer's partial message.
        let socket = websocket(self.socket.into_inner(), Vec::new(), &context.settings).await;
        closing::close::<_, BayeuxSocket>(socket, PendingWrite::default(), ending, context).await;
    }

    pub(crate) fn is_closed_by_peer(&self) -> bool {
        self.socket.get_ref().socket.is_closed_by_peer()
    }
}

/// Yields at most one frame at a time. When tungstenite returns a message, it has read nothing beyond that
/// message, so the rest of the input can be recovered.
struct SingleFrameReader<S> {
    socket: S,
    read: Vec<u8>,
    walk: FrameWalk,
    /// Number of bytes in `read` that may be passed on.
    passed_on: usize,
    /// Accounts for the memory of a partial message.
    account: PartialMessage<PartialMessageSender>,
    /// Number of bytes reported to `account_partial_message`.
    accounted: usize,
    /// Cancelled when all partial messages together exceed their limit and this one is evicted.
    evicted: CancellationToken,
    context: Arc<Services>,
}

impl<S> SingleFrameReader<S> {
    fn account(&mut self) {
        // tungstenite reserves memory for a whole frame once it has the header, and keeps fragments in a
        // buffer that doubles as it grows.
        let announced = self.walk.payload_len().unwrap_or(0).min(self.context.settings.max_message as u64);
        let parser_bytes = announced.saturating_add(self.walk.partial_message_len().saturating_mul(2));
        let bytes = usize::try_from(parser_bytes).unwrap_or(usize::MAX).saturating_add(self.read.capacity());
        if bytes != self.accounted {
            self.accounted = bytes;
            self.context.account_partial_message(&self.account, bytes, self.context.timeouts.clock().now());
        }
    }
}

impl<S: Socket> AsyncRead for SingleFrameReader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.read.is_empty() {
            let mut scratch = [0; READ_BYTES];
            let mut buffer = ReadBuf::new(&mut scratch);
            ready!(Pin::new(&mut this.socket).poll_read(context, &mut buffer))?;
            this.read.extend_from_slice(buffer.filled());
        }
        if this.passed_on == 0 {
            this.passed_on = this.walk.advance(&this.read, 1).bytes;
        }
        let taken = this.passed_on.min(into.remaining());
        into.put_slice(&this.read[..taken]);
        this.read.drain(..taken);
        this.passed_on -= taken;
        if this.read.is_empty() {
            // Free the buffer. It is rarely needed: little arrives at a time before there is a session.
            this.read.shrink_to_fit();
        }
        this.account();
        Poll::Ready(Ok(()))
    }
}

impl<S: Socket> AsyncWrite for SingleFrameReader<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
