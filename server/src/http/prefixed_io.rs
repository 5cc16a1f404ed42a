use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket that returns bytes that were already read from it before it reads more.
#[derive(Debug)]
pub(crate) struct PrefixedIo<S> {
    socket: S,
    read_already: Vec<u8>,
    /// Number of bytes of `read_already` that were returned.
    passed_on: usize,
}

impl<S> PrefixedIo<S> {
    pub(crate) fn new(socket: S, read_already: Vec<u8>) -> Self {
        Self { socket, read_already, passed_on: 0 }
    }

    /// Returns the socket, and the bytes that are still unused: `next`, which the last read returned, and the
    /// rest of the bytes that were already read.
    pub(crate) fn into_parts(mut self, next: &[u8]) -> (S, Vec<u8>) {
        let rest = self.read_already.split_off(self.passed_on);
        (self.socket, [next, &rest].concat())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefixedIo<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let rest = &this.read_already[this.passed_on..];
        if rest.is_empty() {
            return Pin::new(&mut this.socket).poll_read(context, buf);
        }
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        this.passed_on += count;
        if this.passed_on == this.read_already.len() {
            (this.read_already, this.passed_on) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefixedIo<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn prefix_is_read_first() {
        let mut socket = PrefixedIo::new(tokio::io::join(&b"def"[..], tokio::io::sink()), b"abc".to_vec());
        let mut two = [0; 2];
        socket.read_exact(&mut two).now_or_never().expect("at once").expect("read");
        assert_eq!(&two, b"ab");
        assert_eq!(PrefixedIo::new((), b"xyz".to_vec()).into_parts(b"w").1, b"wxyz");
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).now_or_never().expect("at once").expect("read");
        assert_eq!(rest, b"cdef");
    }
}
