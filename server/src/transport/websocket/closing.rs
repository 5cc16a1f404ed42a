use std::future::poll_fn;
use std::pin::{Pin, pin};

use encke_core::close::CloseCode;
use encke_core::dialect::{Dialect, TextSink};
use futures_util::future::select;
use futures_util::{Sink, SinkExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::client::{Services, goaway, retry_ms};
use crate::transport::end_of_stream::end_stream;
use crate::transport::pending_write::PendingWrite;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The server closes the connection, with this code.
    Close(CloseCode),
    /// The peer has closed the connection. Our reply is in tungstenite's buffer.
    ClosedByPeer,
    /// The peer has disconnected.
    Lost,
    /// The connection continues with another session.
    NewSession,
}

/// Performs the closing handshake: sends our Close frame, then the end of our stream. Input is discarded
/// until the peer ends its own stream, or the close timeout expires. Closing the socket with unread bytes in
/// it would send a reset, which may overtake the Close frame and lose its code.
///
/// `unwritten` is output that precedes the Close frame. Part of it may have been sent.
pub(super) async fn close<S, D>(
    mut socket: WebSocketStream<S>,
    mut unwritten: PendingWrite,
    ending: Ending,
    services: &Services,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    D: Dialect,
{
    if matches!(ending, Ending::Lost | Ending::NewSession) {
        return;
    }
    let timeout = pin!(services.closing_elapsed());
    let handshake = pin!(async {
        // Complete a partially sent frame first.
        if !unwritten.is_empty() {
            let answered = socket.flush().await.is_ok();
            let written = poll_fn(|task| unwritten.poll_write(task, socket.get_mut()));
            if !answered || written.await.is_err() {
                return;
            }
        }
        if let Ending::Close(code) = ending {
            if matches!(code, CloseCode::Draining | CloseCode::Moved | CloseCode::Overloaded) {
                let goaway = goaway(code, retry_ms(code, &services.entropy));
                D::default().notify(&goaway, &mut TungsteniteQueue(&mut socket));
            }
            let frame = CloseFrame { code: code.code().into(), reason: code.reason().into() };
            queue(&mut socket, Message::Close(Some(frame)));
        }
        if socket.flush().await.is_ok() {
            let _ = end_stream(socket.into_inner()).await;
        }
    });
    select(timeout, handshake).await;
}

/// Sink that queues text messages in tungstenite.
struct TungsteniteQueue<'a, S>(&'a mut WebSocketStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TextSink for TungsteniteQueue<'_, S> {
    fn text(&mut self, text: &str) {
        queue(self.0, Message::text(text));
    }
}

/// Queues a message. If that fails, the message is dropped: the buffer is full because the peer does not
/// read.
fn queue<S>(socket: &mut WebSocketStream<S>, message: Message)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Err(error) = Pin::new(socket).start_send(message) {
        tracing::debug!(%error, "closing handshake aborted");
    }
}
