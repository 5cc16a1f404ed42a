//! Detects peers that do not read, based on what their kernels have acknowledged. The kernel is queried only
//! when a deadline is due. The number of bytes that our kernel accepts says little, since it accepts them in
//! large pieces.

use encke_core::Timestamp;

use super::Socket;
use super::counted_socket::CountedSocket;
use crate::client::ClientSettings;

/// How much a peer had acknowledged at a point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    pub(super) at: Timestamp,
    /// Number of acknowledged bytes, relative to an arbitrary starting point.
    acknowledged: u32,
}

/// The peer is slower than `limits.slowest_reader`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooSlow;

impl Checkpoint {
    pub(super) fn new(at: Timestamp, socket: &CountedSocket<impl Socket>) -> Self {
        Self { at, acknowledged: acknowledged(socket, socket.unacknowledged().bytes) }
    }

    /// Moves to the next checkpoint once `write_timeout` has elapsed.
    ///
    /// # Errors
    /// [`TooSlow`] if the peer has neither acknowledged enough since the last checkpoint nor everything that
    /// was sent.
    pub(super) fn advance(
        &mut self,
        now: Timestamp,
        socket: &CountedSocket<impl Socket>,
        settings: &ClientSettings,
    ) -> Result<(), TooSlow> {
        if now < self.at + settings.write_timeout {
            return Ok(());
        }
        let unacknowledged = socket.unacknowledged().bytes;
        let acknowledged = acknowledged(socket, unacknowledged);
        let progress = acknowledged.wrapping_sub(self.acknowledged);
        if unacknowledged > 0 && u64::from(progress) < settings.min_progress() {
            return Err(TooSlow);
        }
        *self = Self { at: now, acknowledged };
        Ok(())
    }
}

/// Returns the number of acknowledged bytes, relative to an arbitrary starting point. It wraps around, so
/// only differences are meaningful.
#[expect(clippy::cast_possible_truncation, reason = "the kernel holds far less than 4 GiB")]
fn acknowledged(socket: &CountedSocket<impl Socket>, unacknowledged: u64) -> u32 {
    socket.sent().wrapping_sub(unacknowledged as u32)
}
