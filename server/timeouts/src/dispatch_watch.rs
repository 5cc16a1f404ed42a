use std::sync::atomic::{AtomicU64, Ordering};

use encke_core::Timestamp;

/// Maximum number of batches queued for the workers: 16,384 expiries. The queue takes 80 KiB, plus 8 bytes
/// for each timer of a log or a sleep.
pub const DISPATCH_BATCHES: usize = 256;

/// Maximum number of worker threads.
pub const MAX_WORKERS: usize = 256;

/// Number of batches whose times are kept. It exceeds the number of batches in flight, so that no entry is
/// overwritten while it is in use.
const SENT_CAPACITY: usize = 2 * DISPATCH_BATCHES;

/// Marks the absence of a batch.
const NO_BATCH: u64 = u64::MAX;

/// Tracks the age of expiries that are not yet handled: batches sent by the wheel thread but not taken, and
/// the batch each worker is handling.
#[derive(Debug)]
pub(crate) struct DispatchWatch {
    /// Times at which the last [`SENT_CAPACITY`] batches left the wheel, indexed by batch number. Batches are
    /// taken in the order in which they were sent.
    sent_at: Box<[AtomicU64]>,
    sent: AtomicU64,
    taken: AtomicU64,
    /// For each worker, the time at which the batch it is handling left the wheel.
    handling: Box<[AtomicU64]>,
    /// Number of panics caught by workers.
    pub(crate) worker_panics: AtomicU64,
}

impl Default for DispatchWatch {
    fn default() -> Self {
        let instants = |count| (0..count).map(|_| AtomicU64::new(NO_BATCH)).collect();
        Self {
            sent_at: instants(SENT_CAPACITY),
            sent: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            handling: instants(MAX_WORKERS),
            worker_panics: AtomicU64::new(0),
        }
    }
}

impl DispatchWatch {
    /// Announces that the next batch is about to be sent. Called again if sending has failed.
    pub(crate) fn sending(&self, expired_at: Option<Timestamp>) {
        let number = self.sent.load(Ordering::Relaxed);
        self.slot(number).store(expired_at.map_or(NO_BATCH, Timestamp::as_nanos), Ordering::Relaxed);
    }

    pub(crate) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Release);
    }

    /// Records that a worker has taken a batch.
    pub(crate) fn taken(&self, worker: usize, expired_at: Option<Timestamp>) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.handling[worker].store(expired_at.map_or(NO_BATCH, Timestamp::as_nanos), Ordering::Relaxed);
    }

    pub(crate) fn done(&self, worker: usize) {
        self.handling[worker].store(NO_BATCH, Ordering::Relaxed);
    }

    /// Returns when the oldest unhandled expiry left the wheel.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        let taken = self.taken.load(Ordering::Relaxed);
        let is_queued = taken < self.sent.load(Ordering::Acquire);
        let queued = if is_queued { self.slot(taken).load(Ordering::Relaxed) } else { NO_BATCH };
        let acting = self.handling.iter().map(|since| since.load(Ordering::Relaxed)).min();
        let oldest = queued.min(acting.unwrap_or(NO_BATCH));
        (oldest != NO_BATCH).then(|| Timestamp::from_nanos(oldest))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder is small")]
    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.sent_at[(number % SENT_CAPACITY as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_batch_is_queued_or_being_handled() {
        let watch = DispatchWatch::default();
        let at = |nanos| Some(Timestamp::from_nanos(nanos));
        assert_eq!(watch.oldest(), None);
        for nanos in [1, 2, 3] {
            watch.sending(at(nanos));
            watch.sent();
        }
        watch.sending(at(4));
        assert_eq!(watch.oldest(), at(1));
        watch.taken(0, at(1));
        assert_eq!(watch.oldest(), at(1), "it is being handled");
        watch.taken(1, at(2));
        watch.done(0);
        assert_eq!(watch.oldest(), at(2));
        watch.done(1);
        assert_eq!(watch.oldest(), at(3));
        watch.taken(0, at(3));
        watch.done(0);
        assert_eq!(watch.oldest(), None, "the fourth batch was not sent");
    }
}
