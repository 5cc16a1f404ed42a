use std::io;
use std::pin::Pin;
use std::task::{self, Poll};

use encke_core::Timestamp;
use tokio::io::ReadBuf;

use super::pending_write::PendingWrite;
use super::socket::Socket;
use crate::client::Attachment;

/// A socket that counts the bytes it has sent, to find out which of them the peer has acknowledged.
pub(crate) struct CountedSocket<S> {
    pub(super) socket: S,
    pub(super) counters: SendCounters,
}

/// Counts of the bytes that the kernel has accepted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendCounters {
    /// Total number of bytes. It wraps around like TCP's sequence numbers, which is safe because far fewer than
    /// 2^32 bytes can be in flight.
    pub(super) sent: u32,
    /// Value of `sent` at the end of the last ping.
    ping_end: u32,
}

impl SendCounters {
    #[expect(clippy::cast_possible_truncation, reason = "the count wraps around")]
    pub(super) fn note_sent(&mut self, taken: usize) {
        self.sent = self.sent.wrapping_add(taken as u32);
    }

    pub(super) fn ping_sent(&mut self) {
        self.ping_end = self.sent;
    }

    /// Whether the peer's kernel has acknowledged the last ping, given this number of unacknowledged bytes.
    pub(super) fn has_ping_arrived(self, unacknowledged: u64) -> bool {
        unacknowledged <= u64::from(self.sent.wrapping_sub(self.ping_end))
    }
}

impl<S: Socket> CountedSocket<S> {
    /// Reads, and records that the peer is alive if any bytes have arrived, even part of a TLS record that
    /// yields no data.
    pub(super) fn poll_read(
        &mut self,
        context: &mut task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
        attachment: &Attachment,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if self.socket.has_received(buffer.filled().len() > before) {
            attachment.note_received();
        }
        read
    }

    /// Writes pending output; see [`PendingWrite::poll_write`].
    pub(super) fn poll_write(
        &mut self,
        context: &mut task::Context<'_>,
        out: &mut PendingWrite,
    ) -> Poll<io::Result<Option<Timestamp>>> {
        let before = out.unwritten();
        let written = out.poll_write(context, &mut self.socket);
        // With TLS, this may include bytes that the kernel could not accept before.
        self.counters.note_sent(self.socket.sent(before - out.unwritten()));
        written
    }
}
