//! Checks lifecycle events: one per transition, in order, exactly one end, and none too early.

use std::collections::BTreeMap;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::close::{CloseReason, SuspendReason};
use encke_core::session::{LifecycleEvent, ResumeKind, SessionTimeouts, Transition};
use encke_server::SessionId;

use crate::outcome::Verdict;

/// Phase of a session according to its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObservedPhase {
    Attached,
    Suspended,
    Ended,
}

#[derive(Debug)]
struct SessionRecord {
    phase: ObservedPhase,
    events: u32,
    opened_at: Timestamp,
    changed_at: Timestamp,
    /// When the client was last connected.
    left_at: Timestamp,
}

/// Lifecycles of all sessions of a run.
#[derive(Debug)]
pub(crate) struct Lifecycles {
    records: BTreeMap<SessionId, SessionRecord>,
    /// Number of sessions that have not ended.
    pub(crate) alive: usize,
    timeouts: SessionTimeouts,
}

impl Lifecycles {
    pub(crate) fn new(timeouts: &SessionTimeouts) -> Self {
        Self { records: BTreeMap::new(), alive: 0, timeouts: timeouts.clone() }
    }

    pub(crate) fn has_ended(&self, session: SessionId) -> bool {
        self.records.get(&session).is_some_and(|record| record.phase == ObservedPhase::Ended)
    }

    /// Marks all sessions as ended, because their server was killed and reported nothing.
    pub(crate) fn end_all(&mut self) {
        self.alive = 0;
        for record in self.records.values_mut() {
            record.phase = ObservedPhase::Ended;
        }
    }

    /// Shifts all times by the length of a restart, which does not count toward the timeouts of sessions.
    pub(crate) fn shift_times(&mut self, length: Duration) {
        for record in self.records.values_mut() {
            for at in [&mut record.opened_at, &mut record.changed_at, &mut record.left_at] {
                *at = *at + length;
            }
        }
    }

    /// Processes an event. `left_at` is when the client was last connected, if earlier than `now`. An error
    /// describes the violation.
    pub(crate) fn event(
        &mut self,
        session: SessionId,
        event: LifecycleEvent,
        now: Timestamp,
        left_at: Option<Timestamp>,
    ) -> Verdict {
        let record = self.records.entry(session).or_insert(SessionRecord {
            phase: ObservedPhase::Suspended,
            events: 0,
            opened_at: now,
            changed_at: now,
            left_at: now,
        });
        record.events += 1;
        if event.number != record.events {
            return Err(format!("event {event:?} instead of number {}", record.events));
        }
        let wrong = || Err(format!("event {event:?} in phase {:?}", record.phase));
        let next = match (event.transition, record.phase, record.events) {
            (Transition::Opened, _, 1) => {
                self.alive += 1;
                ObservedPhase::Attached
            }
            (Transition::Opened, ..) | (_, _, 1) | (_, ObservedPhase::Ended, _) => return wrong(),
            (Transition::Suspended(_), ObservedPhase::Attached, _) => ObservedPhase::Suspended,
            (Transition::Resumed(ResumeKind::Reconnect), ObservedPhase::Suspended, _)
            | (Transition::Resumed(ResumeKind::TakeOver), ObservedPhase::Attached, _) => {
                ObservedPhase::Attached
            }
            (Transition::Expired, ObservedPhase::Suspended, _) => ObservedPhase::Ended,
            (Transition::Closed(_), ..) => ObservedPhase::Ended,
            _ => return wrong(),
        };
        if next == ObservedPhase::Ended {
            self.alive -= 1;
        }
        let timeouts = &self.timeouts;
        let early = |since: Timestamp, timeout: Option<Duration>| {
            let due = since + timeout.unwrap_or(Duration::MAX);
            if now < due { Err(format!("event {event:?} at {now:?}, before {due:?}")) } else { Ok(()) }
        };
        let in_time = match event.transition {
            Transition::Expired => early(record.left_at, Some(timeouts.reconnect_window)),
            Transition::Closed(CloseReason::Lifetime) => early(record.opened_at, timeouts.lifetime),
            Transition::Closed(CloseReason::Idle) => early(record.opened_at, timeouts.idle),
            Transition::Suspended(SuspendReason::PongTimeout) => {
                early(record.changed_at, Some(timeouts.pong_timeout))
            }
            _ => Ok(()),
        };
        record.phase = next;
        record.changed_at = now;
        record.left_at = left_at.unwrap_or(now);
        in_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifecycles() -> (Lifecycles, SessionId) {
        let session = "s_AAAAAAAAAAAAAAAAAAAAAA".parse().expect("a valid id");
        let timeouts =
            encke_server::config::Settings::default().resolve().expect("the defaults are valid").session;
        (Lifecycles::new(&timeouts), session)
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn invalid_sequences_are_detected() {
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
