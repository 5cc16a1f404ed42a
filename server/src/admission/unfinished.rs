//! Messages that clients have begun and not finished. One client may keep little, but all of them together much.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use parking_lot::Mutex;
use slab::Slab;

use super::network;

/// All unfinished messages, of at most so many bytes together. When they are more, the address with most gives some: the largest that
/// has grown no more for a second, or if there is none, the one that began first, and so on until there is a little room.
#[derive(Debug)]
pub(crate) struct Unfinished<T> {
    limit: usize,
    messages: Mutex<Messages<T>>,
}

#[derive(Debug)]
struct Messages<T> {
    slab: Slab<Message<T>>,
    /// Of all but those that are going, which give their memory back in a moment.
    bytes: usize,
    /// The same by address.
    shares: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Message<T> {
    bytes: usize,
    begun_at: Timestamp,
    grown_at: Timestamp,
    is_going: bool,
    address: IpAddr,
    sender: T,
}

/// What one client has not finished. It counts until this is dropped.
#[derive(Debug)]
pub(crate) struct UnfinishedMessage<T: Clone> {
    all: Arc<Unfinished<T>>,
    key: usize,
}

/// The part of the limit that is free after some had to go. To find them, all messages are looked at, so this should not be for each.
const ROOM_SHARE: usize = 64;

/// What has not grown for this long is taken for idle.
const IDLE: Duration = Duration::from_secs(1);

impl<T: Clone> Unfinished<T> {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            messages: Mutex::new(Messages { slab: Slab::new(), bytes: 0, shares: HashMap::new() }),
        })
    }

    /// Of all together.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.lock().bytes
    }

    /// Of this sender, empty at first.
    pub(crate) fn begin(
        self: &Arc<Self>,
        sender: T,
        address: IpAddr,
        now: Timestamp,
    ) -> UnfinishedMessage<T> {
        let message = Message {
            bytes: 0,
            begun_at: now,
            grown_at: now,
            is_going: false,
            address: network(address),
            sender,
        };
        let key = self.messages.lock().slab.insert(message);
        UnfinishedMessage { all: Arc::clone(self), key }
    }
}

impl<T: Clone> UnfinishedMessage<T> {
    /// It has so many bytes now. If all together are too much, the senders of those that have to go are returned, perhaps this one's.
    #[must_use]
    pub(crate) fn set(&self, bytes: usize, now: Timestamp) -> Vec<T> {
        let mut messages = self.all.messages.lock();
        let message = &mut messages.slab[self.key];
        if message.is_going {
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
            messages.take_down_to(limit - limit / ROOM_SHARE, now)
        } else {
            Vec::new()
        }
    }
}

impl<T: Clone> Messages<T> {
    /// Takes some of the address with most; when it has no more, of the next.
    fn take_down_to(&mut self, bytes: usize, now: Timestamp) -> Vec<T> {
        let mut senders = Vec::new();
        while self.bytes > bytes
            && let Some((&most, _)) = self.shares.iter().max_by_key(|(_, share)| **share)
        {
            for key in self.in_turn(most, now) {
                let message = &mut self.slab[key];
                message.is_going = true;
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

    /// The messages of an address, in the order in which they have to go.
    fn in_turn(&self, address: IpAddr, now: Timestamp) -> impl Iterator<Item = usize> + use<T> {
        let of_address =
            self.slab.iter().filter(|(_, message)| message.address == address && !message.is_going);
        let mut in_turn: Vec<_> = of_address
            .map(|(key, message)| {
                let is_idle = now.since(message.grown_at) >= IDLE;
                // One that grows by a byte from time to time is older than any that comes as fast as it can.
                (Reverse((is_idle, is_idle.then_some(message.bytes))), message.begun_at, key)
            })
            .collect();
        in_turn.sort_unstable();
        in_turn.into_iter().map(|(_, _, key)| key)
    }

    /// What a message of this address takes has changed.
    fn resize(&mut self, address: IpAddr, before: usize, after: usize) {
        self.bytes = self.bytes - before + after;
        let share = self.shares.entry(address).or_default();
        *share = *share - before + after;
        if *share == 0 {
            self.shares.remove(&address);
        }
    }
}

impl<T: Clone> Drop for UnfinishedMessage<T> {
    fn drop(&mut self) {
        let mut messages = self.all.messages.lock();
        let message = messages.slab.remove(self.key);
        if !message.is_going {
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
    fn the_largest_of_the_idle_goes() {
        let all = Unfinished::new(100);
        let begin = |sender, bytes, ms| {
            let message = all.begin(sender, ADDRESS, at(ms));
            assert_eq!(message.set(bytes, at(ms)), [""; 0]);
            message
        };
        let _small = begin("small", 10, 0);
        let large = begin("large", 30, 0);
        let _growing = begin("growing", 50, 500);
        let newcomer = begin("newcomer", 0, 1400);
        assert_eq!(newcomer.set(10, at(1400)), [""; 0], "as much as there may be");
        assert_eq!(
            newcomer.set(11, at(1400)),
            ["large"],
            "though another one is larger, which grew half a second before"
        );
        assert_eq!(all.bytes(), 71);
        assert_eq!(large.set(90, at(1400)), [""; 0], "it is going already");
        drop(large);
        assert_eq!(all.bytes(), 71);
        assert_eq!(newcomer.set(41, at(1450)), ["small"], "idle for a second");
    }

    #[test]
    fn when_none_is_idle_the_first_goes() {
        let all = Unfinished::new(100);
        let messages = [("a", 0), ("b", 1), ("c", 2)].map(|(sender, ms)| all.begin(sender, ADDRESS, at(ms)));
        assert_eq!(messages[0].set(10, at(3)), [""; 0]);
        assert_eq!(messages[1].set(20, at(3)), [""; 0]);
        assert_eq!(messages[2].set(75, at(10)), ["a"], "though it is small");
        assert_eq!(messages[2].set(101, at(20)), ["b", "c"], "the last is the one that grew");
    }

    #[test]
    fn the_address_with_most_gives() {
        let all = Unfinished::new(100);
        let crowd: Vec<_> = (0..9).map(|_| all.begin("crowd", ADDRESS, at(0))).collect();
        for message in &crowd {
            assert_eq!(message.set(10, at(0)), [""; 0]);
        }
        let other = all.begin("other", IpAddr::from([192, 0, 2, 7]), at(0));
        assert_eq!(other.set(40, at(10)), ["crowd"; 4], "though its own is larger");
    }

    #[test]
    fn what_is_finished_does_not_count() {
        let all = Unfinished::new(100);
        for _ in 0..10 {
            let message = all.begin("a", ADDRESS, at(0));
            assert_eq!(message.set(60, at(0)), [""; 0]);
            assert_eq!(message.set(20, at(0)), [""; 0]);
            assert_eq!(all.bytes(), 20);
        }
        assert_eq!(all.bytes(), 0);
        let messages = all.messages.lock();
        assert!(messages.slab.is_empty() && messages.shares.is_empty());
    }
}
