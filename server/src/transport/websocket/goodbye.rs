use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use encke_core::close::CloseCode;
use encke_core::dialect::json::{Goaway, ServerMessage};
use futures_util::future::select;
use futures_util::{Sink, SinkExt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::server::Shared;
use crate::transport::unwritten::Unwritten;

/// Clients of a server that goes away come back over this long, each at a moment of its own.
const RETRY_SPREAD_MS: std::ops::Range<u64> = 500..10_000;

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
                queue(&mut socket, Message::text(goaway(code)));
            }
            let frame = CloseFrame { code: code.code().into(), reason: code.reason().into() };
            queue(&mut socket, Message::Close(Some(frame)));
        }
        if socket.flush().await.is_ok() {
            let mut socket = socket.into_inner();
            if socket.shutdown().await.is_ok() {
                poll_fn(|context| poll_discard(&mut socket, context)).await;
            }
        }
    });
    select(patience, handshake).await;
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

fn goaway(code: CloseCode) -> String {
    let retry_ms = rand::random_range(RETRY_SPREAD_MS);
    ServerMessage::Goaway(Goaway { reason: code.reason().into(), retry_ms }).to_json()
}

/// Reads to the end of the stream, into a buffer that exists only while there is something to read.
fn poll_discard(socket: &mut (impl AsyncRead + Unpin), context: &mut Context<'_>) -> Poll<()> {
    loop {
        let mut scratch = [0; 2048];
        let mut buffer = ReadBuf::new(&mut scratch);
        let read = ready!(Pin::new(&mut *socket).poll_read(context, &mut buffer));
        if read.is_err() || buffer.filled().is_empty() {
            return Poll::Ready(());
        }
    }
}
