use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use encke_base::locks::Mutex;
use encke_base::metrics::BackendMetrics;
use encke_base::quota::QuotaOwner;
use strum::EnumCount;

use super::hook::{HookCaller, HookKind};

/// Limits the number of requests in flight: in total, for each hook and for each client.
///
/// - Each hook has a reserved share of the total, which requests of other hooks cannot use.
/// - For each hook, an owner may have as many requests in flight as remain free (dynamic thresholds, Choudhury
///   and Hahne 1998). However many owners take what they can, an owner without a request finds room for one.
/// - The sessions of an owner share its maximum by the same rule.
#[derive(Debug)]
pub(super) struct InFlight {
    max_total: usize,
    max_per_session: usize,
    reserved: PerHook,
    counts: Mutex<InFlightCounts>,
    metrics: Arc<BackendMetrics>,
}

/// A number for each kind of hook.
type PerHook = [usize; HookKind::COUNT];

#[derive(Debug, Default)]
struct InFlightCounts {
    all: PerHook,
    /// Numbers of requests in flight. Owners and sessions without any have no entry.
    by_owner: HashMap<QuotaOwner, PerHook>,
    by_session: HashMap<u128, PerHook>,
}

/// Permit for one request. Dropping it releases the slot.
#[derive(Debug)]
pub(super) struct InFlightPermit {
    hook: HookKind,
    caller: HookCaller,
    in_flight: Arc<InFlight>,
}

impl InFlight {
    pub(super) fn new(
        max_total: usize,
        max_per_session: usize,
        hooks: impl Iterator<Item = HookKind>,
        metrics: Arc<BackendMetrics>,
    ) -> Self {
        let mut reserved = PerHook::default();
        for hook in hooks {
            reserved[hook as usize] = max_total / hook.reserved_divisor();
        }
        Self { max_total, max_per_session, reserved, counts: Mutex::default(), metrics }
    }

    /// Number of permits in use.
    #[cfg(feature = "simulation")]
    pub(super) fn count(&self) -> usize {
        total(&self.counts.lock().all)
    }

    /// Takes a permit, unless a limit is reached.
    pub(super) fn take(self: &Arc<Self>, hook: HookKind, caller: &HookCaller) -> Option<InFlightPermit> {
        let counts = &mut *self.counts.lock();
        let index = hook as usize;
        let free = self.free(index, &counts.all);
        let by_owner = counts.by_owner.get(&caller.owner).map_or(0, |owner| owner[index]);
        if by_owner >= free {
            return None;
        }
        if let Some(session) = caller.session {
            let by_session = counts.by_session.get(&session).copied().unwrap_or_default();
            // An owner's limit is the mean of its requests and the free slots.
            let free_of_owner = (free - by_owner).div_ceil(2);
            if by_session[index] >= free_of_owner || total(&by_session) >= self.max_per_session {
                return None;
            }
            counts.by_session.entry(session).or_default()[index] += 1;
        }
        counts.by_owner.entry(caller.owner.clone()).or_default()[index] += 1;
        counts.all[index] += 1;
        self.metrics.set_in_flight(total(&counts.all));
        Some(InFlightPermit { hook, caller: caller.clone(), in_flight: Arc::clone(self) })
    }

    /// Number of requests that can be added for this hook, without those reserved for others.
    fn free(&self, hook: usize, all: &PerHook) -> usize {
        let reserved = self.reserved.iter().zip(all).map(|(reserved, used)| reserved.saturating_sub(*used));
        let for_others = reserved.enumerate().filter(|(other, _)| *other != hook);
        self.max_total.saturating_sub(total(all) + for_others.map(|(_, reserved)| reserved).sum::<usize>())
    }
}

impl HookKind {
    /// Part of the total that is reserved for this hook. Clients that cannot connect can do nothing else, so
    /// `connect` has the largest share.
    fn reserved_divisor(self) -> usize {
        match self {
            Self::Connect => 4,
            Self::Subscribe | Self::Publish | Self::Call => 8,
        }
    }
}

