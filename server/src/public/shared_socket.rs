use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use encke_base::locks::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::{Socket, poll_read_with_time};
use crate::http::ErrorBodies;

/// A socket that is used by hyper. Through a clone, its owner can query the kernel about it, which hyper
/// cannot do. The socket is locked for one system call at a time.
#[derive(Debug)]
pub(crate) struct SharedSocket<S>(Arc<Mutex<SharedState<S>>>);

#[derive(Debug)]
struct SharedState<S> {
    /// `None` once the socket has been taken back.
    socket: Option<S>,
    /// Bytes that were already read from the socket. hyper reads them first.
    read_already: Vec<u8>,
    end: Option<PeerEnd>,
    progress: SocketProgress,
    errors: ErrorBodies,
}

/// Reads and writes of hyper.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SocketProgress {
    /// When the kernel received the first bytes since this was last queried.
    pub(crate) received: Option<Duration>,
    /// Whether the kernel does not accept the output, because the peer is not reading.
    pub(crate) is_held: bool,
}

/// How the peer's stream has ended.
#[derive(Clone, Copy, Debug)]
enum PeerEnd {
    /// The peer ended its stream. `acknowledged_all` records whether it had acknowledged everything by then,
    /// because hyper then ends our stream, and that end has to be acknowledged, too.
    Ended { acknowledged_all: bool },
    /// The connection failed: the peer's kernel may have received bytes that its program has not read.
    Failed,
}

const NOT_TAKEN_BACK: &str = "the socket was not taken back";

impl<S: Unpin> SharedSocket<S> {
    /// Shares a socket from which the bytes in `read_already` were already read.
    pub(crate) fn new(socket: S, read_already: Vec<u8>) -> Self {
        let (end, progress, errors) = (None, SocketProgress::default(), ErrorBodies::for_any_origin());
        Self(Arc::new(Mutex::new(SharedState { socket: Some(socket), read_already, end, progress, errors })))
    }

    /// Takes the socket back, with the bytes that are still unused: `next`, which the last read returned, and
    /// the rest of the bytes that were already read.
    pub(crate) fn into_parts(self, next: &[u8]) -> (S, Vec<u8>) {
        let mut state = self.0.lock();
        (state.socket.take().expect(NOT_TAKEN_BACK), [next, &state.read_already].concat())
    }

    /// Returns hyper's reads since the last call, and the state of its writes.
    pub(crate) fn take_progress(&self) -> SocketProgress {
        let progress = &mut self.0.lock().progress;
        std::mem::replace(progress, SocketProgress { received: None, ..*progress })
    }

    fn write<T>(&self, write: impl FnOnce(Pin<&mut S>, &mut ErrorBodies) -> Poll<T>) -> Poll<T> {
        let SharedState { socket, progress, errors, .. } = &mut *self.0.lock();
        let written = write(Pin::new(socket.as_mut().expect(NOT_TAKEN_BACK)), errors);
        progress.is_held = written.is_pending();
        written
    }

    fn with_socket<T>(&self, act: impl FnOnce(Pin<&mut S>) -> T) -> T {
        act(Pin::new(self.0.lock().socket.as_mut().expect(NOT_TAKEN_BACK)))
    }
}

impl<S: Socket> SharedSocket<S> {
    /// When the kernel received the first bytes that were read since [`Self::take_progress`], or else the last bytes of
    /// the connection.
    pub(crate) fn received(&self) -> Duration {
        let SharedState { socket, progress, .. } = &*self.0.lock();
        progress.received.unwrap_or_else(|| socket.as_ref().expect(NOT_TAKEN_BACK).last_received())
    }

    /// Whether the peer has ended the connection, according to the kernel. `false` once the socket is taken
    /// back.
    pub(crate) fn has_disconnected(&self) -> bool {
        self.0.lock().socket.as_ref().is_some_and(Socket::is_closed_by_peer)
    }

