//! What a session waits for. Two words serve five deadlines, of which the phase and the ping allow one each; the lifetime follows from
//! when the session began.

use super::{Phase, PingState, Session};
use crate::Timestamp;
use crate::session::{Deadline, SessionTimeouts};

/// An instant for each that is armed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deadlines {
    /// Ping, while none is under way. Pong, while one is outstanding; when that has passed, until the kernel was asked: when it was due.
    heartbeat: Option<Timestamp>,
    /// PollHold while attached, PollGap between polls, Reconnect after that.
    client: Option<Timestamp>,
    idle: Option<Timestamp>,
    token: Option<Timestamp>,
}

impl Deadlines {
    pub(super) fn arm(&mut self, deadline: Deadline, at: Timestamp) {
        *self.word(deadline) = Some(at);
    }

    /// For one that may be armed now: the others that share its word are disarmed as well.
    pub(super) fn disarm(&mut self, deadline: Deadline) {
        *self.word(deadline) = None;
    }

    pub(super) fn disarm_all(&mut self) {
        *self = Self::default();
    }

    /// Those that end with the connection, but for that of its token.
    pub(super) fn disarm_connection(&mut self) {
        (self.heartbeat, self.client) = (None, None);
    }

    pub(super) fn heartbeat(&self) -> Option<Timestamp> {
        self.heartbeat
    }

    pub(super) fn client(&self) -> Option<Timestamp> {
        self.client
    }

    pub(super) fn idle(&self) -> Option<Timestamp> {
        self.idle
    }

    fn word(&mut self, deadline: Deadline) -> &mut Option<Timestamp> {
        match deadline {
            Deadline::Ping | Deadline::Pong => &mut self.heartbeat,
            Deadline::PollHold | Deadline::PollGap | Deadline::Reconnect => &mut self.client,
            Deadline::Idle => &mut self.idle,
            Deadline::Token => &mut self.token,
            Deadline::Lifetime => unreachable!("it follows from when the session began"),
        }
    }
}

impl<C> Session<C> {
    /// Every deadline that may be armed now, in the order in which they act, and when it is due if it is.
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
            (self.end_of_life(timeouts), Deadline::Lifetime),
        ]
    }

    /// Whether one may be due by then: a look that costs little, since most find nothing.
    pub(super) fn may_be_due(&self, timeouts: &SessionTimeouts, by: Timestamp) -> bool {
        nanos(self.deadlines.heartbeat) < by.as_nanos() || !self.has_only_heartbeat(timeouts, by)
    }

    /// Whether nothing but the heartbeat is due by then.
    #[must_use]
    pub fn has_only_heartbeat(&self, timeouts: &SessionTimeouts, by: Timestamp) -> bool {
        let Deadlines { heartbeat: _, client, idle, token } = self.deadlines;
        let first = nanos(client).min(nanos(idle)).min(nanos(token));
        first >= by.as_nanos() && self.end_of_life(timeouts).is_none_or(|end| end > by)
    }

    /// The first to pass; among equals, the first of [`Deadline::ALL`].
    pub(super) fn earliest(&self, timeouts: &SessionTimeouts) -> Option<(Timestamp, Deadline)> {
        let all = self.candidates(timeouts);
        // After every step of every session.
        let mut first = all[0];
        for next in &all[1..] {
            first = if nanos(next.0) < nanos(first.0) { *next } else { first };
        }
        Some((first.0?, first.1))
    }

    pub(super) fn armed(
        &self,
        timeouts: &SessionTimeouts,
    ) -> impl Iterator<Item = (Timestamp, Deadline)> + use<C> {
        self.candidates(timeouts).into_iter().filter_map(|(at, deadline)| Some((at?, deadline)))
    }

    /// When the session has lived for as long as it may.
    pub(super) fn end_of_life(&self, timeouts: &SessionTimeouts) -> Option<Timestamp> {
        let lifetime = timeouts.lifetime.filter(|_| !matches!(self.phase(), Phase::Closed(_)));
        lifetime.map(|lifetime| self.opened_at + lifetime)
    }
}

/// An instant that is none is later than all others, so there is nothing to branch on. One less than it is.
fn nanos(at: Option<Timestamp>) -> u64 {
    at.map_or(0, Timestamp::as_nanos).wrapping_sub(1)
}
