use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use encke_base::locks::Mutex;
use encke_base::quota::network;

/// Permits for connections or sockets: at most `limit` in total, and at most `limit_each` per address.
#[derive(Debug)]
pub(crate) struct Permits {
    taken: AtomicUsize,
    limit: usize,
    /// Permits per address, maintained only if the number per address is limited. The lock is held for one
    /// look-up.
    taken_by: Mutex<HashMap<IpAddr, usize>>,
    limit_each: usize,
}

/// A permit, returned when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Arc<Permits>,
    /// Address that the permit counts against, if addresses are limited. Boxed because every connection has a
    /// permit, and usually no such limit applies.
    by: Option<Box<IpAddr>>,
}

impl Permits {
    pub(crate) fn new(limit: usize, limit_each: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), limit, taken_by: Mutex::default(), limit_each })
    }

    /// Number of permits in use.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a permit if one is left for this address.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Permit> {
        let next = |taken| (taken < self.limit).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        self.take_for(address, self.limit_each)
    }

    /// Takes a permit in exchange for one of this address that is about to be returned.
    pub(crate) fn take_beyond_limit(self: &Arc<Self>, address: IpAddr) -> Permit {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.take_for(address, usize::MAX).expect("no limit applies")
    }

    /// Completes a permit that is already counted in the total, or returns it.
    fn take_for(self: &Arc<Self>, address: IpAddr, limit: usize) -> Option<Permit> {
        // From now on, dropping the permit returns it.
        let mut permit = Permit { permits: Arc::clone(self), by: None };
        if self.limit_each != usize::MAX {
            let by = network(address);
            let mut taken_by = self.taken_by.lock();
            let taken = taken_by.entry(by).or_default();
            if *taken >= limit {
                return None;
            }
            *taken += 1;
            permit.by = Some(Box::new(by));
        }
        Some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.taken.fetch_sub(1, Ordering::Relaxed);
        if let Some(by) = &self.by
            && let Entry::Occupied(mut taken) = self.permits.taken_by.lock().entry(**by)
        {
            *taken.get_mut() -= 1;
            if *taken.get() == 0 {
                taken.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn no_more_permits_than_the_limit() {
        let permits = Permits::new(2, usize::MAX);
        let someone = address("127.0.0.1");
        let taken = [permits.take(someone), permits.take(someone)];
        assert!(taken.iter().all(Option::is_some));
        assert!(permits.take(someone).is_none());
        drop(taken);
        assert!(permits.take(someone).is_some(), "returned");
    }

    #[test]
    fn each_address_has_its_own() {
        let permits = Permits::new(usize::MAX, 1);
        let taken = permits.take(address("10.0.0.1")).expect("the first");
        assert!(permits.take(address("10.0.0.1")).is_none());
        assert!(permits.take(address("::ffff:10.0.0.1")).is_none(), "an IPv4-mapped address");
        drop(permits.take_beyond_limit(address("10.0.0.1")));
        assert!(permits.take(address("10.0.0.1")).is_none(), "the permit beyond the limit was returned");
        let _other = permits.take(address("10.0.0.2")).expect("another's");
        let _six = permits.take(address("2001:db8::1")).expect("another's");
        assert!(permits.take(address("2001:db8::2")).is_none(), "the same network");
        drop(taken);
        assert!(permits.take(address("10.0.0.1")).is_some(), "returned");
        assert_eq!(permits.taken(), 2, "a rejection takes no permit");
        assert_eq!(permits.taken_by.lock().len(), 2, "nor memory");
    }
}
