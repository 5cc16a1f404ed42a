use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The places of `limits.max_connections` and `limits.max_connections_per_address`.
#[derive(Debug)]
pub(crate) struct Places {
    taken: AtomicUsize,
    limit: usize,
    /// Kept only if there is a limit for each. Locked for one look-up.
    taken_by: Mutex<HashMap<IpAddr, usize>>,
    limit_each: usize,
}

/// One place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    /// Whose it is, if that is counted.
    by: Option<IpAddr>,
}

impl Places {
    pub(crate) fn new(limit: usize, limit_each: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), limit, taken_by: Mutex::default(), limit_each })
    }

    /// Takes a place, if there is one.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let next = |taken| (taken < self.limit).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        // From here on its drop gives back what was taken.
        let mut place = Place { places: Arc::clone(self), by: None };
        if self.limit_each != usize::MAX {
            let by = network(address);
            let mut taken_by = self.taken_by.lock();
            let taken = taken_by.entry(by).or_default();
            if *taken >= self.limit_each {
                return None;
            }
            *taken += 1;
            place.by = Some(by);
        }
        Some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.fetch_sub(1, Ordering::Relaxed);
        if let Some(by) = self.by
            && let Entry::Occupied(mut taken) = self.places.taken_by.lock().entry(by)
        {
            *taken.get_mut() -= 1;
            if *taken.get() == 0 {
                taken.remove();
            }
        }
    }
}

/// Whom an address stands for. A client has a whole network of 64 bits in IPv6, as a rule.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn there_are_as_many_places_as_the_limit_says() {
        let places = Places::new(2, usize::MAX);
        let someone = address("127.0.0.1");
        let taken = [places.take(someone), places.take(someone)];
        assert!(taken.iter().all(Option::is_some));
        assert!(places.take(someone).is_none());
        drop(taken);
        assert!(places.take(someone).is_some(), "given back");
    }

    #[test]
    fn each_address_has_its_own() {
        let places = Places::new(usize::MAX, 1);
        let taken = places.take(address("10.0.0.1")).expect("the first");
        assert!(places.take(address("10.0.0.1")).is_none());
        assert!(places.take(address("::ffff:10.0.0.1")).is_none(), "the same by another name");
        let _other = places.take(address("10.0.0.2")).expect("another's");
        let _six = places.take(address("2001:db8::1")).expect("another's");
        assert!(places.take(address("2001:db8::2")).is_none(), "the same network");
        drop(taken);
        assert!(places.take(address("10.0.0.1")).is_some(), "given back");
        assert_eq!(places.taken.load(Ordering::Relaxed), 2, "what was refused takes no place");
        assert_eq!(places.taken_by.lock().len(), 2, "nor memory");
    }
}
