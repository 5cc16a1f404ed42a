//! Progress of a channel's sweep, and its participants.
//!
//! A participant claims a run of subscribers with the channel's lock held, notifies them without it, and
//! claims the next run. No subscriber is notified twice, and each run takes the lock once, regardless of the
//! number of participants. When nothing is left to claim, the sweep is over, although subscribers in the last
//! runs may still be waiting for their notification; they read all messages present by then. A publish before
//! the end starts another pass; a publish after it starts another sweep.
//!
//! A task leaves only when it finds nothing to claim, and with the lock held. A publisher that starts a sweep
//! while tasks are active therefore needs no additional task: one of them will look for work again. This
//! bounds the number of tasks per channel, regardless of the publish rate.
//!
//! This file is compiled a second time against loom: see `server/broker/tests/loom.rs`.

/// Progress of a channel's sweep, guarded by the channel's lock.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Index from which the next run is claimed; `None` if nothing is left to claim.
    at: Option<usize>,
    /// Whether another message was published during the current pass.
    again: bool,
    /// Number of active tasks.
    tasks: usize,
}

impl Sweep {
    /// Records a publish. Returns true if no sweep was in progress: the caller has then started one.
    #[inline]
    pub(super) fn published(&mut self) -> bool {
        self.again = self.at.is_some();
        self.at.get_or_insert(0);
        !self.again
    }

    /// Claims a run. `take` visits the subscribers from an index on until the run is full, and returns the
    /// index to continue from, or `None` after the last subscriber. Returns whether there is more to claim.
    pub(super) fn claim(&mut self, mut take: impl FnMut(usize) -> Option<usize>) -> bool {
        let Some(mut at) = self.at else { return false };
        self.at = loop {
            match take(at) {
                Some(next) => break Some(next),
                None if std::mem::take(&mut self.again) => at = 0,
                None => break None,
            }
        };
        self.at.is_some()
    }

    /// Raises the number of active tasks to `tasks`, while there is more to claim. Returns how many the
    /// caller has to start.
    #[inline]
    pub(super) fn join(&mut self, tasks: usize) -> usize {
        let missing = tasks.saturating_sub(self.tasks);
        self.tasks += missing;
        missing
    }

    /// Removes a task that found nothing to claim. Must be called before the lock is released.
    #[inline]
    pub(super) fn leave(&mut self) {
        self.tasks -= 1;
    }
}
