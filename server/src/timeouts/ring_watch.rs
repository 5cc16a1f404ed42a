use std::sync::Arc;

use super::Timeouts;
use super::ring_stats::Rings;

/// Makes the wheel thread publish its ring occupancy until this watch is dropped.
#[derive(Debug)]
pub(crate) struct RingWatch {
    timeouts: Arc<Timeouts>,
    /// Number of times that the rings had been written when the watch was created.
    written: u64,
}

impl RingWatch {
    #[must_use]
    pub(crate) fn new(timeouts: Arc<Timeouts>) -> Self {
        let written = timeouts.stats.rings.add_watcher();
        Self { timeouts, written }
    }

    /// Returns the rings once the wheel thread has written them since this watch was created. The thread
    /// writes them a few times a second, without a lock, so the values may mix two successive writes.
    pub(crate) fn rings(&self) -> Option<Rings> {
        self.timeouts.stats.rings.read_after(self.written)
    }
}

impl Drop for RingWatch {
    fn drop(&mut self) {
        self.timeouts.stats.rings.remove_watcher();
    }
}
