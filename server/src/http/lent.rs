use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::Socket;

/// A socket that hyper has. Its owner can ask the kernel about it meanwhile, which hyper cannot: see [`Peer`].
#[derive(Debug)]
pub(crate) struct Lent<S>(Arc<Mutex<Loan<S>>>);

/// The peer of a socket that is lent. The socket is locked for one call of the kernel at a time, and nothing is locked meanwhile.
#[derive(Debug)]
pub(crate) struct Peer<S>(Weak<Mutex<Loan<S>>>);

#[derive(Debug)]
struct Loan<S> {
    /// Until it is taken back.
    socket: Option<S>,
    end: Option<End>,
}

/// How the peer's stream has ended.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Before it had acknowledged all that was sent, or not. hyper then ends ours, which has to be acknowledged, too.
    Ended { had_all: bool },
    /// The kernel may have had what its program has not.
    Failed,
}

const LENT: &str = "it is there as long as it is lent";

impl<S: Unpin> Lent<S> {
    pub(crate) fn new(socket: S) -> (Self, Peer<S>) {
        let loan = Arc::new(Mutex::new(Loan { socket: Some(socket), end: None }));
        let peer = Peer(Arc::downgrade(&loan));
        (Self(loan), peer)
    }

    /// Takes the socket back.
    pub(crate) fn into_inner(self) -> S {
        self.0.lock().socket.take().expect(LENT)
    }

    fn with<T>(&self, act: impl FnOnce(Pin<&mut S>) -> T) -> T {
        act(Pin::new(self.0.lock().socket.as_mut().expect(LENT)))
    }
}

impl<S: Socket> Peer<S> {
    /// Whether it has ended the connection, as far as the kernel knows. Nobody knows that of a socket that was taken back.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.upgrade().is_some_and(|loan| loan.lock().socket.as_ref().is_some_and(Socket::is_over))
    }

    /// Whether it may not have all that was sent to it: by the end of its stream, or else by now.
    pub(crate) fn may_lack(&self) -> bool {
        self.0.upgrade().is_some_and(|loan| {
            let Loan { socket, end } = &*loan.lock();
            match end {
                Some(End::Ended { had_all }) => !had_all,
                Some(End::Failed) => true,
                None => socket.as_ref().is_some_and(|socket| socket.unacknowledged().bytes > 0),
            }
        })
    }
}

impl<S> Clone for Peer<S> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

impl<S: Socket> AsyncRead for Lent<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut loan = self.0.lock();
        let Loan { socket, end } = &mut *loan;
        let socket = socket.as_mut().expect(LENT);
        let before = buf.remaining();
        let read = ready!(Pin::new(&mut *socket).poll_read(context, buf));
        let has_ended = match &read {
            Ok(()) => before > 0 && buf.remaining() == before,
            // Without the farewell of TLS.
            Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
        };
        if has_ended {
            end.get_or_insert_with(|| End::Ended { had_all: socket.unacknowledged().bytes == 0 });
        } else if read.is_err() {
            end.get_or_insert(End::Failed);
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lent<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|socket| socket.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.with(|socket| socket.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.with(|socket| socket.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::transport::TcpSocket;

    #[test]
    fn the_owner_sees_that_the_peer_is_gone() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let client = TcpStream::connect(listener.local_addr()?).await?;
            let (mut lent, peer) = Lent::new(TcpSocket::Plain(listener.accept().await?.0));
            assert!(!peer.is_gone());
            drop(client);
            assert_eq!(lent.read(&mut [0]).await?, 0);
            assert!(peer.is_gone() && !peer.may_lack());
            // What is sent from here on is no matter.
            lent.write_all(b"late").await?;
            assert!(!peer.may_lack());
            let _socket = lent.into_inner();
            assert!(!peer.is_gone(), "nobody asks a socket that was taken back");
            Ok(())
        })
    }

    #[test]
    fn a_peer_whose_connection_fails_may_lack_what_its_machine_has() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let client = TcpStream::connect(listener.local_addr()?).await?;
            let (mut lent, peer) = Lent::new(TcpSocket::Plain(listener.accept().await?.0));
            lent.write_all(b"answer").await?;
            client.readable().await?;
            assert!(!peer.may_lack());
            // With that unread, its kernel sends a reset.
            drop(client);
            let error = lent.read(&mut [0]).await.expect_err("it was reset");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            assert!(peer.may_lack());
            Ok(())
        })
    }
}
