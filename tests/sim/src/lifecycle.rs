//! Lifecycle events: one for each transition, in order, exactly one end, and none before its time.

use std::collections::BTreeMap;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::close::{CloseReason, SuspendReason};
use encke_core::session::{LifecycleEvent, ResumeKind, SessionTimeouts, Transition};
use encke_server::SessionId;

/// Where a session is, by its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Attached,
    Suspended,
    Ended,
}

#[derive(Debug)]
struct Life {
    phase: Phase,
    events: u32,
    opened_at: Timestamp,
    changed_at: Timestamp,
    /// When its client was last there.
    left_at: Timestamp,
}

/// All sessions that there ever were.
#[derive(Debug)]
pub(crate) struct Lifecycles {
    lives: BTreeMap<SessionId, Life>,
    alive: usize,
    events: u64,
    timeouts: SessionTimeouts,
}

impl Lifecycles {
    pub(crate) fn new(timeouts: &SessionTimeouts) -> Self {
        Self { lives: BTreeMap::new(), alive: 0, events: 0, timeouts: timeouts.clone() }
    }

    /// Sessions that have not ended.
    pub(crate) fn alive(&self) -> usize {
        self.alive
    }

    /// Events in all.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn has_ended(&self, session: SessionId) -> bool {
        self.lives.get(&session).is_some_and(|life| life.phase == Phase::Ended)
    }

    /// All sessions have ended with their server, which has told nobody.
    pub(crate) fn end_all(&mut self) {
        self.alive = 0;
        for life in self.lives.values_mut() {
            life.phase = Phase::Ended;
        }
    }

    /// Time stood still for them this long.
    pub(crate) fn stand_still(&mut self, length: Duration) {
        for life in self.lives.values_mut() {
            for at in [&mut life.opened_at, &mut life.changed_at, &mut life.left_at] {
                *at = *at + length;
            }
        }
    }

    /// Takes an event in. `left_at` is when the client was last there, if that is not now. Returns what is wrong with it, if anything.
    pub(crate) fn event(
        &mut self,
        session: SessionId,
        event: LifecycleEvent,
        now: Timestamp,
        left_at: Option<Timestamp>,
    ) -> Result<(), String> {
        self.events += 1;
        let life = self.lives.entry(session).or_insert(Life {
            phase: Phase::Suspended,
            events: 0,
            opened_at: now,
            changed_at: now,
            left_at: now,
        });
        life.events += 1;
        if event.number != life.events {
            return Err(format!("event {event:?} where number {} is due", life.events));
        }
        let wrong = || Err(format!("event {event:?} in phase {:?}", life.phase));
        let next = match (event.transition, life.phase, life.events) {
            (Transition::Opened, _, 1) => {
                self.alive += 1;
                Phase::Attached
            }
            (Transition::Opened, ..) | (_, _, 1) | (_, Phase::Ended, _) => return wrong(),
            (Transition::Suspended(_), Phase::Attached, _) => Phase::Suspended,
            (Transition::Resumed(ResumeKind::Reconnect), Phase::Suspended, _) => Phase::Attached,
            (Transition::Resumed(ResumeKind::TakeOver), Phase::Attached, _) => Phase::Attached,
            (Transition::Expired, Phase::Suspended, _) => Phase::Ended,
            (Transition::Closed(_), ..) => Phase::Ended,
            _ => return wrong(),
        };
        if next == Phase::Ended {
            self.alive -= 1;
        }
        let timeouts = &self.timeouts;
        let early = |since: Timestamp, timeout: Option<Duration>| {
            let due = since + timeout.unwrap_or(Duration::MAX);
            if now < due { Err(format!("event {event:?} at {now:?}, before {due:?}")) } else { Ok(()) }
        };
        let in_time = match event.transition {
            Transition::Expired => early(life.left_at, Some(timeouts.reconnect_window)),
            Transition::Closed(CloseReason::Lifetime) => early(life.opened_at, timeouts.lifetime),
            Transition::Closed(CloseReason::Idle) => early(life.opened_at, timeouts.idle),
            Transition::Suspended(SuspendReason::PongTimeout) => {
                early(life.changed_at, Some(timeouts.pong_timeout))
            }
            _ => Ok(()),
        };
        life.phase = next;
        life.changed_at = now;
        life.left_at = left_at.unwrap_or(now);
        in_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifecycles() -> (Lifecycles, SessionId) {
        let session = "s_AAAAAAAAAAAAAAAAAAAAAA".parse().expect("a good id");
        let timeouts =
            encke_server::config::Settings::default().resolve().expect("the defaults are valid").session;
        (Lifecycles::new(&timeouts), session)
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn what_must_not_happen_is_found() {
        use Transition::{Closed, Expired, Opened, Resumed, Suspended};
        let lost = Suspended(SuspendReason::ConnectionLost);
        let kicked = Closed(CloseReason::Kicked);
        for (good, events) in [
            (true, &[(1, Opened, 1), (2, lost, 2), (3, Expired, 122)][..]),
            (false, &[(1, Opened, 1), (2, lost, 2), (3, Expired, 121)]),
            (false, &[(1, Opened, 1), (3, lost, 2)]),
            (false, &[(1, lost, 1)]),
            (false, &[(1, Opened, 1), (2, Opened, 2)]),
            (false, &[(1, Opened, 1), (2, Resumed(ResumeKind::Reconnect), 2)]),
            (true, &[(1, Opened, 1), (2, Resumed(ResumeKind::TakeOver), 2), (3, kicked, 2)]),
            (false, &[(1, Opened, 1), (2, kicked, 2), (3, kicked, 2)]),
        ] {
            let (mut lifecycles, session) = lifecycles();
            let all = events.iter().try_for_each(|&(number, transition, seconds)| {
                lifecycles.event(session, LifecycleEvent { number, transition }, at(seconds), None)
            });
            assert_eq!(all.is_ok(), good, "{events:?}: {all:?}");
        }
    }
}
