//! The latest lifecycle events of all sessions, for those who look at one.

use encke_core::session::{LifecycleEvent, Transition};
use parking_lot::Mutex;

use super::id::SessionId;
use crate::clock::UnixTime;

/// So many events of all sessions together are kept: 512 KiB once there have been as many.
const KEPT: usize = 1 << 14;

/// Whoever reads lets others write after so many events: a microsecond.
const AT_A_TIME: u64 = 512;

/// The last [`KEPT`] events of all sessions. A new one takes the room of the oldest.
#[derive(Debug)]
pub(super) struct Timeline {
    /// When it began: nothing that has happened since is missing before it is full.
    began: UnixTime,
    /// Held while one event is written, or some are read.
    ring: Mutex<Ring>,
}

#[derive(Debug)]
struct Ring {
    /// Where event number `n` of all is, from 0 on: at `n % KEPT`. There is room for all of them from the start, which the system gives when
    /// it is used.
    events: Vec<Kept>,
    /// Events so far.
    total: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    session: SessionId,
    event: LifecycleEvent,
    at: UnixTime,
}

const _: () = assert!(size_of::<Kept>() * KEPT == 512 * 1024);

/// What is known of a session's life.
#[derive(Debug, PartialEq)]
pub(crate) struct SessionLife {
    /// Everything since then is known.
    pub(crate) since: UnixTime,
    /// What has happened, in its order, and when.
    pub(crate) events: Vec<(UnixTime, Transition)>,
}

impl Timeline {
    pub(super) fn new(began: UnixTime) -> Self {
        Self { began, ring: Mutex::new(Ring { events: Vec::with_capacity(KEPT), total: 0 }) }
    }

    /// Two events of one session may come in either order.
    pub(super) fn note(&self, session: SessionId, event: LifecycleEvent, at: UnixTime) {
        self.ring.lock().push(Kept { session, event, at });
    }

    /// The events of a session that are kept.
    pub(super) fn of(&self, session: SessionId) -> SessionLife {
        let mut found: Vec<Kept> = Vec::new();
        let (mut next, end) = (0, self.ring.lock().total);
        while next < end {
            let ring = self.ring.lock();
            next = ring.oldest().max(next);
            let until = end.min(next + AT_A_TIME);
            found.extend((next..until).map(|number| ring.get(number)).filter(|kept| kept.session == session));
            next = until.max(next);
        }
        // Only now: what has been overwritten meanwhile may not have been read.
        let since = self.ring.lock().since().unwrap_or(self.began);
        found.sort_by_key(|kept| kept.event.number);
        let events = found.iter().map(|kept| (kept.at, kept.event.transition)).collect();
        SessionLife { since, events }
    }
}

impl Ring {
    fn push(&mut self, kept: Kept) {
        if self.events.len() < KEPT {
            self.events.push(kept);
        } else {
            self.events[index(self.total)] = kept;
        }
        self.total += 1;
    }

    /// The number of the oldest event that is kept.
    fn oldest(&self) -> u64 {
        self.total - self.events.len() as u64
    }

    /// The event of this number, which is kept.
    fn get(&self, number: u64) -> Kept {
        self.events[index(number)]
    }

    /// When the oldest event happened, if there were others before it.
    fn since(&self) -> Option<UnixTime> {
        (self.oldest() > 0).then(|| self.get(self.oldest()).at)
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number % KEPT as u64).expect("less than are kept")
}

#[cfg(test)]
mod tests {
    use encke_core::close::{CloseReason, SuspendReason};
    use encke_core::session::ResumeKind;

    use super::*;

    const BEGAN: UnixTime = UnixTime::from_secs(100);

    fn id(number: u128) -> SessionId {
        SessionId::of_number(number)
    }

    fn at(number: u64) -> UnixTime {
        UnixTime::from_secs(1000 + number)
    }

    fn event(number: u32, transition: Transition) -> LifecycleEvent {
        LifecycleEvent { number, transition }
    }

    #[test]
    fn each_session_has_its_own_life_in_the_order_of_its_events() {
        let timeline = Timeline::new(BEGAN);
        let suspended = Transition::Suspended(SuspendReason::PongTimeout);
        let resumed = Transition::Resumed(ResumeKind::Reconnect);
        timeline.note(id(1), event(1, Transition::Opened), at(0));
        timeline.note(id(2), event(1, Transition::Opened), at(1));
        // The later one was told first.
        timeline.note(id(1), event(3, resumed), at(2));
        timeline.note(id(1), event(2, suspended), at(2));
        timeline.note(id(2), event(2, Transition::Closed(CloseReason::Kicked)), at(3));
        let events = vec![(at(0), Transition::Opened), (at(2), suspended), (at(2), resumed)];
        assert_eq!(timeline.of(id(1)), SessionLife { since: BEGAN, events });
        let events = vec![(at(1), Transition::Opened), (at(3), Transition::Closed(CloseReason::Kicked))];
        assert_eq!(timeline.of(id(2)), SessionLife { since: BEGAN, events });
        assert_eq!(timeline.of(id(3)), SessionLife { since: BEGAN, events: Vec::new() });
    }

    #[test]
    fn when_it_is_full_the_oldest_event_gives_way_and_that_is_said() {
        let timeline = Timeline::new(BEGAN);
        let opened = event(1, Transition::Opened);
        for number in 0..KEPT as u64 {
            timeline.note(id(number.into()), opened, at(number));
        }
        let first = SessionLife { since: BEGAN, events: vec![(at(0), Transition::Opened)] };
        assert_eq!(timeline.of(id(0)), first, "all are kept");
        for number in 0..2 * KEPT as u64 + 7 {
            timeline.note(id(u128::MAX), opened, at(KEPT as u64 + number));
            let since = at(number + 1);
            if number % 999 == 0 {
                let life = timeline.of(id((number + 1).into()));
                let is_kept = number + 1 < KEPT as u64;
                assert_eq!((life.since, life.events.len()), (since, usize::from(is_kept)), "{number}");
                assert!(timeline.of(id(number.into())).events.is_empty());
            }
        }
        assert_eq!(timeline.of(id(u128::MAX)).events.len(), KEPT);
        let ring = timeline.ring.lock();
        assert_eq!((ring.events.len(), ring.events.capacity()), (KEPT, KEPT), "no more memory than that");
    }

    /// Readers and writers at once: what was written before a read is found, unless it has been overwritten.
    #[test]
    fn a_reader_goes_on_while_others_write() {
        let timeline = Timeline::new(BEGAN);
        let many = 3 * u32::try_from(KEPT).expect("they are few");
        let noted = |session, number, at| timeline.note(id(session), event(number, Transition::Opened), at);
        std::thread::scope(|scope| {
            for writer in 1..=2 {
                scope.spawn(move || (1..=many).for_each(|number| noted(writer, number, BEGAN)));
            }
            for number in 1..=50 {
                noted(9, number, BEGAN);
                let events = timeline.of(id(9)).events.len();
                assert!(events <= number as usize);
            }
        });
        noted(9, 51, at(0));
        assert_eq!(timeline.of(id(9)).events.last(), Some(&(at(0), Transition::Opened)));
    }
}
