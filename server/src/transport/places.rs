use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The places of `limits.max_connections`.
#[derive(Debug)]
pub(crate) struct Places {
    taken: AtomicUsize,
    limit: usize,
}

/// One place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Places {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), limit })
    }

    /// Takes a place, if there is one.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Place> {
        let next = |taken| (taken < self.limit).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(Place(Arc::clone(self)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_places_as_the_limit_says() {
        let places = Places::new(2);
        let taken = [places.take(), places.take()];
        assert!(taken.iter().all(Option::is_some));
        assert!(places.take().is_none());
        drop(taken);
        assert!(places.take().is_some(), "given back");
    }
}
