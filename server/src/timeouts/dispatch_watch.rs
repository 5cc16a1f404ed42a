use std::sync::atomic::{AtomicU64, Ordering};

use encke_core::Timestamp;

use super::DISPATCH_BATCHES;

/// The most workers there can be.
pub(crate) const MOST_WORKERS: usize = 256;

/// More than there are batches on their way, so that no instant is overwritten while it counts.
const SENT: usize = 2 * DISPATCH_BATCHES;

/// No batch.
const NONE: u64 = u64::MAX;

/// Since when do expiries wait? What the wheel thread has sent and workers have not taken up, and what each worker is at.
#[derive(Debug)]
pub(crate) struct DispatchWatch {
    /// When the batches left the wheel, the last [`SENT`] of them, by number. Batches are taken in the order they were sent.
    sent_at: Box<[AtomicU64]>,
    sent: AtomicU64,
    taken: AtomicU64,
    /// When the batch that each worker acts on left the wheel.
    acting: Box<[AtomicU64]>,
    /// Panics that workers have survived.
    pub(crate) worker_panics: AtomicU64,
}

impl Default for DispatchWatch {
    fn default() -> Self {
        let instants = |count| (0..count).map(|_| AtomicU64::new(NONE)).collect();
        Self {
            sent_at: instants(SENT),
            sent: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            acting: instants(MOST_WORKERS),
            worker_panics: AtomicU64::new(0),
        }
    }
}

impl DispatchWatch {
    /// The next batch is about to be sent. One that cannot be sent is announced again.
    pub(super) fn sending(&self, expired_at: Option<Timestamp>) {
        let number = self.sent.load(Ordering::Relaxed);
        self.slot(number).store(expired_at.map_or(NONE, Timestamp::as_nanos), Ordering::Relaxed);
    }

    pub(super) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Release);
    }

    /// A worker has taken a batch up.
    pub(super) fn taken(&self, worker: usize, expired_at: Option<Timestamp>) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.acting[worker].store(expired_at.map_or(NONE, Timestamp::as_nanos), Ordering::Relaxed);
    }

    pub(super) fn done(&self, worker: usize) {
        self.acting[worker].store(NONE, Ordering::Relaxed);
    }

    /// When the oldest of the expiries that are not acted on yet left the wheel.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        let taken = self.taken.load(Ordering::Relaxed);
        let is_waiting = taken < self.sent.load(Ordering::Acquire);
        let waiting = if is_waiting { self.slot(taken).load(Ordering::Relaxed) } else { NONE };
        let acting = self.acting.iter().map(|since| since.load(Ordering::Relaxed)).min();
        let oldest = waiting.min(acting.unwrap_or(NONE));
        (oldest != NONE).then(|| Timestamp::from_nanos(oldest))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder is small")]
    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.sent_at[(number % SENT as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_waits_or_is_being_acted_on() {
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
        assert_eq!(watch.oldest(), at(1), "it is being acted on");
        watch.taken(1, at(2));
        watch.done(0);
        assert_eq!(watch.oldest(), at(2));
        watch.done(1);
        assert_eq!(watch.oldest(), at(3));
        watch.taken(0, at(3));
        watch.done(0);
        assert_eq!(watch.oldest(), None, "the fourth was not sent");
    }
}
