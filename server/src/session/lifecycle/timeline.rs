//! Recent lifecycle events of all sessions, for the admin API.

use encke_base::locks::Mutex;
use encke_core::session::{LifecycleEvent, Transition};
use encke_timeouts::clock::UnixTime;

use crate::session::id::SessionId;

/// Maximum number of events kept for all sessions together. Once full, the ring takes 512 KiB.
const CAPACITY: usize = 1 << 14;

/// Number of events read before the lock is released to let writers in. Reading this many takes about a
/// microsecond.
const READ_BATCH: u64 = 512;

/// The latest [`CAPACITY`] events of all sessions. A new event overwrites the oldest one.
#[derive(Debug)]
pub(super) struct Timeline {
    /// When the timeline was created. Until the ring is full, no event since then is missing.
    began: UnixTime,
    /// Locked while one event is written, or a batch is read.
    ring: Mutex<EventRing>,
}

#[derive(Debug)]
struct EventRing {
    /// The events; number `n`, counted from 0, is at index `n % CAPACITY`. The capacity is reserved at the
    /// start, but the system provides the memory only when it is used.
    events: Vec<TimelineEntry>,
    /// Number of events so far.
    total: u64,
}

#[derive(Clone, Copy, Debug)]
struct TimelineEntry {
    session: SessionId,
    event: LifecycleEvent,
    at: UnixTime,
}

const _: () = assert!(size_of::<TimelineEntry>() * CAPACITY == 512 * 1024);

/// Recent events of one session.
#[derive(Debug, PartialEq)]
pub(crate) struct SessionHistory {
    /// Earliest time after which no event is missing.
    pub(crate) since: UnixTime,
    /// Events in order, with their times.
    pub(crate) events: Vec<(UnixTime, Transition)>,
}

impl Timeline {
    pub(super) fn new(began: UnixTime) -> Self {
        Self { began, ring: Mutex::new(EventRing { events: Vec::with_capacity(CAPACITY), total: 0 }) }
    }

    /// Records an event. Consecutive events of a session may be recorded in either order.
    pub(super) fn record(&self, session: SessionId, event: LifecycleEvent, at: UnixTime) {
        self.ring.lock().push(TimelineEntry { session, event, at });
    }

    /// Returns the events of a session that are still stored.
    pub(super) fn history_of(&self, session: SessionId) -> SessionHistory {
        let mut found: Vec<TimelineEntry> = Vec::new();
        let (mut next, end) = (0, self.ring.lock().total);
        while next < end {
            let ring = self.ring.lock();
            next = ring.oldest().max(next);
            let until = end.min(next + READ_BATCH);
            found.extend(
                (next..until).map(|number| ring.get(number)).filter(|entry| entry.session == session),
            );
            next = until.max(next);
        }
        // Read this last: events that were overwritten in the meantime may not have been read.
        let since = self.ring.lock().since().unwrap_or(self.began);
        found.sort_by_key(|entry| entry.event.number);
        let events = found.iter().map(|entry| (entry.at, entry.event.transition)).collect();
        SessionHistory { since, events }
    }
}

impl EventRing {
    fn push(&mut self, entry: TimelineEntry) {
        if self.events.len() < CAPACITY {
            self.events.push(entry);
        } else {
            self.events[index(self.total)] = entry;
        }
        self.total += 1;
    }

    /// Returns the number of the oldest event that is still stored.
    fn oldest(&self) -> u64 {
        self.total - self.events.len() as u64
    }

    /// Returns the event with this number, which must still be stored.
    fn get(&self, number: u64) -> TimelineEntry {
        self.events[index(number)]
    }

    /// Returns the time of the oldest event, if earlier ones were overwritten.
    fn since(&self) -> Option<UnixTime> {
        (self.oldest() > 0).then(|| self.get(self.oldest()).at)
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number % CAPACITY as u64).expect("less than the capacity")
}

