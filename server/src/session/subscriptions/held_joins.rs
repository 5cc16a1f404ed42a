//! Joins that are announced later, because their owner has joined the channel too often.
//!
//! Presence does not list a session whose join is held back. If the session leaves before its join is
//! announced, neither the join nor the leave is announced. A client that opens sessions, joins and leaves as
//! fast as it can therefore causes at most one join and one leave for each join that the limit allows.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use encke_base::quota::QuotaOwner;
use encke_broker::channel::ChannelName;
use encke_core::Timestamp;

use super::notice_table::Notice;
use crate::session::id::SessionId;
use crate::session::session_ref::SessionRef;

/// Time in which an empty bucket becomes full.
const REFILL: Duration = Duration::from_mins(1);

/// An owner may join this many times as often in all channels together as in one.
const CHANNELS: u32 = 10;

/// Maximum number of joins that are held back. Additional ones are lost: presence never lists these sessions.
const MAX_HELD: usize = 65_536;

/// Maximum number of joins of one owner that are held back.
pub(super) const MAX_HELD_PER_OWNER: usize = 1_024;

/// Minimum number of buckets at which full ones are removed.
const MIN_SWEEP_LEN: usize = 1024;

/// Token buckets that limit how often the joins of an owner to a channel are announced.
pub(super) struct JoinRates {
    /// Time in which a bucket gains one join; `None`: unlimited.
    interval: Option<Duration>,
    /// For each owner, also a bucket for all channels together.
    buckets: HashMap<(Option<ChannelName>, QuotaOwner), Bucket>,
    sweep_at: usize,
}

/// Token bucket that holds one minute's worth of joins. Its level is stored as the time at which it will be
/// full again, counted in two ways.
#[derive(Clone, Copy)]
struct Bucket {
    /// Counts the joins that are held back as well as the announced ones. Determines when further joins are
    /// due.
    full_at: Timestamp,
    /// Counts only the joins that were announced. Determines whether a join that is due may be announced:
    /// cancelled joins leave unused tokens, which other joins must not spend all at once.
    full_at_by_announced: Timestamp,
}

/// A join, with the session and the owner that are needed to hold it back.
pub(super) struct PendingJoin {
    pub(super) notice: Notice,
    pub(super) session: SessionRef,
    pub(super) owner: QuotaOwner,
}

/// Numbers of joins that are held back, in all channels.
#[derive(Default)]
pub(super) struct HeldCounts {
    total: usize,
    by_owner: HashMap<QuotaOwner, usize>,
}

/// The joins to one channel that are held back.
#[derive(Default)]
pub(super) struct HeldJoins {
    by_due: BTreeMap<(Timestamp, SessionId), PendingJoin>,
    due: HashMap<SessionId, Timestamp>,
    by_owner: HashMap<QuotaOwner, BTreeSet<(Timestamp, SessionId)>>,
}

impl JoinRates {
    /// `per_minute` is the limit; 0 means unlimited.
    pub(super) fn new(per_minute: u32) -> Self {
        let interval = REFILL.checked_div(per_minute);
        Self { interval, buckets: HashMap::new(), sweep_at: MIN_SWEEP_LEN }
    }

    /// Counts a join. Returns the time at which it may be announced if that is after `now`.
    pub(super) fn count(
        &mut self,
        channel: &ChannelName,
        owner: &QuotaOwner,
        now: Timestamp,
    ) -> Option<Timestamp> {
        // Joins that the backend requests for an anonymous session without a connection are unlimited.
        self.interval.filter(|_| *owner != QuotaOwner::Operator)?;
        if self.buckets.len() >= self.sweep_at {
            self.buckets.retain(|_, bucket| bucket.full_at > now);
            self.sweep_at = (2 * self.buckets.len()).max(MIN_SWEEP_LEN);
        }
        let due = self.for_both_buckets(channel, owner, now, |bucket, interval| {
            bucket.full_at = bucket.full_at.max(now) + interval;
            bucket.full_at
        });
        if due.is_none() {
            self.count_announced(channel, owner, now);
        }
        due
    }

    /// Checks a join that was held back until `due` against the joins that were announced. If it must wait
    /// longer, counts it again and returns the time at which it may be announced.
    pub(super) fn recheck_due(
        &mut self,
        channel: &ChannelName,
        owner: &QuotaOwner,
        due: Timestamp,
    ) -> Option<Timestamp> {
        let next = |bucket: &mut Bucket, interval| bucket.full_at_by_announced.max(due) + interval;
        if self.for_both_buckets(channel, owner, due, next).is_some() {
            return self.count(channel, owner, due);
        }
        self.count_announced(channel, owner, due);
        None
    }

    /// Refunds a join that was counted, but is not announced.
    pub(super) fn refund(&mut self, channel: &ChannelName, owner: &QuotaOwner) {
        self.for_both_buckets(channel, owner, Timestamp::from_nanos(0), |bucket, interval| {
            bucket.full_at = bucket.full_at.before(interval).unwrap_or(bucket.full_at);
            bucket.full_at
        });
    }

    /// Counts a join as announced.
    fn count_announced(&mut self, channel: &ChannelName, owner: &QuotaOwner, at: Timestamp) {
        self.for_both_buckets(channel, owner, at, |bucket, interval| {
            bucket.full_at_by_announced = bucket.full_at_by_announced.max(at) + interval;
            bucket.full_at = bucket.full_at.max(bucket.full_at_by_announced);
            bucket.full_at
        });
    }

