//! Limits the number of sockets that have no session yet, since each costs memory before its client has
//! proven anything. A crowd of silent sockets must not keep other clients out.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use encke_core::Timestamp;
use encke_timeouts::Timeouts;
use futures_util::future::select;
use slab::Slab;

use encke_base::locks::Mutex;
use encke_base::quota::{FairEviction, QuotaOwner, network};

/// How long a socket may stay silent before it can be evicted for another. In a connection storm, clients
/// connect simultaneously and are served one after the other.
const GRACE: Duration = Duration::from_secs(1);

/// Minimum grace period: how long a crowd of silent sockets can delay a new one.
const MIN_GRACE: Duration = Duration::from_millis(10);

/// Handshakes in progress, at most `limit`. When another one exceeds the limit, the oldest handshake of the
/// address with the most handshakes is evicted, provided its grace period is over. Until then, a new socket
/// waits, but a socket that was already accepted may exceed the limit.
#[derive(Debug)]
pub(crate) struct Handshakes {
    limit: usize,
    /// Grace period of a silent socket when no sockets have been evicted.
    grace: Duration,
    open: Mutex<HandshakeTable>,
    /// Task that [waits for a free slot](Self::wait_for_slot).
    waiting: AtomicWaker,
}

#[derive(Debug)]
struct HandshakeTable {
    sockets: Slab<PendingSocket>,
    /// Current limit. It is lower than the configured limit after file descriptors ran out.
    limit: usize,
    /// Number of evicted sockets that have not closed yet.
    closing: usize,
    /// Number of sockets evicted since the table was last less than half full. Each eviction shortens the
    /// grace period, so a crowd of silent sockets gains no time.
    evicted: usize,
    /// Number to assign to the next socket.
    next: u64,
    /// Sockets that may be evicted, by address. Maintained only while there are many sockets, because
    /// otherwise it would slow down every new connection.
    candidates: Option<FairEviction<Arc<Eviction>>>,
}

#[derive(Debug)]
struct PendingSocket {
    address: IpAddr,
    number: u64,
    /// Number of the socket among the candidates, if it is a candidate.
    counted: Option<u64>,
    eviction: Arc<Eviction>,
}

/// A handshake in progress, counted until dropped.
#[derive(Debug)]
pub(crate) struct Handshake {
    handshakes: Arc<Handshakes>,
    key: usize,
    eviction: Arc<Eviction>,
}

#[derive(Debug)]
struct Eviction {
    /// When the socket was accepted.
    since: Timestamp,
    is_requested: AtomicBool,
    task: AtomicWaker,
}

impl Handshakes {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Self::with_grace(limit, GRACE)
    }

    /// Creates handshakes without a grace period: when the limit is exceeded, the oldest socket is evicted
    /// immediately.
    pub(crate) fn without_grace(limit: usize) -> Arc<Self> {
        Self::with_grace(limit, Duration::ZERO)
    }

    fn with_grace(limit: usize, grace: Duration) -> Arc<Self> {
        let open =
            HandshakeTable { sockets: Slab::new(), limit, closing: 0, evicted: 0, next: 0, candidates: None };
        Arc::new(Self { limit, grace, open: Mutex::new(open), waiting: AtomicWaker::new() })
    }

    /// Number of handshakes in progress.
    pub(crate) fn open(&self) -> usize {
        self.open.lock().sockets.len()
    }

    /// Waits until another handshake can begin without evicting a socket within its grace period. Only one
    /// task may wait at a time.
    pub(crate) async fn wait_for_slot(&self, timeouts: &Arc<Timeouts>) {
        while let Some(until) = self.full_until(timeouts.clock().now()) {
            let left = pin!(poll_fn(|task| {
                self.waiting.register(task.waker());
                if self.open.lock().has_free_slot() { Poll::Ready(()) } else { Poll::Pending }
            }));
            select(left, pin!(timeouts.sleep_until(until))).await;
        }
    }

    /// Returns when the next socket can be evicted, if the limit is reached and none can be evicted now.
    fn full_until(&self, now: Timestamp) -> Option<Timestamp> {
        let mut open = self.open.lock();
        if open.has_free_slot() {
            return None;
        }
        // If all sockets are already being evicted, they will close soon.
        let until =
            open.candidates().next_victim().map_or(now, |eviction| eviction.since) + self.grace(&open);
        (until > now).then_some(until)
    }

    /// Begins a handshake. While the limit is exceeded, evicts other handshakes whose grace period is over.
    pub(crate) fn begin(self: &Arc<Self>, address: IpAddr, now: Timestamp) -> Handshake {
        let eviction =
            Arc::new(Eviction { since: now, is_requested: AtomicBool::new(false), task: AtomicWaker::new() });
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        // This socket got a descriptor, so there may be one for the next socket, too.
        open.limit = self.limit.min(open.limit.saturating_add(2));
        let address = network(address);
        let socket = PendingSocket { address, number, counted: None, eviction: Arc::clone(&eviction) };
        let key = open.sockets.insert(socket);
        open.add_candidate(key);
        let mut excess = Vec::new();
        while open.sockets.len() - open.closing > open.limit {
            let grace = self.grace(&open);
            let Some(eviction) = open.evict_one(now, grace) else { break };
            excess.push(eviction);
        }
        drop(open);
        excess.iter().for_each(|eviction| eviction.task.wake());
        Handshake { handshakes: Arc::clone(self), key, eviction }
    }

    /// Lowers the limit to the current number of sockets, however small, and evicts a socket unless an
    /// evicted one is still closing. Called when there is no descriptor for another socket. Returns whether a
    /// socket is closing.
    pub(crate) fn free_descriptor(&self, now: Timestamp) -> bool {
        let mut open = self.open.lock();
        open.limit = open.limit.min(open.sockets.len()).max(1);
        let grace = self.grace(&open);
        let is_full = open.sockets.len() - open.closing >= open.limit;
        let eviction = if is_full { open.evict_one(now, grace) } else { None };
        let is_one_closing = open.closing > 0;
        drop(open);
        if let Some(eviction) = eviction {
            eviction.task.wake();
        }
        is_one_closing
    }

    /// Whether the limit is reduced for lack of descriptors.
    pub(crate) fn is_short_of_descriptors(&self) -> bool {
        self.open.lock().limit < self.limit
    }

    /// Current grace period.
    fn grace(&self, open: &HandshakeTable) -> Duration {
        let left = open.limit.saturating_sub(open.evicted) as f64 / open.limit as f64;
        self.grace.mul_f64(left).max(self.grace.min(MIN_GRACE))
    }
}

