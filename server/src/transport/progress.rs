//! Whether a peer reads, judged by what its machine has acknowledged. The kernel is asked only when a deadline is due: that
//! the kernel takes bytes is no measure, since it takes them in large pieces.

use encke_core::Timestamp;

use super::Socket;
use super::metered::Metered;

/// What a peer had acknowledged at some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    pub(super) at: Timestamp,
    /// In bytes, but for a constant.
    acknowledged: u32,
}

/// A peer that is slower than `limits.slowest_reader`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooSlow;

impl Checkpoint {
    pub(super) fn new(at: Timestamp, socket: &Metered<impl Socket>) -> Self {
        Self { at, acknowledged: acknowledged(socket, socket.unacknowledged().bytes) }
    }

    /// The next one, once the time is over. The peer must have acknowledged enough by then, or all there is.
    pub(super) fn advance(&mut self, now: Timestamp, socket: &Metered<impl Socket>) -> Result<(), TooSlow> {
        let settings = socket.settings();
        if now < self.at + settings.write_timeout {
            return Ok(());
        }
        let unacknowledged = socket.unacknowledged().bytes;
        let acknowledged = acknowledged(socket, unacknowledged);
        let progress = acknowledged.wrapping_sub(self.acknowledged);
        if unacknowledged > 0 && u64::from(progress) < settings.least_progress() {
            return Err(TooSlow);
        }
        *self = Self { at: now, acknowledged };
        Ok(())
    }
}

/// It wraps around: only differences count.
#[expect(clippy::cast_possible_truncation, reason = "the kernel holds far less than 4 GiB")]
fn acknowledged(socket: &Metered<impl Socket>, unacknowledged: u64) -> u32 {
    socket.sent().wrapping_sub(unacknowledged as u32)
}
