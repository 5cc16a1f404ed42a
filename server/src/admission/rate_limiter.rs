use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use encke_core::Timestamp;

use encke_base::locks::Mutex;

/// Rate limiter for a session, shared by all its connections. It is a token bucket that holds one second's
/// worth of items, stored as the time at which it will be full again (generic cell rate algorithm, ITU-T
/// I.371). It needs no timer.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    /// Time at which the bucket will be full again, in nanoseconds.
    full_at: AtomicU64,
}

/// Decision about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RateDecision {
    /// Execute the command.
    Allow,
    /// Reject the command.
    TooFast,
    /// Close the connection: the client has ignored a second's worth of rejections.
    Flood,
}

const BURST: Duration = Duration::from_secs(1);

impl RateLimiter {
    /// Refills the bucket.
    pub(crate) fn reset(&self) {
        self.full_at.store(0, Ordering::Relaxed);
    }

    /// Counts a command that costs as much as `cost` cheap ones, and is rejected if the rate is exceeded. A
    /// rejected command counts as a cheap one. `per_second` is the limit; 0 means unlimited.
    pub(crate) fn count_command(&self, cost: u32, per_second: u32, now: Timestamp) -> RateDecision {
        let count = |full_at| {
            let after = after_more(full_at, cost.min(per_second).into(), per_second, now);
            if decide(after, now) == RateDecision::Allow {
                return (after, RateDecision::Allow);
            }
            let after = after_more(full_at, 1, per_second, now);
            (after, decide(after, now).max(RateDecision::TooFast))
        };
        count(self.update(|full_at| count(full_at).0)).1
    }

    /// Counts input, which is delayed if the rate is exceeded. `per_second` is the limit; 0 means unlimited.
    pub(crate) fn count_input(&self, count: usize, per_second: u32, now: Timestamp) {
        self.update(|full_at| after_more(full_at, count as u64, per_second, now));
    }

    /// Changes the time at which the bucket will be full again, and returns the previous one. Atomic, because
    /// HTTP requests of the session run concurrently with its connection.
    fn update(&self, change: impl Fn(u64) -> u64) -> u64 {
        let change = |full_at| Some(change(full_at));
        let (Ok(before) | Err(before)) =
            self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        before
    }

    /// When the next item may be processed.
    pub(crate) fn next_at(&self) -> Timestamp {
        next_at(self.full_at.load(Ordering::Relaxed))
    }
}

/// Rate limiters by key, which is a user or an address.
#[derive(Debug)]
pub(crate) struct RateLimiters<K> {
    per_second: u32,
    buckets: Mutex<Buckets<K>>,
}

/// Buckets of recently active keys. Other buckets are removed when there are many.
#[derive(Debug)]
struct Buckets<K> {
    full_at: HashMap<K, u64>,
    sweep_at: usize,
}

/// Minimum number of buckets at which idle ones are removed.
const MIN_SWEEP_LEN: usize = 1024;

impl<K: Eq + Hash> RateLimiters<K> {
    /// `per_second` is the limit; 0 means unlimited.
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, buckets: Mutex::new(Buckets { full_at: HashMap::new(), sweep_at: MIN_SWEEP_LEN }) }
    }

    /// The limit; 0 means unlimited.
    pub(crate) fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Counts one item if it is within the limit, and returns whether it is. Rejected items are not counted:
    /// otherwise one session could lock out all others of its user.
    pub(crate) fn try_count<Q>(&self, key: &Q, now: Timestamp) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        self.try_count_cost(key, 1, now)
    }

    /// Like [`try_count`](Self::try_count), for an item that counts as `cost` items.
    pub(crate) fn try_count_cost<Q>(&self, key: &Q, cost: u32, now: Timestamp) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        if self.per_second == 0 {
            return true;
        }
        let mut buckets = self.buckets.lock();
        let after = self.after_more(&buckets, key, cost, now);
        let Some(after) = after else { return false };
        let Buckets { full_at, sweep_at } = &mut *buckets;
        if full_at.len() >= *sweep_at {
            full_at.retain(|_, full_at| *full_at > now.as_nanos());
            *sweep_at = (2 * full_at.len()).max(MIN_SWEEP_LEN);
        }
        match full_at.get_mut(key) {
            Some(full_at) => *full_at = after,
            None => _ = full_at.insert(key.to_owned(), after),
        }
        true
    }

    /// Whether one more item would be within the limit.
    pub(crate) fn has_room<Q>(&self, key: &Q, now: Timestamp) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.per_second == 0 || self.after_more(&self.buckets.lock(), key, 1, now).is_some()
    }

    /// When the next item may be processed.
    pub(crate) fn next_at<Q>(&self, key: &Q) -> Timestamp
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let full_at = self.buckets.lock().full_at.get(key).copied().unwrap_or_default();
        next_at(full_at.saturating_add(nanos_per_item(self.per_second)))
    }

    fn after_more<Q>(&self, buckets: &Buckets<K>, key: &Q, cost: u32, now: Timestamp) -> Option<u64>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let full_at = buckets.full_at.get(key).copied().unwrap_or_default();
        Some(after_more(full_at, cost.min(self.per_second).into(), self.per_second, now))
            .filter(|after| decide(*after, now) == RateDecision::Allow)
    }
}

