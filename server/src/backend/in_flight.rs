use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::asking::Asker;
use crate::admission::network;
use crate::metrics::BackendMetrics;

/// Questions that are under way: so many of one session, half as many as there may be of one address's newcomers, and so many in all.
#[derive(Debug)]
pub(super) struct InFlight {
    most: usize,
    most_each: usize,
    counts: Mutex<Counts>,
    metrics: Arc<BackendMetrics>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// Of those that have any.
    by_asker: HashMap<AskerKey, usize>,
}

/// Who shares one count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AskerKey {
    Session(u128),
    Network(IpAddr),
}

/// The place of one question.
#[derive(Debug)]
pub(super) struct Place {
    asker: AskerKey,
    in_flight: Arc<InFlight>,
}

impl InFlight {
    pub(super) fn new(most: usize, most_each: usize, metrics: Arc<BackendMetrics>) -> Self {
        Self { most, most_each, counts: Mutex::default(), metrics }
    }

    /// A place for one more, if there is one.
    pub(super) fn take(self: &Arc<Self>, asker: Asker) -> Option<Place> {
        let (asker, most_each) = match asker {
            Asker::Session(number) => (AskerKey::Session(number), self.most_each),
            // Newcomers from one address leave room for everyone else.
            Asker::Address(address) => (AskerKey::Network(network(address)), self.most.div_ceil(2)),
        };
        let Counts { all, by_asker } = &mut *self.counts.lock();
        let count = by_asker.get(&asker).copied().unwrap_or_default();
        if *all >= self.most || count >= most_each {
            return None;
        }
        by_asker.insert(asker, count + 1);
        *all += 1;
        self.metrics.in_flight(*all);
        Some(Place { asker, in_flight: Arc::clone(self) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Counts { all, by_asker } = &mut *self.in_flight.counts.lock();
        *all -= 1;
        self.in_flight.metrics.in_flight(*all);
        if let Some(count) = by_asker.get_mut(&self.asker) {
            *count -= 1;
            if *count == 0 {
                by_asker.remove(&self.asker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_for_each_and_in_all() {
        let in_flight = Arc::new(InFlight::new(4, 2, Arc::default()));
        let take = |asker| in_flight.take(asker);
        let session = Asker::Session;
        let address = |last| Asker::Address(IpAddr::from([192, 0, 2, last]));
        let first = take(session(1)).expect("room");
        let second = take(session(1)).expect("room");
        assert!(take(session(1)).is_none(), "it has two");
        let third = take(address(1)).expect("room");
        let fourth = take(address(2)).expect("room");
        assert!(take(session(2)).is_none(), "there are four");
        drop((second, fourth));
        let fifth = take(address(1)).expect("room");
        assert!(take(address(1)).is_none(), "it has half of all");
        drop((first, third, fifth));
        let counts = in_flight.counts.lock();
        assert_eq!((counts.all, counts.by_asker.len()), (0, 0));
    }
}
