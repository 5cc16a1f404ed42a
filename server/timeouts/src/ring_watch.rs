use std::sync::Arc;

use crate::ring_stats::Rings;
use crate::timeouts::Timeouts;

/// Makes the wheel thread publish its ring occupancy until this watch is dropped.
#[derive(Debug)]
pub struct RingWatch {
    timeouts: Arc<Timeouts>,
    /// Number of times that the rings had been written when the watch was created.
    written: u64,
}

impl RingWatch {
    /// Starts a watch.
    #[must_use]
    pub fn new(timeouts: Arc<Timeouts>) -> Self {
        let written = timeouts.stats.rings.add_watcher();
        Self { timeouts, written }
    }

    /// Returns the rings once the wheel thread has written them since this watch was created. The thread
    /// writes them a few times a second, without a lock, so the values may mix two successive writes.
    pub fn rings(&self) -> Option<Rings> {
        self.timeouts.stats.rings.read_after(self.written)
    }
}

impl Drop for RingWatch {
    fn drop(&mut self) {
        self.timeouts.stats.rings.remove_watcher();
    }
}
