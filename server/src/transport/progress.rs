//! Whether a peer reads, judged by what its machine has acknowledged. The kernel is asked only when a deadline is due: that
//! the kernel takes bytes is no measure, since it takes them in large pieces.

use encke_core::Timestamp;

use super::Socket;
use super::metered::Metered;
use crate::client::ClientSettings;

/// What a peer had acknowledged at some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    pub(super) at: Timestamp,
    /// In bytes, but for a constant.
    acknowledged: u64,
}

/// A peer that is slower than `limits.slowest_reader`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooSlow;

impl Checkpoint {
    pub(super) fn new(at: Timestamp, socket: &Metered<impl Socket>) -> Self {
        Self { at, acknowledged: acknowledged(socket, socket.unacknowledged().bytes) }
    }

    /// The next one, once the time is over. The peer must have acknowledged enough by then, or all there is.
    pub(super) fn advance(
        &mut self,
        now: Timestamp,
        socket: &Metered<impl Socket>,
        settings: &ClientSettings,
    ) -> Result<(), TooSlow> {
        if now < self.at + settings.write_timeout {
            return Ok(());
        }
        let unacknowledged = socket.unacknowledged().bytes;
        let acknowledged = acknowledged(socket, unacknowledged);
        let progress = acknowledged.wrapping_sub(self.acknowledged);
        if unacknowledged > 0 && progress < settings.least_progress() {
            return Err(TooSlow);
        }
        *self = Self { at: now, acknowledged };
        Ok(())
    }
}

/// Wraps around when the kernel was given bytes before they were counted: only differences count.
fn acknowledged(socket: &Metered<impl Socket>, unacknowledged: u64) -> u64 {
    socket.sent().wrapping_sub(unacknowledged)
}
