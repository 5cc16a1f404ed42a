use std::collections::HashMap;
use std::sync::Arc;

use encke_base::locks::Mutex;
use encke_base::metrics::BackendMetrics;
use encke_base::quota::QuotaOwner;

use super::hook::HookCaller;

/// Limits the number of requests in flight: in total, per session, and, for clients without a session, per
/// user or network (half of the total).
#[derive(Debug, Default)]
pub(super) struct InFlight {
    pub(super) max_total: usize,
    pub(super) max_per_caller: usize,
    pub(super) counts: Mutex<InFlightCounts>,
    pub(super) metrics: Arc<BackendMetrics>,
}

#[derive(Debug, Default)]
pub(super) struct InFlightCounts {
    all: usize,
    /// Number of requests in flight by caller. Callers without any have no entry.
    by_caller: HashMap<CallerKey, usize>,
}

/// Identifies callers that share one count: a session, or all clients of an owner that have no session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CallerKey {
    Session(u128),
    Connecting(QuotaOwner),
}

/// Permit for one request. Dropping it releases the slot.
#[derive(Debug)]
pub(super) struct InFlightPermit {
    caller: CallerKey,
    in_flight: Arc<InFlight>,
}

impl InFlight {
    /// Takes a permit, unless a limit is reached.
    pub(super) fn take(self: &Arc<Self>, caller: &HookCaller) -> Option<InFlightPermit> {
        let (caller, max_per_caller) = match caller.session {
            Some(number) => (CallerKey::Session(number), self.max_per_caller),
            // New clients of one owner must leave room for all others.
            None => (CallerKey::Connecting(caller.owner.clone()), self.max_total.div_ceil(2)),
        };
        let InFlightCounts { all, by_caller } = &mut *self.counts.lock();
        let count = by_caller.get(&caller).copied().unwrap_or_default();
        if *all >= self.max_total || count >= max_per_caller {
            return None;
        }
        by_caller.insert(caller.clone(), count + 1);
        *all += 1;
        self.metrics.set_in_flight(*all);
        Some(InFlightPermit { caller, in_flight: Arc::clone(self) })
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        let InFlightCounts { all, by_caller } = &mut *self.in_flight.counts.lock();
        *all -= 1;
        self.in_flight.metrics.set_in_flight(*all);
        if let Some(count) = by_caller.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                by_caller.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_limited_per_caller_and_in_total() {
        let in_flight = Arc::new(InFlight { max_total: 4, max_per_caller: 2, ..InFlight::default() });
        let take = |caller: HookCaller| in_flight.take(&caller);
        let session = |number| HookCaller::session_of(None, number);
        let address =
            |last| HookCaller { owner: QuotaOwner::new(None, [192, 0, 2, last].into()), session: None };
        let first = take(session(1)).expect("a permit");
        let second = take(session(1)).expect("a permit");
        assert!(take(session(1)).is_none(), "the session has two already");
        let third = take(address(1)).expect("a permit");
        let fourth = take(address(2)).expect("a permit");
        assert!(take(session(2)).is_none(), "the total is four already");
        drop((second, fourth));
        let fifth = take(address(1)).expect("a permit");
        assert!(take(address(1)).is_none(), "the network has half of the total already");
        drop((first, third, fifth));
        let counts = in_flight.counts.lock();
        assert_eq!((counts.all, counts.by_caller.len()), (0, 0));
    }
}
