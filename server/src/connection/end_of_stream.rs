use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

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
    while !ready!(poll_read_some(socket, context))? {}
    Poll::Ready(Ok(()))
}

/// Reads some bytes and discards them. Returns whether the stream has ended.
pub(super) fn poll_read_some(
    socket: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
) -> Poll<io::Result<bool>> {
    let mut scratch = [0; 2048];
    let mut buffer = ReadBuf::new(&mut scratch);
    ready!(Pin::new(socket).poll_read(context, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().is_empty()))
}