    /// Whether the peer may not have received all output, as of the end of its stream, or as of now if the
    /// stream has not ended.
    pub(crate) fn may_have_missed_bytes(&self) -> bool {
        let SharedState { socket, end, .. } = &*self.0.lock();
        match end {
            Some(PeerEnd::Ended { acknowledged_all }) => !acknowledged_all,
            Some(PeerEnd::Failed) => true,
            None => socket.as_ref().is_some_and(|socket| socket.unacknowledged().bytes > 0),
        }
    }
}

impl<S> Clone for SharedSocket<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Socket> AsyncRead for SharedSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        let SharedState { socket, read_already, end, progress, .. } = &mut *state;
        if !read_already.is_empty() {
            let count = read_already.len().min(buf.remaining());
            buf.put_slice(&read_already[..count]);
            read_already.drain(..count);
            read_already.shrink_to_fit();
            return Poll::Ready(Ok(()));
        }
        let socket = socket.as_mut().expect(NOT_TAKEN_BACK);
        let before = buf.remaining();
        let read = ready!(poll_read_with_time(socket, context, buf, &mut progress.received));
        let has_ended = match &read {
            Ok(()) => before > 0 && buf.remaining() == before,
            // The stream ended without `close_notify`.
            Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
        };
        if has_ended {
            end.get_or_insert_with(|| PeerEnd::Ended {
                acknowledged_all: socket.unacknowledged().bytes == 0,
            });
        } else if read.is_err() {
            end.get_or_insert(PeerEnd::Failed);
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SharedSocket<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(|mut socket, errors| {
            errors.poll_write(bytes, |bytes| socket.as_mut().poll_write(context, bytes))
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match bytes {
            [bytes] => self.poll_write(context, bytes),
            _ => self.write(|socket, _| socket.poll_write_vectored(context, bytes)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.with_socket(|socket| socket.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(|socket, _| socket.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with_socket(|socket| socket.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::connection::TcpSocket;

    #[test]
    fn owner_sees_disconnect() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let client = TcpStream::connect(listener.local_addr()?).await?;
            let mut shared = SharedSocket::new(TcpSocket::Left(listener.accept().await?.0), Vec::new());
            let peer = shared.clone();
            assert!(!peer.has_disconnected());
            drop(client);
            assert_eq!(shared.read(&mut [0]).await?, 0);
            assert!(peer.has_disconnected() && !peer.may_have_missed_bytes());
            // Output after the peer's end of stream is not counted.
            shared.write_all(b"late").await?;
            assert!(!peer.may_have_missed_bytes());
            let _socket = shared.into_parts(b"");
            assert!(!peer.has_disconnected(), "unknown once the socket is taken back");
            Ok(())
        })
    }

    #[test]
    fn failed_connection_may_have_missed_acknowledged_bytes() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let client = TcpStream::connect(listener.local_addr()?).await?;
            let mut shared = SharedSocket::new(TcpSocket::Left(listener.accept().await?.0), Vec::new());
            let peer = shared.clone();
            shared.write_all(b"answer").await?;
            client.readable().await?;
            assert!(!peer.may_have_missed_bytes());
            // Because the client has not read the answer, its kernel sends a reset.
            drop(client);
            let error = shared.read(&mut [0]).await.expect_err("a connection reset");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            assert!(peer.may_have_missed_bytes());
            Ok(())
        })
    }

    #[test]
    fn bytes_that_were_already_read_come_first() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let mut client = TcpStream::connect(listener.local_addr()?).await?;
            client.write_all(b"def").await?;
            let socket = TcpSocket::Left(listener.accept().await?.0);
            let mut shared = SharedSocket::new(socket, b"abc".to_vec());
            let mut two = [0; 2];
            shared.read_exact(&mut two).await?;
            assert_eq!(&two, b"ab");
            let (socket, unused) = shared.into_parts(b"b");
            assert_eq!(unused, b"bc");
            let mut shared = SharedSocket::new(socket, unused);
            let mut rest = [0; 5];
            shared.read_exact(&mut rest).await?;
            assert_eq!(&rest, b"bcdef");
            Ok(())
        })
    }
}