fn total(counts: &PerHook) -> usize {
    counts.iter().sum()
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        let counts = &mut *self.in_flight.counts.lock();
        let index = self.hook as usize;
        counts.all[index] -= 1;
        self.in_flight.metrics.set_in_flight(total(&counts.all));
        release(&mut counts.by_owner, &self.caller.owner, index);
        if let Some(session) = self.caller.session {
            release(&mut counts.by_session, &session, index);
        }
    }
}

fn release<K: Eq + Hash>(counts: &mut HashMap<K, PerHook>, key: &K, index: usize) {
    if let Some(count) = counts.get_mut(key) {
        count[index] -= 1;
        if total(count) == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [HookKind; 4] = [HookKind::Connect, HookKind::Subscribe, HookKind::Publish, HookKind::Call];

    fn in_flight(max_total: usize, hooks: &[HookKind]) -> Arc<InFlight> {
        Arc::new(InFlight::new(max_total, 128, hooks.iter().copied(), Arc::default()))
    }

    fn connecting(address: [u8; 4]) -> HookCaller {
        HookCaller { owner: QuotaOwner::new(None, address.into()), session: None }
    }

    impl InFlight {
        /// Takes permits for each caller in turn until no caller gets one.
        fn take_all(self: &Arc<Self>, hook: HookKind, callers: &[HookCaller]) -> Vec<InFlightPermit> {
            let mut permits = Vec::new();
            loop {
                let before = permits.len();
                permits.extend(callers.iter().filter_map(|caller| self.take(hook, caller)));
                if permits.len() == before {
                    return permits;
                }
            }
        }
    }

    #[test]
    fn greedy_clients_leave_room_for_others() {
        let user = |number: u128| HookCaller::session_of(Some(&format!("user {number}")), number);
        let anonymous = |number| HookCaller::session_of(None, number);
        // Sessions of users, of anonymous clients at one address, of one user, and clients that connect.
        let cases: [(&str, HookKind, Vec<HookCaller>, HookCaller); 5] = [
            ("18 users", HookKind::Call, (1..=18).map(user).collect(), user(0)),
            ("100 users", HookKind::Publish, (1..=100).map(user).collect(), user(0)),
            ("100 sessions of one address", HookKind::Call, (1..=100).map(anonymous).collect(), anonymous(0)),
            (
                "one user",
                HookKind::Call,
                (1..=100).map(|n| HookCaller::session_of(Some("eve"), n)).collect(),
                anonymous(0),
            ),
            (
                "200 addresses",
                HookKind::Connect,
                (1..=200).map(|last| connecting([192, 0, 2, last])).collect(),
                connecting([192, 0, 2, 0]),
            ),
        ];
        for (name, hook, greedy, healthy) in cases {
            let in_flight = in_flight(1024, &ALL);
            let taken = in_flight.take_all(hook, &greedy);
            assert!(taken.len() > 150, "{name}: {}", taken.len());
            for hook in ALL {
                assert!(in_flight.take(hook, &healthy).is_some(), "{name}: {hook:?} of a healthy client");
            }
            drop(taken);
            let counts = in_flight.counts.lock();
            assert_eq!((counts.all, counts.by_owner.len(), counts.by_session.len()), ([0; 4], 0, 0));
        }
    }

    #[test]
    fn each_hook_has_a_reserved_share() {
        let in_flight = in_flight(64, &ALL);
        let many: Vec<_> = (0..200).map(|last| connecting([192, 0, 2, last])).collect();
        let shares = ALL.map(|hook| in_flight.take_all(hook, &many));
        // The first hook takes its own share and all that is not reserved, so the others get their shares.
        assert_eq!(shares.each_ref().map(Vec::len), [40, 8, 8, 8]);
    }

    #[test]
    fn small_totals_admit_one_request() {
        for max_total in 1..8 {
            for hook in ALL {
                assert!(in_flight(max_total, &ALL).take(hook, &connecting([192, 0, 2, 1])).is_some());
            }
        }
    }

    #[test]
    fn a_session_is_limited_over_all_hooks() {
        let in_flight = in_flight(8192, &ALL);
        let session = HookCaller::session_of(Some("alice"), 1);
        let calls = in_flight.take_all(HookKind::Call, std::slice::from_ref(&session));
        assert_eq!(calls.len(), 128);
        assert!(in_flight.take(HookKind::Publish, &session).is_none());
    }
}