/// Returns when the next item may be processed. A burst may contain one second's worth of items.
fn next_at(full_at: u64) -> Timestamp {
    Timestamp::from_nanos(full_at).before(BURST).unwrap_or(Timestamp::from_nanos(0))
}

fn nanos_per_item(per_second: u32) -> u64 {
    1_000_000_000_u64.checked_div(per_second.into()).unwrap_or_default()
}

fn after_more(full_at: u64, count: u64, per_second: u32, now: Timestamp) -> u64 {
    let each = nanos_per_item(per_second);
    full_at.max(now.as_nanos()).saturating_add(each.saturating_mul(count))
}

fn decide(full_at: u64, now: Timestamp) -> RateDecision {
    match Timestamp::from_nanos(full_at).since(now) {
        used if used <= BURST => RateDecision::Allow,
        used if used <= 2 * BURST => RateDecision::TooFast,
        _ => RateDecision::Flood,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000 + ms * 1_000_000)
    }

    #[test]
    fn a_burst_of_one_second_then_single_items() {
        let rate = RateLimiter::default();
        let burst = |count, ms| (0..count).map(|_| rate.count_command(1, 10, at(ms))).collect::<Vec<_>>();
        assert_eq!(burst(10, 0), [RateDecision::Allow; 10]);
        assert_eq!(burst(1, 50), [RateDecision::TooFast]);
        assert_eq!(burst(1, 201), [RateDecision::Allow], "the rejected one was counted as well");
        assert_eq!(burst(10, 3_000), [RateDecision::Allow; 10]);
    }

    #[test]
    fn a_client_that_ignores_rejections_is_a_flood() {
        let rate = RateLimiter::default();
        let decisions: Vec<_> = (0..21).map(|_| rate.count_command(1, 10, at(0))).collect();
        assert_eq!(decisions[10..20], [RateDecision::TooFast; 10]);
        assert_eq!(decisions[20], RateDecision::Flood);
    }

    #[test]
    fn an_expensive_command_counts_more_than_its_rejection() {
        let rate = RateLimiter::default();
        let decisions: Vec<_> = (0..13).map(|_| rate.count_command(5, 10, at(0))).collect();
        assert_eq!(decisions[..2], [RateDecision::Allow; 2]);
        assert_eq!(decisions[2..12], [RateDecision::TooFast; 10], "each counts as one");
        assert_eq!(decisions[12], RateDecision::Flood);
        let rate = RateLimiter::default();
        assert_eq!(rate.count_command(5, 3, at(0)), RateDecision::Allow, "at most a second's worth");
        assert_eq!(rate.count_command(1, 3, at(0)), RateDecision::TooFast);
        let users = RateLimiters::<String>::new(10);
        let counts = [1, 5, 5, 4].map(|cost| users.try_count_cost("alice", cost, at(0)));
        assert_eq!(counts, [true, true, false, true]);
    }

    #[test]
    fn delayed_input_is_processed_later() {
        let rate = RateLimiter::default();
        rate.count_input(10, 10, at(0));
        assert!(rate.next_at() <= at(0), "a burst of one second");
        rate.count_input(5, 10, at(0));
        assert_eq!(rate.next_at(), at(500));
        rate.count_input(1, 10, at(5_000));
        assert!(rate.next_at() <= at(5_000));
        rate.count_input(1_000_000, 0, at(5_000));
        assert!(rate.next_at() <= at(5_000), "no limit");
    }

    #[test]
    fn zero_means_unlimited() {
        let (rate, users) = (RateLimiter::default(), RateLimiters::<String>::new(0));
        assert!((0..10_000).all(
            |_| rate.count_command(1, 0, at(0)) == RateDecision::Allow && users.try_count("alice", at(0))
        ));
    }

    #[test]
    fn users_have_separate_limits_and_rejections_do_not_count() {
        let users = RateLimiters::<String>::new(10);
        let burst = |user, ms| (0..30).filter(|_| users.try_count(user, at(ms))).count();
        assert_eq!((burst("alice", 0), burst("bob", 0)), (10, 10));
        assert!(!users.has_room("alice", at(0)) && users.has_room("eve", at(0)));
        assert_eq!((burst("alice", 0), burst("alice", 501)), (0, 5));
        let next = users.next_at("alice");
        assert!(!users.has_room("alice", Timestamp::from_nanos(next.as_nanos() - 1)));
        assert!(users.has_room("alice", next));
    }

    #[test]
    fn idle_users_are_removed() {
        let users = RateLimiters::<String>::new(10);
        for number in 0..100_000 {
            assert!(users.try_count(&*format!("user {number}"), at(number)));
        }
        let kept = users.buckets.lock().full_at.len();
        assert!(kept <= 2 * MIN_SWEEP_LEN, "{kept}");
    }
}
