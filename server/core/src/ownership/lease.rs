use std::time::Duration;

/// A node's lease in the directory. While it is valid, no other node adopts this node's sessions.
///
/// All times are the machine's uptime, which also advances while the process or the machine is suspended: a node
/// that was suspended for longer than its lease must notice this before it does anything else.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    length: Duration,
    valid_since: Duration,
    /// `None` if the lease was never held.
    valid_until: Option<Duration>,
    adopts_from: Duration,
}

impl Lease {
    /// Creates a lease that is not held yet.
    #[must_use]
    pub const fn new(length: Duration) -> Self {
        Self { length, valid_since: Duration::ZERO, valid_until: None, adopts_from: Duration::ZERO }
    }

    /// Records that the directory has renewed the lease at a request sent at `sent_at`. The lease runs from then,
    /// because the reply may have been delayed. `was_held`: whether the directory still had the lease, which it may
    /// have lost. If the lease had ended, returns the time since its end (zero if unknown): the ownership of all
    /// sessions must then be [verified](super::Ownership::suspect).
    ///
    /// If it had ended, the directory may have been unreachable for all nodes, so this node adopts no sessions for
    /// the length of a lease, in which the others can renew theirs.
    pub fn renewed(&mut self, sent_at: Duration, now: Duration, was_held: bool) -> Option<Duration> {
        let ended_for = self.valid_until.map_or(Some(Duration::ZERO), |until| now.checked_sub(until));
        let ended_for = ended_for.or((!was_held).then_some(Duration::ZERO));
        self.valid_until = self.valid_until.max(Some(sent_at + self.length));
        if ended_for.is_some() {
            self.valid_since = now;
            self.postpone_adoption(now);
        }
        ended_for
    }

    /// Adopts no sessions for the length of a lease, because the directory may have lost the leases of other nodes.
    pub fn postpone_adoption(&mut self, now: Duration) {
        self.adopts_from = now + self.length;
    }

    /// Whether the lease is valid. While it is, no other node adopts this node's sessions, unless the directory has
    /// lost leases.
    #[must_use]
    pub fn is_valid(&self, now: Duration) -> bool {
        self.valid_until.is_some_and(|until| now < until)
    }

    /// Whether the lease has been valid since `earlier`. If not, a session that was granted by a request sent then has
    /// to be [verified](super::Ownership::suspect): another node may have adopted it since.
    #[must_use]
    pub fn is_valid_since(&self, earlier: Duration, now: Duration) -> bool {
        self.valid_since <= earlier && self.is_valid(now)
    }

    /// Whether this node may adopt sessions whose owner's lease has ended.
    #[must_use]
    pub fn may_adopt(&self, now: Duration) -> bool {
        self.is_valid(now) && now >= self.adopts_from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn lease_counts_from_the_request() {
        let mut lease = Lease::new(LENGTH);
        assert!(!lease.is_valid(at(1)));
        assert_eq!(lease.renewed(at(1), at(2), false), Some(at(0)), "it was never held");
        assert!(lease.is_valid(at(10)) && !lease.is_valid(at(11)));
        assert_eq!(lease.renewed(at(4), at(5), true), None);
        assert!(lease.is_valid(at(13)) && !lease.is_valid(at(14)));
        assert_eq!(lease.renewed(at(13), at(15), true), Some(at(1)), "the reply came after the end");
    }

    #[test]
    fn nothing_is_adopted_for_one_lease_after_an_outage() {
        let mut lease = Lease::new(LENGTH);
        lease.renewed(at(1), at(1), true);
        (2..12).for_each(|second| _ = lease.renewed(at(second), at(second), true));
        assert!(!lease.may_adopt(at(10)) && lease.may_adopt(at(11)));
        assert_eq!(lease.renewed(at(30), at(30), true), Some(at(9)));
        (31..41).for_each(|second| _ = lease.renewed(at(second), at(second), true));
        assert!(!lease.may_adopt(at(39)) && lease.may_adopt(at(40)));
    }

    #[test]
    fn lease_that_the_directory_has_lost_had_ended() {
        let mut lease = Lease::new(LENGTH);
        lease.renewed(at(1), at(1), false);
        assert_eq!(lease.renewed(at(4), at(4), true), None);
        assert_eq!(lease.renewed(at(7), at(7), false), Some(at(0)));
        assert!(lease.is_valid_since(at(8), at(8)) && !lease.is_valid_since(at(6), at(8)));
    }

    #[test]
    fn late_reply_does_not_shorten_the_lease() {
        let mut lease = Lease::new(LENGTH);
        lease.renewed(at(5), at(5), true);
        lease.renewed(at(2), at(6), true);
        assert!(lease.is_valid(at(14)));
    }
}
