//! A WebSocket that has no session yet, because its dialect opens sessions by messages.

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

use super::goodbye::{self, Ending};
use super::{BayeuxSocket, Upgraded, fault, websocket};
use crate::admission::UnfinishedMessage;
use crate::client::{Context, Sender};
use crate::transport::Socket;
use crate::transport::unwritten::Unwritten;

/// What is read at a time.
const READ_BYTES: usize = 2048;

/// Reads texts until one of them brings a session.
pub(crate) struct Waiting<S> {
    socket: WebSocketStream<OneFrame<S>>,
}

/// It is over: to be told with [`Waiting::close`].
pub(crate) struct Over(Ending);

impl From<CloseCode> for Over {
    fn from(code: CloseCode) -> Self {
        Self(Ending::Close(code))
    }
}

impl<S: Socket> Waiting<S> {
    pub(crate) async fn new(
        (socket, read_already): Upgraded<S>,
        address: IpAddr,
        context: &Arc<Context>,
    ) -> Self {
        let cut = CancellationToken::new();
        let now = context.timeouts.clock().now();
        let account = context.unfinished.begin(Sender::Request(cut.clone()), address, now);
        let socket = OneFrame {
            socket,
            read: read_already,
            walk: FrameWalk::default(),
            handed_on: 0,
            account,
            accounted: 0,
            cut,
            context: Arc::clone(context),
        };
        Self { socket: websocket(socket, Vec::new(), &context.settings).await }
    }

    /// The next text.
    pub(crate) async fn next(&mut self) -> Result<String, Over> {
        let cut = self.socket.get_ref().cut.clone();
        let mut cut = pin!(cut.cancelled());
        loop {
            let next = match select(self.socket.next(), cut.as_mut()).await {
                Either::Left((next, _)) => next,
                Either::Right(_) => return Err(CloseCode::TryAgainLater.into()),
            };
            match next {
                Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
                Some(Ok(Message::Binary(_))) => return Err(CloseCode::UnsupportedData.into()),
                Some(Ok(Message::Close(_))) => return Err(Over(Ending::ClosedByPeer)),
                // tungstenite answers pings.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(error)) => return Err(Over(fault::judge(&error).1)),
                None => return Err(Over(Ending::Lost)),
            }
        }
    }

    pub(crate) async fn say(&mut self, text: String) -> Result<(), Over> {
        self.socket.send(Message::text(text)).await.map_err(|error| Over(fault::judge(&error).1))
    }

    /// The socket, after the text that was read last, and what was read of it already.
    pub(crate) fn into_parts(self) -> Upgraded<S> {
        let OneFrame { socket, read, .. } = self.socket.into_inner();
        (socket, read)
    }

    pub(crate) async fn close(self, Over(ending): Over, context: &Arc<Context>) {
        // What it had begun to send takes memory.
        let socket = websocket(self.socket.into_inner(), Vec::new(), &context.settings).await;
        goodbye::say::<_, BayeuxSocket>(socket, Unwritten::default(), ending, context).await;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.socket.get_ref().socket.is_over()
    }
}

/// Gives no more than one frame at a time. So once tungstenite has a message, it has nothing of the next, and all that was read can be
/// had back.
struct OneFrame<S> {
    socket: S,
    read: Vec<u8>,
    walk: FrameWalk,
    /// How much of what was read may be handed on.
    handed_on: usize,
    /// What all of a message that is not whole counts as,
    account: UnfinishedMessage<Sender>,
    /// in bytes.
    accounted: usize,
    /// There are too many of them.
    cut: CancellationToken,
    context: Arc<Context>,
}

impl<S> OneFrame<S> {
    fn account(&mut self) {
        // tungstenite makes room for all of a frame once it has the header, and keeps fragments in a buffer that doubles.
        let announced = self.walk.announced().unwrap_or(0).min(self.context.settings.max_message as u64);
        let above = announced.saturating_add(self.walk.unfinished_message().saturating_mul(2));
        let bytes = usize::try_from(above).unwrap_or(usize::MAX).saturating_add(self.read.capacity());
        if bytes != self.accounted {
            self.accounted = bytes;
            self.context.account(&self.account, bytes, self.context.timeouts.clock().now());
        }
    }
}

impl<S: Socket> AsyncRead for OneFrame<S> {
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
        if this.handed_on == 0 {
            this.handed_on = this.walk.advance(&this.read, 1).bytes;
        }
        let taken = this.handed_on.min(into.remaining());
        into.put_slice(&this.read[..taken]);
        this.read.drain(..taken);
        this.handed_on -= taken;
        if this.read.is_empty() {
            // Here comes little at a time.
            this.read.shrink_to_fit();
        }
        this.account();
        Poll::Ready(Ok(()))
    }
}

impl<S: Socket> AsyncWrite for OneFrame<S> {
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
