//! Traffic on all connections of a run. The connections count it themselves. Threads may share the counts.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::transport::websocket::ConnectionEnd;

/// A count that only grows. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Maximum number of names in [`Counts`].
const MAX_NAMES: usize = 64;
const OTHER: &str = "other";

/// Counts by name. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<BTreeMap<String, u64>>>);

impl Counts {
    /// Returns the new count of this name. The names may come from the server, so their number is limited:
    /// additional names are counted together.
    pub fn increment(&self, name: &str) -> u64 {
        self.add(name, 1)
    }

    /// Like [`Self::increment`], by more than one.
    pub fn add(&self, name: &str, more: u64) -> u64 {
        let mut counts = self.0.lock();
        let name = if counts.len() < MAX_NAMES || counts.contains_key(name) { name } else { OTHER };
        let count = counts.entry(name.to_owned()).or_default();
        *count += more;
        *count
    }

    pub fn get(&self) -> BTreeMap<String, u64> {
        self.0.lock().clone()
    }
}

/// Shared traffic of a run.
pub type Traffic = Arc<TrafficCounts>;

#[derive(Debug, Default)]
pub struct TrafficCounts {
    open: AtomicU64,
    peak: AtomicU64,
    /// Connections that received their hello, or are not expected to receive one.
    pub connects: Counter,
    pub messages: Counter,
    pub pings: Counter,
    pub closes: Counter,
    /// How many connections the server closed, by code, including HTTP statuses.
    pub close_codes: Counts,
    /// How often the server violated the protocol, by kind.
    pub frame_faults: Counts,
}

/// Guard that counts a connection as open until dropped.
#[derive(Debug)]
pub(crate) struct ConnectionGuard(Traffic);

impl Deref for ConnectionGuard {
    type Target = TrafficCounts;

    fn deref(&self) -> &TrafficCounts {
        &self.0
    }
}

impl TrafficCounts {
    /// Counts a new connection, which has not received its hello yet.
    pub(crate) fn opened(self: &Arc<Self>) -> ConnectionGuard {
        let before = self.open.fetch_add(1, Relaxed);
        self.peak.fetch_max(before + 1, Relaxed);
        ConnectionGuard(self.clone())
    }

    pub fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    /// Returns the highest number of connections that were open at the same time.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// Adds the highest number of another process.
    pub fn add_to_peak(&self, connections: u64) {
        self.peak.fetch_add(connections, Relaxed);
    }

    pub(crate) fn record_end(&self, end: ConnectionEnd) {
        self.closes.increment();
        self.close_codes.increment(&end.code().to_string());
        if let ConnectionEnd::Fault(fault) = end {
            self.frame_faults.increment(fault.name());
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_limited() {
        let counts = Counts::default();
        for code in 0..1000 {
            counts.increment(&code.to_string());
        }
        let counts = counts.get();
        assert_eq!((counts.len(), counts[OTHER], counts.values().sum::<u64>()), (MAX_NAMES + 1, 936, 1000));
    }
}
