use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::metrics::BackendMetrics;

/// Questions that are under way: so many of one session, and so many in all.
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
    /// Of sessions that have any.
    by_session: HashMap<u128, usize>,
}

/// The place of one question.
#[derive(Debug)]
pub(super) struct Place {
    session: Option<u128>,
    in_flight: Arc<InFlight>,
}

impl InFlight {
    pub(super) fn new(most: usize, most_each: usize, metrics: Arc<BackendMetrics>) -> Self {
        Self { most, most_each, counts: Mutex::default(), metrics }
    }

    /// A place for one more, if there is one. `session` is a number of its own for each.
    pub(super) fn take(self: &Arc<Self>, session: Option<u128>) -> Option<Place> {
        let Counts { all, by_session } = &mut *self.counts.lock();
        if *all >= self.most {
            return None;
        }
        if let Some(session) = session {
            let count = by_session.entry(session).or_default();
            if *count >= self.most_each {
                return None;
            }
            *count += 1;
        }
        *all += 1;
        self.metrics.in_flight(*all);
        Some(Place { session, in_flight: Arc::clone(self) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Counts { all, by_session } = &mut *self.in_flight.counts.lock();
        *all -= 1;
        self.in_flight.metrics.in_flight(*all);
        if let Some(session) = self.session
            && let Some(count) = by_session.get_mut(&session)
        {
            *count -= 1;
            if *count == 0 {
                by_session.remove(&session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_for_each_and_in_all() {
        let in_flight = Arc::new(InFlight::new(3, 2, Arc::default()));
        let first = in_flight.take(Some(1)).expect("room");
        let second = in_flight.take(Some(1)).expect("room");
        assert!(in_flight.take(Some(1)).is_none(), "it has two");
        let third = in_flight.take(None).expect("room");
        assert!(in_flight.take(Some(2)).is_none(), "there are three");
        drop(second);
        let fourth = in_flight.take(Some(2)).expect("room");
        drop((first, third, fourth));
        let counts = in_flight.counts.lock();
        assert_eq!((counts.all, counts.by_session.len()), (0, 0));
    }
}
