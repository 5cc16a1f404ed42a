use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How much waits to be sent, or is on its way; and whether the server is going away and waits for it.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    count: AtomicUsize,
    /// There is none any more.
    emptied: Notify,
    hurried: CancellationToken,
}

impl Pending {
    /// One more, unless there are so many. Returns whether there was room.
    pub(crate) fn enter(&self, most: usize) -> bool {
        let has_room = self.count.fetch_add(1, Ordering::Relaxed) < most;
        if !has_room {
            self.leave(1);
        }
        has_room
    }

    /// So many were accepted, or never will be.
    pub(crate) fn leave(&self, count: usize) {
        if self.count.fetch_sub(count, Ordering::Relaxed) == count {
            self.emptied.notify_waiters();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The server is going away.
    pub(crate) fn hurry(&self) {
        self.hurried.cancel();
    }

    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried.is_cancelled()
    }

    /// Waits until the server is going away.
    pub(crate) async fn hurried(&self) {
        self.hurried.cancelled().await;
    }

    /// Waits until nothing is there.
    pub(crate) async fn flushed(&self) {
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
    fn so_many_have_room_and_no_more() {
        let pending = Pending::default();
        assert!(pending.enter(2) && pending.enter(2) && !pending.enter(2));
        assert_eq!(pending.len(), 2);
        pending.leave(1);
        assert!(pending.enter(2) && !pending.enter(2));
    }

    #[test]
    fn it_is_flushed_when_all_have_left() {
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
    fn a_server_that_goes_away_is_told_once_and_for_all() {
        let pending = Pending::default();
        assert_eq!((pending.is_hurried(), pending.hurried().now_or_never()), (false, None));
        pending.hurry();
        assert_eq!((pending.is_hurried(), pending.hurried().now_or_never()), (true, Some(())));
    }
}
