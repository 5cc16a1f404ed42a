//! Invariants of polls: each is answered within the hold time and a tick, and a session is not suspended
//! while its client keeps polling.

use encke_core::Timestamp;
use encke_core::close::SuspendReason;
use encke_core::session::{Deadline, LifecycleEvent, Transition};
use encke_server::SessionId;
use encke_server::testing::simulation::SessionView;

use super::Simulation;
use crate::schedule::ConnectionNumber;

/// The latest poll of a session, if the session has had no other connection since.
#[derive(Debug)]
pub(super) struct LastPoll {
    pub(super) connection: ConnectionNumber,
    /// When the poll arrived.
    pub(super) since: Timestamp,
    /// When the answer reached the server's kernel, or the server noticed that the client had closed the
    /// connection.
    pub(super) over_at: Option<Timestamp>,
}

impl Simulation {
    /// Records that a poll was accepted for a session.
    pub(crate) fn poll_begins(&mut self, session: String, connection: ConnectionNumber) {
        // Process the event of a take-over from another transport first.
        self.process_events();
        let since = self.server.now();
        let Ok(session) = session.parse::<SessionId>() else {
            return self.violate("wire", format!("invalid session id {session}"));
        };
        self.served_polls.insert(connection);
        self.polled.insert(session, LastPoll { connection, since, over_at: None });
    }

    /// Updates a poll after its task was polled. If the task has ended, the connection is over or parked.
    pub(super) fn update_poll(&mut self, number: ConnectionNumber, has_ended: bool) {
        let is_parked =
            self.connection(number).is_some_and(|it| it.wire.lock().is_parked && !it.wire.lock().server_gone);
        let has_ended = has_ended && !is_parked;
        if has_ended {
            self.served_polls.remove(&number);
        }
        let Some(connection) = self.connection(number) else { return };
        let Some(session) = connection.session.as_ref().and_then(|session| session.parse().ok()) else {
            return;
        };
        let written_at = connection.wire.lock().written_at;
        let now = self.server.now();
        let Some(polled) = self.polled.get_mut(&session).filter(|it| it.connection == number) else { return };
        polled.over_at = match (written_at, polled.over_at) {
            (Some(at), _) => Some(Timestamp::from_nanos(at)),
            (None, None) if has_ended => Some(now),
            (None, over_at) => over_at,
        };
    }

    /// Returns the number of polls whose sessions have released them, but whose last bytes are not written
    /// yet.
    pub(super) fn released_polls(&self) -> usize {
        let current = self.polled.values().filter(|it| self.served_polls.contains(&it.connection)).count();
        self.served_polls.len() - current
    }

    /// Returns whether this is the latest poll of its session.
    pub(crate) fn is_latest_poll(&self, number: ConnectionNumber) -> bool {
        self.polled_by(number).is_some()
    }

    fn polled_by(&self, number: ConnectionNumber) -> Option<&LastPoll> {
        let session = self.connection(number)?.session.as_ref()?.parse().ok()?;
        self.polled.get(&session).filter(|polled| polled.connection == number)
    }

    /// Checks that an empty answer did not come before the end of the hold time.
    pub(crate) fn check_hold_was_over(&mut self, number: ConnectionNumber) {
        let hold = self.scenario.config.session.poll_hold;
        let written_at = self.connection(number).and_then(|connection| connection.wire.lock().written_at);
        let since = self.polled_by(number).map(|polled| polled.since);
        if let (Some(at), Some(since)) = (written_at, since)
            && Timestamp::from_nanos(at) < since + hold
        {
            self.violate(
                "early expiry",
                format!("poll {number}, held since {since:?}, was answered at {at} ns"),
            );
        }
    }

    /// Checks a transition of a session that polls. Returns when its client was last connected.
    pub(super) fn check_polled(
        &mut self,
        session: SessionId,
        event: LifecycleEvent,
        now: Timestamp,
    ) -> Option<Timestamp> {
        match event.transition {
            Transition::Suspended(reason) => {
                let gap = self.scenario.config.session.poll_gap;
                let polled = self.polled.remove(&session);
                let over_at = polled.as_ref().and_then(|polled| polled.over_at);
                let is_wrong = match (reason, &polled) {
                    (SuspendReason::PollGap, _) => over_at.is_none_or(|over_at| now < over_at + gap),
                    (SuspendReason::Disconnected | SuspendReason::Moved, _) | (_, None) => false,
                    (_, Some(_)) => true,
                };
                if is_wrong {
                    self.violate("early expiry", format!("{session} {reason:?} at {now:?}: {polled:?}"));
                }
                over_at
            }
            Transition::Resumed(_) | Transition::Expired | Transition::Closed(_) => {
                self.polled.remove(&session);
                None
            }
            Transition::Opened => None,
        }
    }

    /// Checks that no poll is held for longer than the hold time and a tick.
    pub(super) fn check_holds(&mut self) {
        let (now, config) = (self.server.now(), &self.scenario.config);
        let latest = config.session.poll_hold + config.timers.tick;
        let late = self.polled.iter().find(|(_, it)| it.over_at.is_none() && it.since + latest <= now);
        if let Some((session, polled)) = late {
            let what = format!("{polled:?} of {session} at {now:?}");
            self.violate("late expiry", what);
        }
    }

    /// Describes why a session's held poll should have been answered. `None` if the poll may be held.
    pub(super) fn describe_wrong_hold(session: &SessionView) -> Option<String> {
        let is_held = session.deadlines.iter().any(|(deadline, _)| *deadline == Deadline::PollHold);
        if !is_held {
            return Some(format!("a poll is held without a deadline: {session:?}"));
        }
        session.is_stopped.then(|| format!("a poll is held although it could be answered: {session:?}"))
    }
}
