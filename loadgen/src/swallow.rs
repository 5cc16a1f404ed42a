//! A stream that can stop writing without its user noticing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Passes everything through until [`Swallow::start`]; from then on it reads, but drops what is written.
///
/// tungstenite answers pings by itself, as part of reading. Below it is the one place where an answer can be held
/// back while reading goes on.
#[derive(Debug)]
pub(crate) struct Swallow<S> {
    stream: S,
    swallowing: bool,
}

impl<S> Swallow<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, swallowing: false }
    }

    pub(crate) fn start(&mut self) {
        self.swallowing = true;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Swallow<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Swallow<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.swallowing {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn swallows_writes_and_goes_on_reading() -> io::Result<()> {
        let (near, mut far) = duplex(64);
        let mut near = Swallow::new(near);
        near.write_all(b"heard").await?;
        near.start();
        near.write_all(b"lost").await?;
        far.write_all(b"still").await?;
        let mut read = [0; 5];
        near.read_exact(&mut read).await?;
        assert_eq!(&read, b"still");
        drop(near);
        let mut heard = Vec::new();
        far.read_to_end(&mut heard).await?;
        assert_eq!(heard, b"heard");
        Ok(())
    }
}
