//! The sockets without a session, and the choice of those to evict.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use encke_base::quota::{FairEviction, QuotaOwner, network};
use encke_core::Timestamp;
use slab::Slab;

use super::{Eviction, Room};

/// Minimum grace period: how long a crowd of silent sockets can delay a new one.
const MIN_GRACE: Duration = Duration::from_millis(10);

/// Grace period of a socket that is evicted for another of its own address, as a fraction of the current
/// grace period. That crowd is at most as large as the limit per address, so clients need less time.
const OWN_ADDRESS_DIVISOR: u32 = 10;

/// Maximum number of sockets that are evicted together for sockets that wait. Each eviction takes one turn of
/// the runtime.
const MAX_CLOSING: usize = 16;

/// How often a socket may defer its eviction: for a PROXY header, and for both flights of a TLS client, the
/// second of which brings the request. A client that sends single bytes cannot defer again.
const MAX_DEFERRALS: u8 = 3;

#[derive(Debug)]
pub(super) struct HandshakeTable {
    sockets: Slab<PendingSocket>,
    configured_limit: usize,
    /// Current limit. It is lower than the configured limit after file descriptors ran out.
    limit: usize,
    /// Grace period of a silent socket when no socket was evicted and none had to wait.
    full_grace: Duration,
    /// Number of evicted sockets that have not closed yet.
    closing: usize,
    /// Number of sockets evicted since the table was last less than half full. Each eviction shortens the
    /// grace period, so a crowd of silent sockets cannot keep delaying new ones.
    evicted: usize,
    /// How long accepted sockets waited for a slot since then. The grace period is shorter by this time.
    waited: Duration,
    /// Since when an accepted socket has been waiting for a slot.
    waiting_since: Option<Timestamp>,
    /// Number to assign to the next socket.
    next: u64,
    /// Sockets that may be evicted, by address. Maintained only while there are many sockets, because
    /// otherwise it would slow down every new connection.
    candidates: Option<FairEviction<Arc<Eviction>>>,
    /// Whether the candidates are always maintained, because the number of sockets per address is limited.
    is_always_ranked: bool,
}

#[derive(Debug)]
struct PendingSocket {
    address: IpAddr,
    number: u64,
    /// Number of the socket among the candidates, if it is a candidate.
    counted: Option<u64>,
    deferrals: u8,
    eviction: Arc<Eviction>,
}

impl HandshakeTable {
    pub(super) fn new(limit: usize, grace: Duration, is_always_ranked: bool) -> Self {
        Self {
            sockets: Slab::new(),
            configured_limit: limit,
            limit,
            full_grace: grace,
            closing: 0,
            evicted: 0,
            waited: Duration::ZERO,
            waiting_since: None,
            next: 0,
            candidates: is_always_ranked.then(FairEviction::default),
            is_always_ranked,
        }
    }

    pub(super) fn open(&self) -> usize {
        self.sockets.len()
    }

    pub(super) fn is_short_of_descriptors(&self) -> bool {
        self.limit < self.configured_limit
    }

    /// Raises the limit, if it is reduced: a socket got a descriptor, so there may be one for the next, too.
    pub(super) fn note_descriptor(&mut self) {
        self.limit = self.configured_limit.min(self.limit.saturating_add(2));
    }

    /// Returns whether another handshake can begin, and the sockets that are evicted for it.
    pub(super) fn room(&mut self, now: Timestamp) -> (Room, Vec<Arc<Eviction>>) {
        let mut evicted = Vec::new();
        if self.sockets.len() < self.limit {
            self.end_wait(now);
            return (Room::Free, evicted);
        }
        self.waiting_since.get_or_insert(now);
        // In a small table, evict no more than one socket for one.
        while self.closing < (self.limit / 256).clamp(1, MAX_CLOSING)
            && let Some(eviction) = self.evict_one(now)
        {
            evicted.push(eviction);
        }
        let next = if self.closing == 0 { self.next_victim() } else { None };
        let room = next.map_or(Room::AfterOther, |since| Room::At(self.evictable_at(since, now)));
        (room, evicted)
    }

    /// Evicts sockets whose grace period is over, until the limit is kept.
    pub(super) fn evict_excess(&mut self, now: Timestamp) -> Vec<Arc<Eviction>> {
        let mut excess = Vec::new();
        while self.sockets.len() - self.closing > self.limit
            && let Some(eviction) = self.evict_one(now)
        {
            excess.push(eviction);
        }
        excess
    }

    /// See [`Handshakes::free_descriptor`](super::Handshakes::free_descriptor). Also returns the evicted
    /// socket.
    pub(super) fn free_descriptor(&mut self, now: Timestamp) -> (Option<Arc<Eviction>>, bool) {
        self.waiting_since.get_or_insert(now);
        self.limit = self.limit.min(self.sockets.len()).max(1);
        let is_full = self.sockets.len() - self.closing >= self.limit;
        let eviction = if is_full { self.evict_one(now) } else { None };
        (eviction, self.closing > 0)
    }

