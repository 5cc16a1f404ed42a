//! How far a channel's sweep is, and who takes part in it.
//!
//! Whoever takes part claims a run of subscribers with the channel's lock held, tells them without it, and claims the next run. So nobody is
//! told by two, and it takes one lock for each run, however many take part. When there is nothing left to claim, the sweep is over, though
//! the last runs may still be told: whoever is in them reads all that there is by the time it is told. What is published before makes it go
//! round once more; what is published after begins another sweep.
//!
//! A task leaves only when it finds nothing to claim, and with the lock held. So whoever has begun a sweep and finds a task there needs no
//! other: that one looks again. This bounds the tasks of a channel, however often it is published to.
//!
//! This file is compiled a second time against loom: see `server/tests/loom.rs`.

/// Where a channel's sweep is. The channel's lock guards it.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The index from which the next run is claimed; `None` when nothing is left to claim.
    at: Option<usize>,
    /// Something was published since it began.
    again: bool,
    /// The tasks that take part.
    tasks: usize,
}

impl Sweep {
    /// Something was published. Returns whether there was no sweep under way: then the caller has begun one.
    pub(super) fn published(&mut self) -> bool {
        self.again = self.at.is_some();
        self.at.get_or_insert(0);
        !self.again
    }

    /// Claims a run. `take` goes through the subscribers from an index on until the run is full; it returns from where to go on, or nothing
    /// after the last subscriber. Returns whether there is more to claim.
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

    /// While there is more to claim: as many tasks are to take part. Returns how many the caller has to start.
    pub(super) fn join(&mut self, tasks: usize) -> usize {
        let missing = tasks.saturating_sub(self.tasks);
        self.tasks += missing;
        missing
    }

    /// A task that found nothing more to claim leaves, before anybody else has the lock.
    pub(super) fn leave(&mut self) {
        self.tasks -= 1;
    }
}