#[cfg(test)]
mod tests {
    use encke_core::close::{CloseReason, SuspendReason};
    use encke_core::session::ResumeKind;

    use super::*;

    const BEGAN: UnixTime = UnixTime::from_secs(100);

    fn id(number: u128) -> SessionId {
        SessionId::from_number(number)
    }

    fn at(number: u64) -> UnixTime {
        UnixTime::from_secs(1000 + number)
    }

    fn event(number: u32, transition: Transition) -> LifecycleEvent {
        LifecycleEvent { number, transition }
    }

    #[test]
    fn history_has_the_events_of_one_session_in_order() {
        let timeline = Timeline::new(BEGAN);
        let suspended = Transition::Suspended(SuspendReason::PongTimeout);
        let resumed = Transition::Resumed(ResumeKind::Reconnect);
        timeline.record(id(1), event(1, Transition::Opened), at(0));
        timeline.record(id(2), event(1, Transition::Opened), at(1));
        // The later event was recorded first.
        timeline.record(id(1), event(3, resumed), at(2));
        timeline.record(id(1), event(2, suspended), at(2));
        timeline.record(id(2), event(2, Transition::Closed(CloseReason::Kicked)), at(3));
        let events = vec![(at(0), Transition::Opened), (at(2), suspended), (at(2), resumed)];
        assert_eq!(timeline.history_of(id(1)), SessionHistory { since: BEGAN, events });
        let events = vec![(at(1), Transition::Opened), (at(3), Transition::Closed(CloseReason::Kicked))];
        assert_eq!(timeline.history_of(id(2)), SessionHistory { since: BEGAN, events });
        assert_eq!(timeline.history_of(id(3)), SessionHistory { since: BEGAN, events: Vec::new() });
    }

    #[test]
    fn full_ring_overwrites_the_oldest_event_and_reports_since_when_it_is_complete() {
        let timeline = Timeline::new(BEGAN);
        let opened = event(1, Transition::Opened);
        for number in 0..CAPACITY as u64 {
            timeline.record(id(number.into()), opened, at(number));
        }
        let first = SessionHistory { since: BEGAN, events: vec![(at(0), Transition::Opened)] };
        assert_eq!(timeline.history_of(id(0)), first, "no event was overwritten");
        for number in 0..2 * CAPACITY as u64 + 7 {
            timeline.record(id(u128::MAX), opened, at(CAPACITY as u64 + number));
            let since = at(number + 1);
            if number % 999 == 0 {
                let history = timeline.history_of(id((number + 1).into()));
                let is_kept = number + 1 < CAPACITY as u64;
                assert_eq!((history.since, history.events.len()), (since, usize::from(is_kept)), "{number}");
                assert!(timeline.history_of(id(number.into())).events.is_empty());
            }
        }
        assert_eq!(timeline.history_of(id(u128::MAX)).events.len(), CAPACITY);
        let ring = timeline.ring.lock();
        assert_eq!(
            (ring.events.len(), ring.events.capacity()),
            (CAPACITY, CAPACITY),
            "the buffer does not grow"
        );
    }

    /// With concurrent readers and writers, an event that was written before a read is found unless it was
    /// overwritten.
    #[test]
    fn readers_and_writers_run_concurrently() {
        let timeline = Timeline::new(BEGAN);
        let many = 3 * u32::try_from(CAPACITY).expect("it fits into a u32");
        let record =
            |session, number, at| timeline.record(id(session), event(number, Transition::Opened), at);
        std::thread::scope(|scope| {
            for writer in 1..=2 {
                scope.spawn(move || (1..=many).for_each(|number| record(writer, number, BEGAN)));
            }
            for number in 1..=50 {
                record(9, number, BEGAN);
                let events = timeline.history_of(id(9)).events.len();
                assert!(events <= number as usize);
            }
        });
        record(9, 51, at(0));
        assert_eq!(timeline.history_of(id(9)).events.last(), Some(&(at(0), Transition::Opened)));
    }
}
