use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::active::Connection;
use super::pending_write::PendingWrite;
use super::protocol::{Ending, Protocol};
use super::socket::Socket;
use crate::client::Services;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, FusedFuture, select};
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
/// side. Input is discarded until the peer ends its own stream, or the close timeout expires.
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
    if write_all(&mut socket, &mut out, services).await {
        let timeout = pin!(services.closing_elapsed());
        select(pin!(end_stream(socket)), timeout).await;
    }
}

/// Writes all output. Returns whether the kernel accepted it before the close timeout expired.
///
/// The runtime may notice much later than the kernel that a socket is writable: when thousands of parked
/// connections end at once, it runs their tasks before it polls the kernel. Such a socket is not given up.
async fn write_all<S: Socket>(socket: &mut S, out: &mut PendingWrite, services: &Services) -> bool {
    let mut timeout = pin!(services.closing_elapsed().fuse());
    poll_fn(|context| match out.poll_write(context, socket) {
        Poll::Ready(written) => Poll::Ready(written.is_ok()),
        Poll::Pending => {
            let has_expired = timeout.as_mut().poll(context).is_ready() || timeout.is_terminated();
            if has_expired && !socket.is_writable() { Poll::Ready(false) } else { Poll::Pending }
        }
    })
    .await
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Shutdown;
    use std::task::Waker;

    use encke_core::close::CloseCode;
    use encke_core::dialect::json::Json;
    use encke_timeouts::clock::{Clock, SimulatedTime, UnixTime};
    use tokio::runtime::Builder;

    use super::*;
    use crate::client::test_services::on_slow_engine_with;
    use crate::connection::transport::websocket::WebSocket;
    use crate::connection::{TcpSocket, connected_sockets};

    #[test]
    fn close_frame_is_sent_even_if_the_runtime_polls_the_kernel_late() {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
        let (services, _) = on_slow_engine_with(|threshold| Clock::simulated(Arc::clone(&time), threshold));
        let (mut client, socket) = connected_sockets();
        client.shutdown(Shutdown::Write).expect("a socket");

        // The runtime polls the kernel only in `block_on`.
        let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
        let entered = runtime.enter();
        let socket = TcpSocket::unpark(socket).expect("a runtime");
        let ending = Ending::Close(CloseCode::Normal);
        let out = PendingWrite::from(b"rest".to_vec());
        let mut closing = Box::pin(close_socket::<_, WebSocket<Json, ()>>(socket, out, ending, &services));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            assert!(closing.as_mut().poll(&mut context).is_pending());
            time.advance(services.settings.close_timeout * 2);
        }
        drop(entered);
        runtime.block_on(closing);
        let mut received = Vec::new();
        client.read_to_end(&mut received).expect("the end of the stream");
        assert!(received.starts_with(b"rest\x88"), "{received:?}");
    }
}
