use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use encke_core::Timestamp;
use tokio::io::AsyncWrite;

/// Output that the kernel has yet to accept. It owns memory only while output is pending.
#[derive(Debug, Default)]
pub(crate) struct PendingWrite {
    pub(crate) bytes: Vec<u8>,
    written: usize,
    /// Publish time of the sampled message in `bytes`; see [`Attachment::delivered`](crate::client::Attachment).
    published_at: Option<Timestamp>,
}

impl From<Vec<u8>> for PendingWrite {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }
}

impl PendingWrite {
    /// Records that the output contains a sample. Only the latest one is kept.
    #[inline]
    pub(crate) fn add_sample(&mut self, published_at: Option<Timestamp>) {
        if published_at.is_some() {
            self.published_at = published_at;
        }
    }

    pub(crate) fn discard_sample(&mut self) {
        self.published_at = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Number of bytes that have not been written yet.
    pub(super) fn unwritten(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Ready when the kernel has accepted everything. Returns the sample in it.
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<Option<Timestamp>>> {
        let mut socket = Pin::new(socket);
        while self.written < self.bytes.len() {
            match ready!(socket.as_mut().poll_write(context, &self.bytes[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        // An encryption layer may still hold some of the bytes.
        ready!(socket.poll_flush(context))?;
        Poll::Ready(Ok(std::mem::take(self).published_at))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A socket whose kernel accepts three bytes between two calls that block, and whose encryption layer has
    /// to be flushed.
    #[derive(Default)]
    struct SlowSocket {
        accepted: usize,
        flushed: bool,
        blocks: bool,
    }

    impl SlowSocket {
        fn alternate(&mut self) -> Poll<()> {
            self.blocks = !self.blocks;
            if self.blocks { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    impl AsyncWrite for SlowSocket {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let socket = self.get_mut();
            ready!(socket.alternate());
            let accepted = bytes.len().min(3);
            socket.accepted += accepted;
            Poll::Ready(Ok(accepted))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            let socket = self.get_mut();
            ready!(socket.alternate());
            socket.flushed = true;
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            unreachable!("the socket stays open")
        }
    }

    #[test]
    fn sample_is_returned_after_the_last_byte() {
        let at = Some(Timestamp::from_nanos(7));
        let mut socket = SlowSocket::default();
        let mut write = PendingWrite::from(b"0123456789".to_vec());
        write.add_sample(at);
        write.add_sample(None);
        let poll = |write: &mut PendingWrite, socket: &mut SlowSocket| {
            write.poll_write(&mut Context::from_waker(Waker::noop()), socket)
        };
        for accepted in [3, 6, 9, 10] {
            assert!(poll(&mut write, &mut socket).is_pending());
            assert_eq!(socket.accepted, accepted);
        }
        let Poll::Ready(Ok(sample)) = poll(&mut write, &mut socket) else { panic!("it is flushed") };
        assert!(socket.flushed);
        assert_eq!(sample, at);
        assert!(write.is_empty() && write.published_at.is_none(), "a sample is returned once");
    }
}
