use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Counts the items that are queued or in flight, so that a server that shuts down can wait for them.
#[derive(Debug, Default)]
pub struct Pending {
    count: AtomicUsize,
    /// Notified when the count reaches 0.
    emptied: Notify,
    hurried: CancellationToken,
}

impl Pending {
    /// Adds one item, unless there are already `most`. Returns whether it was added.
    pub fn enter(&self, most: usize) -> bool {
        let has_room = self.count.fetch_add(1, Ordering::Relaxed) < most;
        if !has_room {
            self.leave(1);
        }
        has_room
    }

    /// Removes items that were accepted or dropped.
    pub fn leave(&self, count: usize) {
        if self.count.fetch_sub(count, Ordering::Relaxed) == count {
            self.emptied.notify_waiters();
        }
    }

    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Signals that the server is shutting down.
    pub fn hurry(&self) {
        self.hurried.cancel();
    }

    pub fn is_hurried(&self) -> bool {
        self.hurried.is_cancelled()
    }

    /// Waits until the server shuts down.
    pub async fn hurried(&self) {
        self.hurried.cancelled().await;
    }

    /// Waits until no item is left.
    pub async fn flushed(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.len() == 0 {
                return;
            }
            emptied.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn count_is_limited() {
        let pending = Pending::default();
        assert!(pending.enter(2) && pending.enter(2) && !pending.enter(2));
        assert_eq!(pending.len(), 2);
        pending.leave(1);
        assert!(pending.enter(2) && !pending.enter(2));
    }

    #[test]
    fn flushed_resolves_when_the_count_reaches_zero() {
        let pending = Pending::default();
        assert_eq!(pending.flushed().now_or_never(), Some(()));
        assert!(pending.enter(2) && pending.enter(2));
        let mut flushed = Box::pin(pending.flushed());
        for leaving in [None, Some(1)] {
            leaving.into_iter().for_each(|count| pending.leave(count));
            assert_eq!(flushed.as_mut().now_or_never(), None);
        }
        pending.leave(1);
        assert_eq!(flushed.now_or_never(), Some(()));
    }

    #[test]
    fn hurry_is_permanent() {
        let pending = Pending::default();
        assert_eq!((pending.is_hurried(), pending.hurried().now_or_never()), (false, None));
        pending.hurry();
        assert_eq!((pending.is_hurried(), pending.hurried().now_or_never()), (true, Some(())));
    }
}
