//! Polls, as their server must treat them: each is answered by its hold and a tick, and a session whose client polls on is not
//! suspended.

use encke_core::Timestamp;
use encke_core::close::SuspendReason;
use encke_core::session::{Deadline, LifecycleEvent, Transition};
use encke_server::SessionId;
use encke_server::simulation::SessionView;

use super::World;
use crate::schedule::ConnectionNumber;

/// The last poll of a session that has had no other connection since.
#[derive(Debug)]
pub(super) struct Polled {
    pub(super) connection: ConnectionNumber,
    /// When it came.
    pub(super) since: Timestamp,
    /// When its answer was in the server's kernel, or its client's end was noticed.
    pub(super) over_at: Option<Timestamp>,
}

impl World {
    /// A poll has its session.
    pub(crate) fn poll_begins(&mut self, session: String, connection: ConnectionNumber) {
        // That it has taken a session over from a connection of another kind is old news.
        self.hear_events();
        let since = self.server.now();
        let Ok(session) = session.parse::<SessionId>() else {
            return self.violate("wire", format!("a session {session}"));
        };
        self.served_polls.insert(connection);
        self.polled.insert(session, Polled { connection, since, over_at: None });
    }

    /// The task of a connection has done something. If that has ended, the connection is over, or at rest.
    pub(super) fn look_at_poll(&mut self, number: ConnectionNumber, has_ended: bool) {
        let is_at_rest = self
            .connection(number)
            .is_some_and(|it| it.wire.lock().is_at_rest && !it.wire.lock().server_gone);
        let has_ended = has_ended && !is_at_rest;
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

    /// Polls that their sessions are done with, and whose last answers are not written yet.
    pub(super) fn parting_polls(&self) -> usize {
        let current = self.polled.values().filter(|it| self.served_polls.contains(&it.connection)).count();
        self.served_polls.len() - current
    }

    /// Whether this is the last poll of its session that came.
    pub(crate) fn is_latest_poll(&self, number: ConnectionNumber) -> bool {
        self.polled_by(number).is_some()
    }

    fn polled_by(&self, number: ConnectionNumber) -> Option<&Polled> {
        let session = self.connection(number)?.session.as_ref()?.parse().ok()?;
        self.polled.get(&session).filter(|polled| polled.connection == number)
    }

    /// An answer without anything in it.
    pub(crate) fn check_hold_was_over(&mut self, number: ConnectionNumber) {
        let hold = self.scenario.config.session.poll_hold;
        let written_at = self.connection(number).and_then(|connection| connection.wire.lock().written_at);
        let since = self.polled_by(number).map(|polled| polled.since);
        if let (Some(at), Some(since)) = (written_at, since)
            && Timestamp::from_nanos(at) < since + hold
        {
            self.violate("early expiry", format!("poll {number} of {since:?} was answered at {at} ns"));
        }
    }

    /// A session is told to have changed. Returns when its client was last there, if it polls.
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

    /// Every poll that is held has been for no longer than its hold and a tick.
    pub(super) fn check_holds(&mut self) {
        let (now, config) = (self.server.now(), &self.scenario.config);
        let latest = config.session.poll_hold + config.timers.tick;
        let late = self.polled.iter().find(|(_, it)| it.over_at.is_none() && it.since + latest <= now);
        if let Some((session, polled)) = late {
            let what = format!("{polled:?} of {session} at {now:?}");
            self.violate("late expiry", what);
        }
    }

    /// What is wrong with a session whose client has its poll held, and is to have everything that there was before.
    pub(super) fn held_in_vain(session: &SessionView) -> Option<String> {
        let is_held = session.deadlines.iter().any(|(deadline, _)| *deadline == Deadline::PollHold);
        if !is_held {
            return Some(format!("a poll is held without end: {session:?}"));
        }
        session.is_stopped.then(|| format!("a poll is held that could bring more: {session:?}"))
    }
}
