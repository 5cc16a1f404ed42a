use std::future::poll_fn;
use std::pin::{Pin, pin};

use encke_core::close::CloseCode;
use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, Texts};
use futures_util::future::select;
use futures_util::{Sink, SinkExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::server::Shared;
use crate::transport::end_of_stream::end_stream;
use crate::transport::retry::{goaway, retry_ms};
use crate::transport::unwritten::Unwritten;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// We say that it does, and why.
    Close(CloseCode),
    /// The peer has said so; our answer waits in the buffer.
    ClosedByPeer,
    /// There is no one to say anything to.
    Lost,
}

/// The closing handshake: our Close frame, then the end of our stream, then whatever still comes is thrown away
/// until the peer ends its own, or `close_timeout` has passed. Closing the socket with unread bytes in it would
/// send a reset, which may overtake the Close frame and eat its code.
///
/// `unwritten` is what was said before; some of it may be on its way already.
pub(super) async fn say<S>(
    mut socket: WebSocketStream<S>,
    mut unwritten: Unwritten,
    ending: Ending,
    shared: &Shared,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // A frame of which a part is on its way must go first, whole.
    if ending == Ending::Lost {
        return;
    }
    let patience = pin!(shared.timeouts.sleep(shared.config.close_timeout));
    let handshake = pin!(async {
        if !unwritten.is_empty() {
            let answered = socket.flush().await.is_ok();
            let said = poll_fn(|context| unwritten.poll_write(context, socket.get_mut()));
            if !answered || said.await.is_err() {
                return;
            }
        }
        if let Ending::Close(code) = ending {
            if code == CloseCode::Draining {
                Json::default().notify(&goaway(code, retry_ms(code)), &mut Queue(&mut socket));
            }
            let frame = CloseFrame { code: code.code().into(), reason: code.reason().into() };
            queue(&mut socket, Message::Close(Some(frame)));
        }
        if socket.flush().await.is_ok() {
            end_stream(socket.into_inner()).await;
        }
    });
    select(patience, handshake).await;
}

/// What tungstenite is to write.
struct Queue<'a, S>(&'a mut WebSocketStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Texts for Queue<'_, S> {
    fn text(&mut self, text: &str) {
        queue(self.0, Message::text(text));
    }
}

/// What cannot be queued cannot be said: the buffer is full of what the peer does not read.
fn queue<S>(socket: &mut WebSocketStream<S>, message: Message)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Err(error) = Pin::new(socket).start_send(message) {
        tracing::debug!(%error, "the closing handshake was cut short");
    }
}
