//! Deadlines that may be armed in the current state, and the earliest of them.

use super::Session;
use super::deadlines::Deadlines;
use super::phase::Phase;
use super::ping_state::PingState;
use crate::Timestamp;
use crate::session::{Deadline, SessionTimeouts};

impl<C> Session<C> {
    /// Returns the deadlines that may be armed in the current state, in the order in which they fire, each
    /// with its due time if it is armed.
    fn candidates(&self, timeouts: &SessionTimeouts) -> [(Option<Timestamp>, Deadline); 5] {
        let Deadlines { heartbeat, client, idle, token } = self.deadlines;
        let heartbeat = match self.ping {
            PingState::Idle => (heartbeat, Deadline::Ping),
            PingState::Outstanding => (heartbeat, Deadline::Pong),
            PingState::Writing | PingState::Probing => (None, Deadline::Pong),
        };
        let of_client = match self.phase() {
            Phase::Attached(_) => Deadline::PollHold,
            Phase::BetweenPolls => Deadline::PollGap,
            Phase::Suspended | Phase::Moved | Phase::Closed(_) => Deadline::Reconnect,
        };
        [
            heartbeat,
            (client, of_client),
            (idle, Deadline::Idle),
            (token, Deadline::Token),
            (self.lifetime_end(timeouts), Deadline::Lifetime),
        ]
    }

    /// Whether a deadline may be due at `by`. This is a cheap check, since usually none is due.
    pub(super) fn may_be_due(&self, timeouts: &SessionTimeouts, by: Timestamp) -> bool {
        sort_key(self.deadlines.heartbeat) < by.as_nanos() || !self.has_only_heartbeat(timeouts, by)
    }

    /// Whether no deadline other than the heartbeat is due at `by`.
    #[must_use]
    pub fn has_only_heartbeat(&self, timeouts: &SessionTimeouts, by: Timestamp) -> bool {
        let Deadlines { heartbeat: _, client, idle, token } = self.deadlines;
        let first = sort_key(client).min(sort_key(idle)).min(sort_key(token));
        first >= by.as_nanos() && self.lifetime_end(timeouts).is_none_or(|end| end > by)
    }

    /// Returns the earliest deadline; among equals, the first in the order of [`Deadline::ALL`].
    pub(super) fn earliest(&self, timeouts: &SessionTimeouts) -> Option<(Timestamp, Deadline)> {
        let all = self.candidates(timeouts);
        // Compute the minimum without branches, since this runs after every step of every session.
        let mut first = all[0];
        for next in &all[1..] {
            first = if sort_key(next.0) < sort_key(first.0) { *next } else { first };
        }
        Some((first.0?, first.1))
    }

    pub(super) fn armed(
        &self,
        timeouts: &SessionTimeouts,
    ) -> impl Iterator<Item = (Timestamp, Deadline)> + use<C> {
        self.candidates(timeouts).into_iter().filter_map(|(at, deadline)| Some((at?, deadline)))
    }

    /// Returns the time at which the session reaches its maximum lifetime.
    pub(super) fn lifetime_end(&self, timeouts: &SessionTimeouts) -> Option<Timestamp> {
        let lifetime = timeouts.lifetime.filter(|_| !matches!(self.phase(), Phase::Closed(_)));
        lifetime.map(|lifetime| self.opened_at + lifetime)
    }
}

/// Maps `None` to `u64::MAX`, so finding the minimum needs no branch. Other values are shifted down by one.
fn sort_key(at: Option<Timestamp>) -> u64 {
    at.map_or(0, Timestamp::as_nanos).wrapping_sub(1)
}
