//! Limits the total memory of partial messages. Each client may buffer only a little, but all clients
//! together could buffer a lot.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use slab::Slab;

use encke_base::locks::Mutex;
use encke_base::quota::network;

/// All partial messages, limited in total size. When the limit is exceeded, messages of the address with the
/// most bytes are evicted until some headroom is free: first the largest message that has not grown for a
/// second, or if all are growing, the oldest.
#[derive(Debug)]
pub(crate) struct PartialMessages<T> {
    limit: usize,
    messages: Mutex<MessageTable<T>>,
}

#[derive(Debug)]
struct MessageTable<T> {
    slab: Slab<MessageEntry<T>>,
    /// Total size, excluding evicted messages, whose memory is freed shortly.
    bytes: usize,
    bytes_by_address: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct MessageEntry<T> {
    bytes: usize,
    started_at: Timestamp,
    grown_at: Timestamp,
    is_evicted: bool,
    address: IpAddr,
    sender: T,
}

/// A client's partial message, counted until dropped.
#[derive(Debug)]
pub(crate) struct PartialMessage<T: Clone> {
    all: Arc<PartialMessages<T>>,
    key: usize,
}

/// Divisor of the limit: evictions free 1/64 of it. Finding candidates scans all messages, which must not
/// happen for every message.
const HEADROOM_DIVISOR: usize = 64;

/// A message that has not grown for this long counts as idle.
const IDLE_AFTER: Duration = Duration::from_secs(1);

impl<T: Clone> PartialMessages<T> {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            messages: Mutex::new(MessageTable {
                slab: Slab::new(),
                bytes: 0,
                bytes_by_address: HashMap::new(),
            }),
        })
    }

    /// Total size of all partial messages.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.lock().bytes
    }

    /// Starts an empty message from this sender.
    pub(crate) fn begin(self: &Arc<Self>, sender: T, address: IpAddr, now: Timestamp) -> PartialMessage<T> {
        let message = MessageEntry {
            bytes: 0,
            started_at: now,
            grown_at: now,
            is_evicted: false,
            address: network(address),
            sender,
        };
        let key = self.messages.lock().slab.insert(message);
        PartialMessage { all: Arc::clone(self), key }
    }
}

impl<T: Clone> PartialMessage<T> {
    /// Sets the message's size. If the limit is exceeded, returns the senders of the evicted messages,
    /// possibly including this one.
    #[must_use]
    pub(crate) fn resize(&self, bytes: usize, now: Timestamp) -> Vec<T> {
        let mut messages = self.all.messages.lock();
        let message = &mut messages.slab[self.key];
        if message.is_evicted {
            return Vec::new();
        }
        let before = std::mem::replace(&mut message.bytes, bytes);
        if bytes > before {
            message.grown_at = now;
        }
        let address = message.address;
        messages.resize(address, before, bytes);
        let limit = self.all.limit;
        if messages.bytes > limit {
            messages.evict_down_to(limit - limit / HEADROOM_DIVISOR, now)
        } else {
            Vec::new()
        }
    }
}

impl<T: Clone> MessageTable<T> {
    /// Evicts messages of the address with the most bytes, then of the next such address, until the total is
    /// at most `bytes`.
    fn evict_down_to(&mut self, bytes: usize, now: Timestamp) -> Vec<T> {
        let mut senders = Vec::new();
        while self.bytes > bytes
            && let Some((&most, _)) =
                self.bytes_by_address.iter().max_by_key(|(_, address_bytes)| **address_bytes)
        {
            for key in self.eviction_order(most, now) {
                let message = &mut self.slab[key];
                message.is_evicted = true;
                senders.push(message.sender.clone());
                let before = message.bytes;
                self.resize(most, before, 0);
                if self.bytes <= bytes {
                    break;
                }
            }
        }
        senders
    }

