use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use encke_core::Timestamp;
use parking_lot::Mutex;

/// Limits something of one session, whatever the number of its connections: a token bucket that holds one second's
/// worth, kept as the instant at which it would be full again (the generic cell rate algorithm of ATM, ITU-T I.371). It needs
/// no timer.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// In nanoseconds.
    full_at: AtomicU64,
}

/// What to do with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Carry it out.
    Fine,
    /// Refuse it.
    TooFast,
    /// Close the connection: the client ignored a second's worth of refusals.
    Flood,
}

const BURST: Duration = Duration::from_secs(1);

impl Rate {
    /// Nothing has been counted.
    pub(crate) fn reset(&self) {
        self.full_at.store(0, Ordering::Relaxed);
    }

    /// Counts one of what is refused when it comes too fast. `per_second` is the limit; 0 is none.
    pub(crate) fn command(&self, per_second: u32, now: Timestamp) -> Pace {
        pace(self.add(1, per_second, now), now)
    }

    /// Counts some of what is put off when it comes too fast. `per_second` is the limit; 0 is none.
    pub(crate) fn count(&self, count: usize, per_second: u32, now: Timestamp) {
        self.add(count as u64, per_second, now);
    }

    /// Returns when it would be full again. Requests beside a connection come at the same time as what comes over it.
    fn add(&self, count: u64, per_second: u32, now: Timestamp) -> u64 {
        let more = |full_at| after_more(full_at, count, per_second, now);
        let before =
            self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| Some(more(full_at)));
        let (Ok(before) | Err(before)) = before;
        more(before)
    }

    /// When the next may come.
    pub(crate) fn next_at(&self) -> Timestamp {
        next_at(self.full_at.load(Ordering::Relaxed))
    }
}

/// A rate for each of many: users, or addresses.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    per_second: u32,
    buckets: Mutex<Buckets<K>>,
}

/// Of those who have done something lately. The others are forgotten when there are many.
#[derive(Debug)]
struct Buckets<K> {
    full_at: HashMap<K, u64>,
    sweep_at: usize,
}

/// Below this, nobody is forgotten.
const FEW: usize = 1024;

impl<K: Eq + Hash> Rates<K> {
    /// `per_second` is the limit; 0 is none.
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, buckets: Mutex::new(Buckets { full_at: HashMap::new(), sweep_at: FEW }) }
    }

    /// The limit; 0 is none.
    pub(crate) fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Counts one, if it is within the limit, and says whether it is. What is refused is not counted: one session could keep all
    /// others of its user out.
    pub(crate) fn take<Q>(&self, key: &Q, now: Timestamp) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        if self.per_second == 0 {
            return true;
        }
        let mut buckets = self.buckets.lock();
        let after = self.after_one_more(&buckets, key, now);
        let Some(after) = after else { return false };
        let Buckets { full_at, sweep_at } = &mut *buckets;
        if full_at.len() >= *sweep_at {
            full_at.retain(|_, full_at| *full_at > now.as_nanos());
            *sweep_at = (2 * full_at.len()).max(FEW);
        }
        match full_at.get_mut(key) {
            Some(full_at) => *full_at = after,
            None => _ = full_at.insert(key.to_owned(), after),
        }
        true
    }

    /// Whether one more would be within the limit.
    pub(crate) fn has_room<Q>(&self, key: &Q, now: Timestamp) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.per_second == 0 || self.after_one_more(&self.buckets.lock(), key, now).is_some()
    }

    /// When the next may come.
    pub(crate) fn next_at<Q>(&self, key: &Q) -> Timestamp
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        next_at(self.buckets.lock().full_at.get(key).copied().unwrap_or_default())
    }

    fn after_one_more<Q>(&self, buckets: &Buckets<K>, key: &Q, now: Timestamp) -> Option<u64>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let full_at = buckets.full_at.get(key).copied().unwrap_or_default();
        Some(after_more(full_at, 1, self.per_second, now)).filter(|after| pace(*after, now) == Pace::Fine)
    }
}

/// A second's worth may come at once.
fn next_at(full_at: u64) -> Timestamp {
    Timestamp::from_nanos(full_at).before(BURST).unwrap_or(Timestamp::from_nanos(0))
}

fn after_more(full_at: u64, count: u64, per_second: u32, now: Timestamp) -> u64 {
    let each = 1_000_000_000_u64.checked_div(per_second.into()).unwrap_or_default();
    full_at.max(now.as_nanos()).saturating_add(each.saturating_mul(count))
}

fn pace(full_at: u64, now: Timestamp) -> Pace {
    match Timestamp::from_nanos(full_at).since(now) {
        used if used <= BURST => Pace::Fine,
        used if used <= 2 * BURST => Pace::TooFast,
        _ => Pace::Flood,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000 + ms * 1_000_000)
    }

    #[test]
    fn a_seconds_worth_at_once_then_one_at_a_time() {
        let rate = Rate::default();
        let burst = |count, ms| (0..count).map(|_| rate.command(10, at(ms))).collect::<Vec<_>>();
        assert_eq!(burst(10, 0), [Pace::Fine; 10]);
        assert_eq!(burst(1, 50), [Pace::TooFast]);
        assert_eq!(burst(1, 201), [Pace::Fine], "the refused one was counted, too");
        assert_eq!(burst(10, 3_000), [Pace::Fine; 10]);
    }

    #[test]
    fn a_client_that_ignores_refusals_is_a_flood() {
        let rate = Rate::default();
        let paces: Vec<_> = (0..21).map(|_| rate.command(10, at(0))).collect();
        assert_eq!(paces[10..20], [Pace::TooFast; 10]);
        assert_eq!(paces[20], Pace::Flood);
    }

    #[test]
    fn what_is_put_off_may_come_later() {
        let rate = Rate::default();
        rate.count(10, 10, at(0));
        assert!(rate.next_at() <= at(0), "a second's worth at once");
        rate.count(5, 10, at(0));
        assert_eq!(rate.next_at(), at(500));
        rate.count(1, 10, at(5_000));
        assert!(rate.next_at() <= at(5_000));
        rate.count(1_000_000, 0, at(5_000));
        assert!(rate.next_at() <= at(5_000), "no limit");
    }

    #[test]
    fn zero_is_no_limit() {
        let (rate, users) = (Rate::default(), Rates::<String>::new(0));
        assert!((0..10_000).all(|_| rate.command(0, at(0)) == Pace::Fine && users.take("alice", at(0))));
    }

    #[test]
    fn users_do_not_share_and_refusals_do_not_count() {
        let users = Rates::<String>::new(10);
        let burst = |user, ms| (0..30).filter(|_| users.take(user, at(ms))).count();
        assert_eq!((burst("alice", 0), burst("bob", 0)), (10, 10));
        assert!(!users.has_room("alice", at(0)) && users.has_room("eve", at(0)));
        assert_eq!((burst("alice", 0), burst("alice", 501)), (0, 5));
    }

    #[test]
    fn users_who_have_gone_are_forgotten() {
        let users = Rates::<String>::new(10);
        for number in 0..100_000 {
            assert!(users.take(&*format!("user {number}"), at(number)));
        }
        let kept = users.buckets.lock().full_at.len();
        assert!(kept <= 2 * FEW, "{kept}");
    }
}