    /// Calls `full_at` for the bucket of the channel and for that of all channels. `full_at` returns the time
    /// at which the bucket will be full again if the join is counted, and may change the bucket. Returns the time from which both
    /// buckets have a token for the join, if that is after `now`.
    fn for_both_buckets(
        &mut self,
        channel: &ChannelName,
        owner: &QuotaOwner,
        now: Timestamp,
        full_at: impl Fn(&mut Bucket, Duration) -> Timestamp,
    ) -> Option<Timestamp> {
        let interval = self.interval?;
        let due = [(Some(channel), interval), (None, interval / CHANNELS)].map(|(channel, interval)| {
            let full = Bucket { full_at: now, full_at_by_announced: now };
            let bucket = self.buckets.entry((channel.cloned(), owner.clone())).or_insert(full);
            full_at(bucket, interval).before(REFILL)
        });
        due.into_iter().flatten().max().filter(|due| *due > now)
    }
}

impl HeldCounts {
    /// Counts a join. Returns `false` if too many joins are held back.
    pub(super) fn add(&mut self, owner: &QuotaOwner) -> bool {
        let own = self.by_owner.get(owner).copied().unwrap_or(0);
        if self.total >= MAX_HELD || own >= MAX_HELD_PER_OWNER {
            return false;
        }
        self.total += 1;
        self.by_owner.insert(owner.clone(), own + 1);
        true
    }

    pub(super) fn remove(&mut self, owner: &QuotaOwner) {
        self.total -= 1;
        let own = self.by_owner.get_mut(owner).expect("the join was counted");
        *own -= 1;
        if *own == 0 {
            self.by_owner.remove(owner);
        }
    }

    #[cfg(feature = "simulation")]
    pub(super) fn total(&self) -> usize {
        self.total
    }
}

impl HeldJoins {
    pub(super) fn insert(&mut self, due: Timestamp, join: PendingJoin) {
        let session = join.notice.session;
        self.due.insert(session, due);
        self.by_owner.entry(join.owner.clone()).or_default().insert((due, session));
        self.by_due.insert((due, session), join);
    }

    /// Removes a session's join. Returns it with the time at which it is due.
    pub(super) fn remove(&mut self, session: SessionId) -> Option<(Timestamp, PendingJoin)> {
        let due = self.due.remove(&session)?;
        let join = self.by_due.remove(&(due, session))?;
        if let Entry::Occupied(mut own) = self.by_owner.entry(join.owner.clone()) {
            own.get_mut().remove(&(due, session));
            if own.get().is_empty() {
                own.remove();
            }
        }
        Some((due, join))
    }

    /// Makes the owner's last join due at this time, if it is due later: the join that was due then is cancelled.
    pub(super) fn advance_last(&mut self, owner: &QuotaOwner, due: Timestamp) {
        let last = self.by_owner.get(owner).and_then(BTreeSet::last).filter(|(last, _)| *last > due);
        if let Some(&(_, session)) = last
            && let Some((_, join)) = self.remove(session)
        {
            self.insert(due, join);
        }
    }

    /// Returns the join that may be announced first, and when.
    pub(super) fn first(&self) -> Option<(Timestamp, &PendingJoin)> {
        self.by_due.first_key_value().map(|((due, _), join)| (*due, join))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const ANN: QuotaOwner = QuotaOwner::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos((seconds + 3_600) * 1_000_000_000)
    }

    fn channel() -> ChannelName {
        ChannelName::new("room", 255).expect("a name")
    }

    #[test]
    fn joins_are_announced_at_once_until_the_bucket_is_empty() {
        let (mut rates, channel) = (JoinRates::new(3), channel());
        let due = [None, None, None, Some(20), Some(40)];
        for due in due {
            assert_eq!(rates.count(&channel, &ANN, at(0)), due.map(at));
        }
        assert_eq!(rates.count(&channel, &QuotaOwner::User("bob".into()), at(0)), None);
        rates.refund(&channel, &ANN);
        assert_eq!(rates.count(&channel, &ANN, at(0)), Some(at(40)));
        assert_eq!(rates.count(&channel, &ANN, at(59)), Some(at(60)));
        assert_eq!(rates.count(&channel, &ANN, at(80)), None);
    }

    #[test]
    fn canceled_joins_leave_no_tokens_for_a_burst() {
        let (mut rates, channel) = (JoinRates::new(1), channel());
        let mut count = |at_s| rates.count(&channel, &ANN, at(at_s));
        assert_eq!([count(0), count(0), count(0)], [None, Some(at(60)), Some(at(120))]);
        // The second join is cancelled, and another one takes its place in the count.
        rates.refund(&channel, &ANN);
        assert_eq!(rates.count(&channel, &ANN, at(0)), Some(at(120)));
        assert_eq!(rates.recheck_due(&channel, &ANN, at(120)), None);
        assert_eq!(rates.recheck_due(&channel, &ANN, at(120)), Some(at(180)));
        assert_eq!(rates.recheck_due(&channel, &ANN, at(180)), None);
        assert_eq!(rates.count(&channel, &ANN, at(239)), Some(at(240)));
    }

    #[test]
    fn some_joins_are_unlimited() {
        for (per_minute, owner) in [(0, ANN), (1, QuotaOwner::Operator)] {
            let mut rates = JoinRates::new(per_minute);
            assert!((0..1_000).all(|_| rates.count(&channel(), &owner, at(0)).is_none()));
        }
    }

    #[test]
    fn full_buckets_are_removed() {
        let (mut rates, channel) = (JoinRates::new(60), channel());
        for number in 0..100_000 {
            let owner = QuotaOwner::User(number.to_string().into());
            rates.count(&channel, &owner, at(number / 100));
        }
        assert!(rates.buckets.len() <= MIN_SWEEP_LEN, "{}", rates.buckets.len());
    }
}
