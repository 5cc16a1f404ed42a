use std::future::poll_fn;
use std::pin::{Pin, pin};

use encke_core::close::CloseCode;
use encke_core::dialect::{Dialect, Texts};
use futures_util::future::select;
use futures_util::{Sink, SinkExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::client::{Context, goaway, retry_ms};
use crate::transport::end_of_stream::end_stream;
use crate::transport::unwritten::Unwritten;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// We close it, with this code.
    Close(CloseCode),
    /// The peer has closed it; our answer waits in the buffer.
    ClosedByPeer,
    /// The peer is gone.
    Lost,
    /// The connection goes on, with another session.
    Anew,
}

/// The closing handshake: our Close frame, then the end of our stream. Input is discarded until the peer ends its own
/// stream, or [has had its time](Context::closing_is_over). Closing the socket with unread bytes in it would send a reset, which may
/// overtake the Close frame and lose its code.
///
/// `unwritten` is what was to be sent before that; part of it may have been sent.
pub(super) async fn say<S, D>(
    mut socket: WebSocketStream<S>,
    mut unwritten: Unwritten,
    ending: Ending,
    context: &Context,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    D: Dialect,
{
    if matches!(ending, Ending::Lost | Ending::Anew) {
        return;
    }
    let timeout = pin!(context.closing_is_over());
    let handshake = pin!(async {
        // A frame that was sent in part must be completed first.
        if !unwritten.is_empty() {
            let answered = socket.flush().await.is_ok();
            let said = poll_fn(|context| unwritten.poll_write(context, socket.get_mut()));
            if !answered || said.await.is_err() {
                return;
            }
        }
        if let Ending::Close(code) = ending {
            if matches!(code, CloseCode::Draining | CloseCode::Moved | CloseCode::Overloaded) {
                let goaway = goaway(code, retry_ms(code, &context.entropy));
                D::default().notify(&goaway, &mut Queue(&mut socket));
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

/// What tungstenite is to write.
struct Queue<'a, S>(&'a mut WebSocketStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Texts for Queue<'_, S> {
    fn text(&mut self, text: &str) {
        queue(self.0, Message::text(text));
    }
}

/// A message that cannot be queued is not sent: the buffer is full of what the peer does not read.
fn queue<S>(socket: &mut WebSocketStream<S>, message: Message)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Err(error) = Pin::new(socket).start_send(message) {
        tracing::debug!(%error, "the closing handshake was cut short");
    }
}
