//! How the server's end is announced and waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};

use crate::transport::Place;

/// A flag that is set once and can be waited for.
#[derive(Debug)]
pub(crate) struct Flag(watch::Sender<bool>);

impl Flag {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn set(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once the flag is set.
    pub(crate) async fn wait(&self) {
        // It cannot fail while `self`, the sender, is there.
        let _ = self.0.subscribe().wait_for(|set| *set).await;
    }
}

/// Counts the open connections of the public listener.
#[derive(Debug, Default)]
pub(crate) struct Connections(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    open: AtomicUsize,
    none_left: Notify,
}

/// One open connection, until it and its clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct OpenConnection(#[expect(dead_code, reason = "held for its drop")] Arc<Entry>);

#[derive(Debug)]
struct Entry {
    count: Arc<Count>,
    /// Its socket among those of one address, where that is limited.
    #[expect(dead_code, reason = "held for its drop")]
    socket: Option<Box<Place>>,
}

impl Connections {
    pub(crate) fn enter(&self, socket: Option<Place>) -> OpenConnection {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::new(Entry { count: Arc::clone(&self.0), socket: socket.map(Box::new) }))
    }

    pub(crate) fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Returns once none is open.
    pub(crate) async fn all_closed(&self) {
        loop {
            let notified = self.0.none_left.notified();
            if self.open() == 0 {
                return;
            }
            notified.await;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.count.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.count.none_left.notify_waiters();
        }
    }
}
