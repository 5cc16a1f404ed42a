//! Limits the number of sockets that have no session yet, since each costs memory before its client has
//! proven anything. A crowd of silent sockets must not keep other clients out.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use encke_base::locks::Mutex;
use encke_core::Timestamp;
use encke_timeouts::Timeouts;

use table::HandshakeTable;

mod table;

/// How long a socket may stay silent before it can be evicted for another. In a connection storm, clients
/// connect simultaneously and are served one after the other.
const GRACE: Duration = Duration::from_secs(1);

/// Handshakes in progress, at most `limit`. At the limit, the next socket waits until one is closed: the
/// oldest of the address with the most handshakes, provided its grace period is over. A socket whose client
/// has sent something that the server has not read yet defers its eviction.
#[derive(Debug)]
pub(crate) struct Handshakes {
    table: Mutex<HandshakeTable>,
    /// Task that [waits for a free slot](Self::wait_for_slot).
    waiting: AtomicWaker,
}

/// A handshake in progress, counted until dropped.
#[derive(Debug)]
pub(crate) struct Handshake {
    handshakes: Arc<Handshakes>,
    key: usize,
    eviction: Arc<Eviction>,
}

/// State that the table shares with the task of a socket.
#[derive(Debug)]
struct Eviction {
    /// When the socket was accepted.
    since: Timestamp,
    is_requested: AtomicBool,
    is_deferred: AtomicBool,
    task: AtomicWaker,
}

/// Whether another handshake can begin.
#[derive(Debug, PartialEq, Eq)]
enum Room {
    Free,
    /// Full until another socket closes or defers its eviction.
    AfterOther,
    /// Full; the next eviction is possible at this time.
    At(Timestamp),
}

impl Handshakes {
    /// `limits_addresses` is whether [`Self::evict_from`] will be called.
    pub(crate) fn new(limit: usize, limits_addresses: bool) -> Arc<Self> {
        Self::with(HandshakeTable::new(limit, GRACE, limits_addresses))
    }

    /// Creates handshakes without a grace period: when the limit is exceeded, the oldest socket is evicted
    /// immediately.
    pub(crate) fn without_grace(limit: usize) -> Arc<Self> {
        Self::with(HandshakeTable::new(limit, Duration::ZERO, false))
    }

    fn with(table: HandshakeTable) -> Arc<Self> {
        Arc::new(Self { table: Mutex::new(table), waiting: AtomicWaker::new() })
    }

    /// Number of handshakes in progress.
    pub(crate) fn open(&self) -> usize {
        self.table.lock().open()
    }

    /// Waits until another handshake can begin, for a socket that was accepted. Only one task may wait at a
    /// time.
    pub(crate) async fn wait_for_slot(&self, timeouts: &Arc<Timeouts>) {
        self.table.lock().note_descriptor();
        let mut sleep = None;
        poll_fn(move |task| {
            loop {
                self.waiting.register(task.waker());
                match self.room(timeouts.clock().now()) {
                    Room::Free => return Poll::Ready(()),
                    Room::AfterOther => return Poll::Pending,
                    Room::At(time) => ready!(Pin::new(sleep.insert(timeouts.sleep_until(time))).poll(task)),
                }
            }
        })
        .await;
    }

    /// Returns whether another handshake can begin. If not, evicts sockets whose grace period is over.
    fn room(&self, now: Timestamp) -> Room {
        let (room, evicted) = self.table.lock().room(now);
        evicted.iter().for_each(|eviction| eviction.task.wake());
        room
    }

    /// Begins a handshake. While the limit is exceeded, evicts other handshakes whose grace period is over.
    pub(crate) fn begin(self: &Arc<Self>, address: IpAddr, now: Timestamp) -> Handshake {
        let eviction = Arc::new(Eviction {
            since: now,
            is_requested: AtomicBool::new(false),
            is_deferred: AtomicBool::new(false),
            task: AtomicWaker::new(),
        });
        let mut table = self.table.lock();
        let key = table.insert(address, &eviction);
        let excess = table.evict_excess(now);
        drop(table);
        excess.iter().for_each(|eviction| eviction.task.wake());
        Handshake { handshakes: Arc::clone(self), key, eviction }
    }

    /// Evicts the oldest socket of an address, unless it was accepted only a moment ago. Returns whether there
    /// was one.
    pub(crate) fn evict_from(&self, address: IpAddr, now: Timestamp) -> bool {
        let evicted = self.table.lock().evict_from(address, now);
        evicted.is_some_and(|eviction| {
            eviction.task.wake();
            true
        })
    }

    /// Lowers the limit to the current number of sockets, however small, and evicts a socket unless an
    /// evicted one is still closing. Called when there is no descriptor for another socket. Returns whether a
    /// socket is closing.
    pub(crate) fn free_descriptor(&self, now: Timestamp) -> bool {
        let (evicted, is_one_closing) = self.table.lock().free_descriptor(now);
        if let Some(eviction) = evicted {
            eviction.task.wake();
        }
        is_one_closing
    }

    /// Whether the limit is reduced for lack of descriptors.
    pub(crate) fn is_short_of_descriptors(&self) -> bool {
        self.table.lock().is_short_of_descriptors()
    }
}

impl Handshake {
    /// Sets the address of the client, once it is known behind a proxy.
    pub(crate) fn set_address(&self, address: IpAddr) {
        self.handshakes.table.lock().set_address(self.key, address);
    }

    /// Ready when the socket must be closed in favour of another. `is_active` is whether its client waits for
    /// the server, which has not read what the client has sent, or not answered it: such a client is not silent,
    /// and the socket is not considered again until [`Self::end_deferral`].
    pub(crate) fn poll_evicted(&self, task: &mut Context<'_>, is_active: impl Fn() -> bool) -> Poll<()> {
        loop {
            self.eviction.task.register(task.waker());
            if !self.eviction.is_requested.load(Ordering::Acquire) {
                return Poll::Pending;
            }
            if !is_active() || !self.handshakes.table.lock().defer(self.key) {
                return Poll::Ready(());
            }
            self.handshakes.waiting.wake();
        }
    }

    /// Makes a socket that deferred its eviction a candidate again, because its client no longer waits for the
    /// server.
    pub(crate) fn end_deferral(&self) {
        if self.eviction.is_deferred.load(Ordering::Relaxed) {
            self.handshakes.table.lock().end_deferral(self.key);
            self.handshakes.waiting.wake();
        }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        // Do not wake the acceptor for nothing: it would look for another connection each time.
        let is_awaited = self.handshakes.table.lock().remove(self.key);
        if is_awaited {
            self.handshakes.waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests;