impl HandshakeTable {
    fn has_free_slot(&self) -> bool {
        self.sockets.len() < self.limit
    }

    /// Evicts the oldest remaining socket of the address with the most sockets, if its grace period is over.
    fn evict_one(&mut self, now: Timestamp, grace: Duration) -> Option<Arc<Eviction>> {
        if self.candidates().next_victim()?.since + grace > now {
            return None;
        }
        let eviction = self.candidates().evict()?;
        eviction.is_requested.store(true, Ordering::Release);
        self.closing += 1;
        self.evicted += 1;
        Some(eviction)
    }

    fn candidates(&mut self) -> &mut FairEviction<Arc<Eviction>> {
        if self.candidates.is_none() {
            self.candidates = Some(FairEviction::default());
            let mut keys: Vec<_> = self.sockets.iter().map(|(key, socket)| (socket.number, key)).collect();
            keys.sort_unstable();
            keys.into_iter().for_each(|(_, key)| self.add_candidate(key));
        }
        self.candidates.as_mut().expect("just created")
    }

    fn add_candidate(&mut self, key: usize) {
        let socket = &mut self.sockets[key];
        if let Some(candidates) = &mut self.candidates
            && !socket.eviction.is_requested.load(Ordering::Relaxed)
        {
            socket.counted =
                Some(candidates.insert(&QuotaOwner::Address(socket.address), Arc::clone(&socket.eviction)));
        }
    }

    fn remove_candidate(&mut self, key: usize) {
        let socket = &mut self.sockets[key];
        if let (Some(candidates), Some(number)) = (&mut self.candidates, socket.counted.take())
            && !socket.eviction.is_requested.load(Ordering::Relaxed)
        {
            candidates.remove(&QuotaOwner::Address(socket.address), number);
        }
    }
}

impl Handshake {
    /// Sets the address of the client, once it is known behind a proxy.
    pub(crate) fn set_address(&self, address: IpAddr) {
        let mut open = self.handshakes.open.lock();
        open.remove_candidate(self.key);
        open.sockets[self.key].address = network(address);
        open.add_candidate(self.key);
    }

    /// Ready when the socket must be closed in favour of another.
    pub(crate) fn poll_evicted(&self, task: &mut Context<'_>) -> Poll<()> {
        self.eviction.task.register(task.waker());
        if self.eviction.is_requested.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut open = self.handshakes.open.lock();
        open.remove_candidate(self.key);
        open.sockets.remove(self.key);
        let was_evicted = self.eviction.is_requested.load(Ordering::Relaxed);
        if was_evicted {
            open.closing -= 1;
        }
        let was_full = open.sockets.len() + 1 == open.limit;
        // The end of an evicted socket does not show that capacity is free, because another socket was
        // waiting for it.
        if 2 * open.sockets.len() < open.limit && !was_evicted {
            open.candidates = None;
            open.evicted = 0;
            open.limit = self.handshakes.limit;
        }
        drop(open);
        if was_full {
            self.handshakes.waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests;
