use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

/// Output that the kernel has yet to accept. It owns memory only while output is pending.
#[derive(Debug, Default)]
pub(crate) struct PendingWrite {
    pub(crate) bytes: Vec<u8>,
    written: usize,
}

impl From<Vec<u8>> for PendingWrite {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }
}

impl PendingWrite {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Ready when the kernel has accepted everything.
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        let mut socket = Pin::new(socket);
        while self.written < self.bytes.len() {
            match ready!(socket.as_mut().poll_write(context, &self.bytes[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        // An encryption layer may still hold some of the bytes.
        ready!(socket.poll_flush(context))?;
        *self = Self::default();
        Poll::Ready(Ok(()))
    }
}