    /// Returns the messages of an address in the order of eviction.
    fn eviction_order(&self, address: IpAddr, now: Timestamp) -> impl Iterator<Item = usize> + use<T> {
        let of_address =
            self.slab.iter().filter(|(_, message)| message.address == address && !message.is_evicted);
        let mut ordered: Vec<_> = of_address
            .map(|(key, message)| {
                let is_idle = now.since(message.grown_at) >= IDLE_AFTER;
                // Among growing messages, the oldest comes first: a message that grows by a byte now and then
                // is older than any that arrives at full speed.
                (Reverse((is_idle, is_idle.then_some(message.bytes))), message.started_at, key)
            })
            .collect();
        ordered.sort_unstable();
        ordered.into_iter().map(|(_, _, key)| key)
    }

    /// Accounts for a changed message size.
    fn resize(&mut self, address: IpAddr, before: usize, after: usize) {
        self.bytes = self.bytes - before + after;
        let address_bytes = self.bytes_by_address.entry(address).or_default();
        *address_bytes = *address_bytes - before + after;
        if *address_bytes == 0 {
            self.bytes_by_address.remove(&address);
        }
    }
}

impl<T: Clone> Drop for PartialMessage<T> {
    fn drop(&mut self) {
        let mut messages = self.all.messages.lock();
        let message = messages.slab.remove(self.key);
        if !message.is_evicted {
            messages.resize(message.address, message.bytes, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000 + ms * 1_000_000)
    }

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn the_largest_idle_message_is_evicted() {
        let all = PartialMessages::new(100);
        let begin = |sender, bytes, ms| {
            let message = all.begin(sender, ADDRESS, at(ms));
            assert_eq!(message.resize(bytes, at(ms)), [""; 0]);
            message
        };
        let _small = begin("small", 10, 0);
        let large = begin("large", 30, 0);
        let _growing = begin("growing", 50, 500);
        let newcomer = begin("newcomer", 0, 1400);
        assert_eq!(newcomer.resize(10, at(1400)), [""; 0], "exactly the limit");
        assert_eq!(newcomer.resize(11, at(1400)), ["large"], "the larger one grew half a second ago");
        assert_eq!(all.bytes(), 71);
        assert_eq!(large.resize(90, at(1400)), [""; 0], "it is already evicted");
        drop(large);
        assert_eq!(all.bytes(), 71);
        assert_eq!(newcomer.resize(41, at(1450)), ["small"], "idle for a second");
    }

    #[test]
    fn without_idle_messages_the_oldest_is_evicted() {
        let all = PartialMessages::new(100);
        let messages = [("a", 0), ("b", 1), ("c", 2)].map(|(sender, ms)| all.begin(sender, ADDRESS, at(ms)));
        assert_eq!(messages[0].resize(10, at(3)), [""; 0]);
        assert_eq!(messages[1].resize(20, at(3)), [""; 0]);
        assert_eq!(messages[2].resize(75, at(10)), ["a"], "the oldest, although it is small");
        assert_eq!(messages[2].resize(101, at(20)), ["b", "c"], "the last one is the sender itself");
    }

    #[test]
    fn the_address_with_the_most_bytes_is_evicted_first() {
        let all = PartialMessages::new(100);
        let crowd: Vec<_> = (0..9).map(|_| all.begin("crowd", ADDRESS, at(0))).collect();
        for message in &crowd {
            assert_eq!(message.resize(10, at(0)), [""; 0]);
        }
        let other = all.begin("other", IpAddr::from([192, 0, 2, 7]), at(0));
        assert_eq!(other.resize(40, at(10)), ["crowd"; 4], "although its own message is larger");
    }

    #[test]
    fn finished_messages_do_not_count() {
        let all = PartialMessages::new(100);
        for _ in 0..10 {
            let message = all.begin("a", ADDRESS, at(0));
            assert_eq!(message.resize(60, at(0)), [""; 0]);
            assert_eq!(message.resize(20, at(0)), [""; 0]);
            assert_eq!(all.bytes(), 20);
        }
        assert_eq!(all.bytes(), 0);
        let messages = all.messages.lock();
        assert!(messages.slab.is_empty() && messages.bytes_by_address.is_empty());
    }
}
