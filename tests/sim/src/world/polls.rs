//! Invariants of polls: each is answered within the hold time and a tick, and a session is not suspended
//! while its client keeps polling.

use encke_core::Timestamp;
use encke_core::close::SuspendReason;
use encke_core::session::{LifecycleEvent, Transition};
use encke_server::SessionId;

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
    pub(crate) fn poll_begins(&mut self, session: &str, number: ConnectionNumber) {
        // Process the event of a take-over from another transport first.
        self.process_events();
        if let Some(connection) = self.connection_mut(number) {
            connection.session = Some(session.to_owned());
        }
        let Ok(session) = session.parse() else {
            return self.violate("wire", format!("invalid session id {session}"));
        };
        self.served_polls.insert(number);
        let since = self.server.now();
        let before = self.polled.insert(session, LastPoll { connection: number, since, over_at: None });
        let newest = self.connection(number).and_then(|it| self.clients[it.client].last_arrived);
        if let Some(before) = before.filter(|before| newest == Some(before.connection)) {
            self.violate("polls", format!("poll {number} replaced {before:?}, which arrived last"));
        }
    }

    /// Updates a poll after its task was polled. If the task has ended, the connection is over or parked.
    pub(super) fn update_poll(&mut self, number: ConnectionNumber, has_ended: bool) {
        let Some(connection) = self.connections.get(number).and_then(Option::as_deref) else {
            if has_ended {
                self.served_polls.remove(&number);
            }
            return;
        };
        let wire = connection.wire.lock();
        let has_ended = has_ended && (!wire.is_parked || wire.server_gone);
        if has_ended {
            self.served_polls.remove(&number);
        }
        let session = connection.session.as_ref().and_then(|session| session.parse().ok());
        let polled = session.and_then(|session: SessionId| self.polled.get_mut(&session));
        let Some(polled) = polled.filter(|it| it.connection == number) else { return };
        match wire.written_at {
            Some(at) => polled.over_at = Some(Timestamp::from_nanos(at)),
            None if has_ended => polled.over_at = polled.over_at.or(Some(self.server.now())),
            None => {}
        }
    }

    /// Returns the number of polls whose sessions have released them, but whose last bytes are not written
    /// yet.
    pub(super) fn released_polls(&self) -> usize {
        let current = self.polled.values().filter(|it| self.served_polls.contains(&it.connection)).count();
        self.served_polls.len() - current
    }

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
            let what = format!("poll {number}, held since {since:?}, was answered at {at} ns");
            self.violate("early expiry", what);
        }
    }

    /// Checks a transition of a session that polls. Returns when its client was last connected.
    pub(super) fn check_polled(
        &mut self,
        session: SessionId,
        event: LifecycleEvent,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if event.transition == Transition::Opened {
            return None;
        }
        let polled = self.polled.remove(&session);
        let Transition::Suspended(reason) = event.transition else { return None };
        let gap = self.scenario.config.session.poll_gap;
        let over_at = polled.as_ref().and_then(|polled| polled.over_at);
        let is_wrong = match reason {
            SuspendReason::PollGap => over_at.is_none_or(|over_at| now < over_at + gap),
            SuspendReason::Disconnected | SuspendReason::Moved => false,
            _ => polled.is_some(),
        };
        if is_wrong {
            self.violate("early expiry", format!("{session} {reason:?} at {now:?}: {polled:?}"));
        }
        over_at
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
}
