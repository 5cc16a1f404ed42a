//! Writing a session down, and going on with it in another process.

use std::time::Duration;

use super::carrier::{Carrier, PollState};
use super::deadlines::Deadlines;
use super::heartbeat::PingState;
use super::stage::Stage;
use super::{Phase, Session};
use crate::Timestamp;
use crate::session::outbox::Source;
use crate::session::record::{BadRecord, SessionRecord};
use crate::session::{ConnectionId, Deadline, Delivery, Heartbeat, Outbox, SessionTimeouts};

/// Carriers by their numbers in records.
const CARRIERS: [Carrier; 6] = [
    Carrier::Stream(Heartbeat::Frame),
    Carrier::Stream(Heartbeat::Message),
    Carrier::Events,
    Carrier::Poll(PollState::Held),
    Carrier::Poll(PollState::Answering),
    Carrier::Poll(PollState::Answered),
];

/// Far more than a session lives to see, and there are numbers after it.
const MOST_EVENTS: u32 = u32::MAX / 2;

impl<C: Source> Session<C> {
    /// Writes the session down, once it was told to [move](crate::session::Input::Move). Time has stood still for it since then.
    #[must_use]
    pub fn snapshot(&self, timeouts: &SessionTimeouts) -> Option<SessionRecord> {
        if self.phase() != Phase::Moved {
            return None;
        }
        let carrier = CARRIERS.iter().position(|carrier| *carrier == self.carrier);
        let remaining = |due: Timestamp| nanos(due.since(self.now));
        Some(SessionRecord {
            carrier: carrier
                .and_then(|number| u8::try_from(number).ok())
                .expect("every carrier has a number"),
            age_ns: nanos(self.now.since(self.opened_at)),
            silence_ns: nanos(self.now.since(self.last_received_at)),
            left_ns: nanos(self.now.since(self.marked_at)),
            reconnect_ns: self
                .deadlines
                .client()
                .map(remaining)
                .expect("Reconnect is armed since it was suspended"),
            idle_ns: self.deadlines.idle().map(remaining),
            lifetime_ns: self.end_of_life(timeouts).map(remaining),
            unconfirmed: self.unconfirmed,
            events: self.events,
            outbox: self.outbox.snapshot(),
        })
    }
}

impl<C> Session<C> {
    /// Goes on with a session that was written down: it is suspended, and has as long as it had then; how long it may live, the timeouts
    /// say that it is given from now on. `outbox` is what its record's
    /// [became](Outbox::restore).
    ///
    /// # Errors
    /// [`BadRecord`].
    pub fn restore(now: Timestamp, record: &SessionRecord, outbox: Outbox<C>) -> Result<Self, BadRecord> {
        let carrier = *CARRIERS.get(usize::from(record.carrier)).ok_or(BadRecord("an unknown carrier"))?;
        if record.events > MOST_EVENTS {
            return Err(BadRecord("more events than there can be"));
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
            stage: Stage::Suspended,
            connection: ConnectionId(0),
            carrier,
            delivery: Delivery::default(),
            ping: PingState::Idle,
            ping_seq: 0,
            write_held: false,
            deadlines,
            now,
            opened_at: before(record.age_ns),
            last_received_at,
            marked_at: before(record.left_ns),
            outbox,
            unconfirmed: record.unconfirmed,
            events: record.events,
        })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
