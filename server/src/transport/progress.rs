//! Checks whether a peer reads, judged by what its machine has acknowledged. The kernel is queried only when
//! a deadline is due. The bytes that our kernel takes are no measure, since it takes them in large pieces.

use encke_core::Timestamp;

use super::Socket;
use super::liveness_socket::LivenessSocket;

/// Number of bytes that a peer had acknowledged at some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    pub(super) at: Timestamp,
    /// In bytes, up to a constant.
    acknowledged: u32,
}

/// The peer is slower than `limits.slowest_reader`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooSlow;

impl Checkpoint {
    pub(super) fn new(at: Timestamp, socket: &LivenessSocket<impl Socket>) -> Self {
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
        socket: &LivenessSocket<impl Socket>,
    ) -> Result<(), TooSlow> {
        let settings = socket.settings();
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

/// Returns the number of acknowledged bytes, up to a constant. It wraps around, so only differences are
/// meaningful.
#[expect(clippy::cast_possible_truncation, reason = "the kernel holds far less than 4 GiB")]
fn acknowledged(socket: &LivenessSocket<impl Socket>, unacknowledged: u64) -> u32 {
    socket.sent().wrapping_sub(unacknowledged as u32)
}
