use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::active::Connection;
use super::pending_write::PendingWrite;
use super::protocol::{Ending, Protocol};
use super::socket::Socket;
use crate::client::Services;
use futures_util::future::{BoxFuture, select};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Ends a connection that its session no longer uses.
pub(super) fn close<S: Socket, P: Protocol<S>>(
    connection: Connection<S, P>,
    ending: Ending,
) -> BoxFuture<'static, ()> {
    let Connection { socket, out, attachment, protocol, .. } = connection;
    // Detach early: the session has already released this connection, and another one may use the permit.
    let services = Arc::clone(&attachment.services);
    drop(attachment);
    Box::pin(async move {
        close_socket::<S, P>(socket.socket, out, ending, &services).await;
        // A shutdown waits for the socket until here.
        drop(protocol);
    })
}

/// Sends the rest of the output and the protocol's close message for this ending, then shuts down the sending
/// side. Input is discarded until the peer ends its own stream, or the close timeout expires. Closing the socket
/// with unread bytes in it would send a reset, which may overtake the output.
pub(crate) async fn close_socket<S: Socket, P: Protocol<S>>(
    mut socket: S,
    mut out: PendingWrite,
    ending: Ending,
    services: &Services,
) {
    match ending {
        Ending::Close(code) => P::write_farewell(code, services, &mut out.bytes),
        Ending::ClosedByPeer(code) => P::write_close_reply(code, &mut out.bytes),
        Ending::Lost | Ending::Released => return,
    }
    let timeout = pin!(services.closing_elapsed());
    let closing = pin!(async {
        let written = out.is_empty() || poll_fn(|task| out.poll_write(task, &mut socket)).await.is_ok();
        if written {
            let _ = end_stream(socket).await;
        }
    });
    select(timeout, closing).await;
}

/// Shuts down the sending side, then discards input until the peer ends its own stream. Closing a socket with
/// unread bytes in it would send a reset, which may overtake the last output.
///
/// # Errors
/// The connection fails before the peer ends its stream.
pub(crate) async fn end_stream(mut socket: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    socket.shutdown().await?;
    poll_fn(|context| poll_discard(&mut socket, context)).await
}

/// Reads and discards input until the end of the stream. The buffer exists only while there is something to
/// read.
fn poll_discard(socket: &mut (impl AsyncRead + Unpin), context: &mut Context<'_>) -> Poll<io::Result<()>> {
    loop {
        let mut scratch = [0; 2048];
        let mut buffer = ReadBuf::new(&mut scratch);
        ready!(Pin::new(&mut *socket).poll_read(context, &mut buffer))?;
        if buffer.filled().is_empty() {
            return Poll::Ready(Ok(()));
        }
    }
}