    pub(super) fn insert(&mut self, address: IpAddr, eviction: &Arc<Eviction>) -> usize {
        let key = self.sockets.insert(PendingSocket {
            address: network(address),
            number: self.next,
            counted: None,
            deferrals: 0,
            eviction: Arc::clone(eviction),
        });
        self.next += 1;
        self.add_candidate(key);
        key
    }

    /// Removes a socket. Returns whether another one is waiting for a slot.
    pub(super) fn remove(&mut self, key: usize) -> bool {
        self.remove_candidate(key);
        let socket = self.sockets.remove(key);
        let was_evicted = socket.eviction.is_requested.load(Ordering::Relaxed);
        if was_evicted {
            self.closing -= 1;
        }
        // The end of an evicted socket does not show that capacity is free, because another socket was
        // waiting for it.
        if 2 * self.sockets.len() < self.limit && !was_evicted {
            if !self.is_always_ranked {
                self.candidates = None;
            }
            self.evicted = 0;
            self.waited = Duration::ZERO;
            self.limit = self.configured_limit;
        }
        self.waiting_since.is_some()
    }

    pub(super) fn set_address(&mut self, key: usize, address: IpAddr) {
        self.remove_candidate(key);
        self.sockets[key].address = network(address);
        self.add_candidate(key);
    }

    /// Defers the eviction of a socket. Returns whether it may.
    pub(super) fn defer(&mut self, key: usize) -> bool {
        let socket = &mut self.sockets[key];
        if socket.deferrals == MAX_DEFERRALS {
            return false;
        }
        socket.deferrals += 1;
        socket.counted = None;
        socket.eviction.is_deferred.store(true, Ordering::Relaxed);
        socket.eviction.is_requested.store(false, Ordering::Relaxed);
        self.closing -= 1;
        self.evicted = self.evicted.saturating_sub(1);
        true
    }

    /// Makes a socket a candidate again, if its eviction is deferred.
    pub(super) fn end_deferral(&mut self, key: usize) {
        if self.sockets[key].eviction.is_deferred.swap(false, Ordering::Relaxed) {
            self.add_candidate(key);
        }
    }

    /// Evicts the oldest socket of this address, unless it was accepted only a moment ago.
    pub(super) fn evict_from(&mut self, address: IpAddr, now: Timestamp) -> Option<Arc<Eviction>> {
        let owner = QuotaOwner::Address(network(address));
        let since = self.candidates().oldest_of(&owner)?.since;
        if since + self.grace(now) / OWN_ADDRESS_DIVISOR > now {
            return None;
        }
        let eviction = self.candidates().evict_from(&owner)?;
        self.evict(&eviction);
        Some(eviction)
    }

    /// Evicts the oldest remaining socket of the address with the most sockets, if its grace period is over.
    fn evict_one(&mut self, now: Timestamp) -> Option<Arc<Eviction>> {
        if self.next_victim()? + self.grace(now) > now {
            return None;
        }
        let eviction = self.candidates().evict()?;
        self.evict(&eviction);
        Some(eviction)
    }

    fn evict(&mut self, eviction: &Eviction) {
        eviction.is_requested.store(true, Ordering::Release);
        self.closing += 1;
        self.evicted += 1;
    }

    /// Returns when the next socket to evict was accepted.
    fn next_victim(&mut self) -> Option<Timestamp> {
        self.candidates().next_victim().map(|eviction| eviction.since)
    }

    /// Current grace period.
    fn grace(&self, now: Timestamp) -> Duration {
        let left = self.limit.saturating_sub(self.evicted) as f64 / self.limit as f64;
        let waiting = self.waiting_since.map_or(Duration::ZERO, |since| now.since(since));
        let grace = self.full_grace.mul_f64(left).saturating_sub(self.waited + waiting);
        grace.max(self.full_grace.min(MIN_GRACE))
    }

    /// Returns when the grace period of a socket ends that was accepted at `since`. While another one waits,
    /// the period shrinks as time passes, so it ends after half of the remaining time.
    fn evictable_at(&self, since: Timestamp, now: Timestamp) -> Timestamp {
        let left = (since + self.grace(now)).since(now);
        (now + left / 2).max(since + self.full_grace.min(MIN_GRACE))
    }

    fn end_wait(&mut self, now: Timestamp) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.since(since);
        }
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

    /// Adds a socket to the candidates, unless its eviction is requested or deferred.
    fn add_candidate(&mut self, key: usize) {
        let socket = &mut self.sockets[key];
        let eviction = &socket.eviction;
        if let Some(candidates) = &mut self.candidates
            && !eviction.is_requested.load(Ordering::Relaxed)
            && !eviction.is_deferred.load(Ordering::Relaxed)
        {
            socket.counted =
                Some(candidates.insert(&QuotaOwner::Address(socket.address), Arc::clone(eviction)));
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
