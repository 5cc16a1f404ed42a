//! Saving a session as a record, and restoring it in another process.

use std::time::Duration;

use super::Session;
use super::carrier::{Carrier, PollState};
use super::deadlines::Deadlines;
use super::phase::{Phase, PhaseTag};
use super::ping_state::PingState;
use crate::Timestamp;
use crate::session::outbox::LogHandle;
use crate::session::record::{BadRecord, SessionRecord};
use crate::session::{ConnectionId, Deadline, DeliveryMode, Outbox, SessionTimeouts};

/// All carriers. The index of each is its number in records.
const CARRIERS: [Carrier; 6] = [
    Carrier::FrameStream,
    Carrier::MessageStream,
    Carrier::Events,
    Carrier::Poll(PollState::Held),
    Carrier::Poll(PollState::Answering),
    Carrier::Poll(PollState::Answered),
];

/// Upper bound on a record's event count: far more than any session reaches, and far from overflow.
const MAX_EVENTS: u32 = u32::MAX / 2;

impl<C: LogHandle> Session<C> {
    /// Returns the session's record if it has been [moved](crate::session::Input::Move), else `None`. The
    /// session's time has stood still since the move.
    #[must_use]
    pub fn snapshot(&self, timeouts: &SessionTimeouts) -> Option<SessionRecord> {
        (self.phase() == Phase::Moved).then(|| self.record(timeouts))
    }

    /// Returns the record with which another process can continue the session if this one fails. For a session with
    /// a connection, the reconnect window is that of a connection lost now.
    ///
    /// Messages that are sent after this call are not in the record: see [`Outbox::continue_after_loss`].
    #[must_use]
    pub fn record(&self, timeouts: &SessionTimeouts) -> SessionRecord {
        let is_suspended = matches!(self.phase(), Phase::Suspended | Phase::Moved);
        let reconnect = self.deadlines.client.filter(|_| is_suspended);
        let carrier = CARRIERS.iter().position(|carrier| *carrier == self.carrier);
        let remaining = |due: Timestamp| nanos(due.since(self.now));
        SessionRecord {
            carrier: carrier
                .and_then(|number| u8::try_from(number).ok())
                .expect("every carrier has a number"),
            age_ns: nanos(self.now.since(self.opened_at)),
            silence_ns: nanos(self.now.since(self.last_received_at)),
            detached_for_ns: nanos(self.now.since(self.marked_at)),
            reconnect_ns: reconnect.map_or(nanos(timeouts.reconnect_window), remaining),
            idle_ns: self.deadlines.idle.map(remaining),
            lifetime_ns: self.lifetime_end(timeouts).map(remaining),
            unconfirmed: self.unconfirmed,
            events: self.events,
            outbox: self.outbox.snapshot(),
        }
    }
}

impl<C> Session<C> {
    /// Restores a session. It is suspended, with the remaining times of the record; its maximum lifetime,
    /// however, follows from the timeouts passed to later calls. `outbox` must have been
    /// [restored](Outbox::restore) from the same record.
    ///
    /// # Errors
    /// Returns [`BadRecord`] if the record is inconsistent.
    pub fn restore(now: Timestamp, record: &SessionRecord, outbox: Outbox<C>) -> Result<Self, BadRecord> {
        let carrier =
            *CARRIERS.get(usize::from(record.carrier)).ok_or(BadRecord("unknown kind of connection"))?;
        if record.events > MAX_EVENTS {
            return Err(BadRecord("the number of events is too high"));
        }
        let before = |ns| now.before(Duration::from_nanos(ns)).unwrap_or(Timestamp::from_nanos(0));
        let mut deadlines = Deadlines::default();
        for (deadline, remaining) in
            [(Deadline::Reconnect, Some(record.reconnect_ns)), (Deadline::Idle, record.idle_ns)]
        {
            if let Some(remaining) = remaining {
                deadlines.arm(deadline, now + Duration::from_nanos(remaining));
            }
        }
        let last_received_at = before(record.silence_ns);
        Ok(Self {
            phase_tag: PhaseTag::Suspended,
            connection: ConnectionId(0),
            carrier,
            delivery: DeliveryMode::default(),
            ping: PingState::Idle,
            ping_seq: 0,
            deadlines,
            now,
            opened_at: before(record.age_ns),
            last_received_at,
            marked_at: before(record.detached_for_ns),
            outbox,
            unconfirmed: record.unconfirmed,
            events: record.events,
        })
    }
}

impl<C> Session<C> {
    /// Like [`Self::restore`], but the client was connected to the other process. The session counts as attached until
    /// the client connects to this one, as between polls, or until
    /// [`Input::Detach`](crate::session::Input::Detach).
    ///
    /// # Errors
    /// Returns [`BadRecord`] if the record is inconsistent.
    pub fn restore_attached(
        now: Timestamp,
        record: &SessionRecord,
        outbox: Outbox<C>,
        timeouts: &SessionTimeouts,
    ) -> Result<Self, BadRecord> {
        let mut session = Self::restore(now, record, outbox)?;
        session.set_phase(Phase::BetweenPolls);
        session.marked_at = now;
        session.deadlines.arm(Deadline::PollGap, now + timeouts.poll_gap);
        Ok(session)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
