//! The deadlines of a session. Five deadlines share two fields: of the deadlines that share a field, at most
//! one is armed at a time, depending on the phase and the ping. The lifetime is derived from the time the
//! session was opened.

use super::{Phase, PingState, Session};
use crate::Timestamp;
use crate::session::{Deadline, SessionTimeouts};

/// The armed deadlines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deadlines {
    /// Ping while no ping is in progress; Pong while one is outstanding. While the kernel is being probed,
    /// this holds the time at which Pong was due.
    pub(super) heartbeat: Option<Timestamp>,
    /// [`Deadline::PollHold`] while attached, [`Deadline::PollGap`] between polls, otherwise
    /// [`Deadline::Reconnect`].
    pub(super) client: Option<Timestamp>,
    pub(super) idle: Option<Timestamp>,
    token: Option<Timestamp>,
}

impl Deadlines {
    pub(super) fn arm(&mut self, deadline: Deadline, at: Timestamp) {
        *self.field(deadline) = Some(at);
    }

    /// Disarms a deadline that may be armed in the current state. Other deadlines that share its field are
    /// disarmed, too.
    pub(super) fn disarm(&mut self, deadline: Deadline) {
        *self.field(deadline) = None;
    }

    pub(super) fn disarm_all(&mut self) {
        *self = Self::default();
    }

    /// Disarms the deadlines that end with the connection, except for Token.
    pub(super) fn disarm_connection_deadlines(&mut self) {
        (self.heartbeat, self.client) = (None, None);
    }

    fn field(&mut self, deadline: Deadline) -> &mut Option<Timestamp> {
        match deadline {
            Deadline::Ping | Deadline::Pong => &mut self.heartbeat,
            Deadline::PollHold | Deadline::PollGap | Deadline::Reconnect => &mut self.client,
            Deadline::Idle => &mut self.idle,
            Deadline::Token => &mut self.token,
            Deadline::Lifetime => unreachable!("the lifetime is derived from the opening time"),
        }
    }
}

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
