//! The steady state of a server's sessions. Each session has one timer, a heartbeat that is postponed
//! whenever the peer sends something.
//!
//! A tick is 10 ms. A session receives a message every 10 s on average, at random, and postpones its ping to
//! 25 s later. If nothing arrives, the ping is sent, and the peer has 10 s for the pong, which usually takes
//! less than 200 ms. Every 10 minutes on average a session loses its connection. It is then kept for 120 s,
//! and the peer usually reconnects within 60 s.
//!
//! All events depend on the tick and the session, never on the order of timers within a tick. All exact
//! structures therefore have the same history, which is verified with a checksum.

use std::mem;
use std::time::{Duration, Instant};

use encke_wheel_bench::random::{Random, hash, mix};
use encke_wheel_bench::structures::Structure;

const PING: u64 = 2_500;
const PONG: u64 = 1_000;
const RECONNECT_WINDOW: u64 = 12_000;

/// Mean number of ticks between messages of a session.
const MESSAGE_INTERVAL: u64 = 1_000;
/// Mean number of ticks between disconnects of a session.
const DISCONNECT_INTERVAL: u64 = 60_000;
/// Length of the table of upcoming messages, in ticks: longer than any session takes to reconnect.
const UPCOMING_TICKS: usize = 8_192;

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) time: Duration,
    pub(crate) operations: u64,
    /// Checksum of the history, or `None` if the structure is not exact.
    pub(crate) checksum: Option<u64>,
}

/// Returns the number of ticks to run: enough for about 200,000 operations, or 20,000 in a quick run, and at
/// least 20 s.
pub(crate) fn ticks(timers: u32, quick: bool) -> u64 {
    let ticks = if quick { 20_000_000 } else { 200_000_000 };
    (ticks / u64::from(timers)).max(2_000)
}

pub(crate) fn measure<S: Structure>(timers: u32, ticks: u64) -> Outcome {
    let mut sessions = SessionLoad::<S>::new(timers);
    let clock = Instant::now();
    for tick in 1..=ticks {
        sessions.step(tick);
    }
    let time = clock.elapsed();
    let exact = sessions.timers.precision(RECONNECT_WINDOW) == 0;
    let checksum = exact.then_some(sessions.checksum);
    Outcome { time, operations: sessions.operations, checksum }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionState {
    /// Connected. The timer triggers the next ping.
    Waiting,
    /// Connected, waiting for the pong. The timer is its timeout.
    Pinged,
    /// Disconnected. The timer ends the reconnect window.
    Disconnected,
}

struct SessionLoad<S: Structure> {
    timers: S,
    states: Vec<SessionState>,
    keys: Vec<S::Key>,
    /// Sessions that will receive something, indexed by tick modulo the length.
    upcoming: Vec<Vec<u32>>,
    random: Random,
    operations: u64,
    checksum: u64,
}

impl<S: Structure> SessionLoad<S> {
    fn new(count: u32) -> Self {
        let mut timers = S::new(RECONNECT_WINDOW);
        let first = |id: u32| 1 + u64::from(hash(id.into(), 2_500));
        let keys = (0..count).map(|id| timers.schedule(first(id), id.into())).collect();
        let states = vec![SessionState::Waiting; count as usize];
        let upcoming = vec![Vec::new(); UPCOMING_TICKS];
        SessionLoad { timers, states, keys, upcoming, random: Random(1), operations: 0, checksum: 0 }
    }

    fn step(&mut self, now: u64) {
        while let Some(due) = self.timers.expire_next(now) {
            let id = u32::try_from(due.value).expect("values are ids");
            self.expire(id, now);
        }
        #[expect(clippy::cast_possible_truncation, reason = "below the length")]
        let mut receive = mem::take(&mut self.upcoming[now as usize % UPCOMING_TICKS]);
        for id in receive.drain(..) {
            self.receive(id, now);
        }
        for _ in 0..self.occurrences(now, MESSAGE_INTERVAL) {
            let id = self.any();
            if self.states[id as usize] != SessionState::Disconnected {
                self.receive(id, now);
            }
        }
        for _ in 0..self.occurrences(now, DISCONNECT_INTERVAL) {
            let id = self.any();
            if self.states[id as usize] != SessionState::Disconnected {
                self.cancel(id);
                self.disconnect(id, now);
            }
        }
    }

    /// Returns how often an event occurs at this tick in all sessions together, if it occurs in each session
    /// every `every` ticks.
    fn occurrences(&self, now: u64, every: u64) -> u64 {
        let sessions = self.states.len() as u64;
        now * sessions / every - (now - 1) * sessions / every
    }

    fn any(&mut self) -> u32 {
        let count = u32::try_from(self.states.len()).expect("derived from a u32");
        self.random.below(count)
    }

    fn expire(&mut self, id: u32, now: u64) {
        self.operations += 1;
        self.checksum = self.checksum.wrapping_add(mix(now << 32 | u64::from(id)));
        match self.states[id as usize] {
            SessionState::Waiting => {
                self.set(id, SessionState::Pinged, now + PONG);
                self.receive_later(id, now, 1 + hash(now << 32 | u64::from(id), 20), 98);
            }
            SessionState::Pinged => self.disconnect(id, now),
            SessionState::Disconnected => self.set(id, SessionState::Waiting, now + PING),
        }
    }

    fn receive(&mut self, id: u32, now: u64) {
        match self.states[id as usize] {
            SessionState::Waiting => {
                let known = self.timers.reschedule(self.keys[id as usize], now + PING);
                assert!(known, "{}: the timer to move does not exist", S::NAME);
                self.operations += 1;
            }
            SessionState::Pinged | SessionState::Disconnected => {
                self.cancel(id);
                self.set(id, SessionState::Waiting, now + PING);
            }
        }
    }

    fn disconnect(&mut self, id: u32, now: u64) {
        self.set(id, SessionState::Disconnected, now + RECONNECT_WINDOW);
        self.receive_later(id, now, 1 + hash(now << 32 | u64::from(id), 6_000), 90);
    }

    fn set(&mut self, id: u32, state: SessionState, deadline: u64) {
        self.states[id as usize] = state;
        self.keys[id as usize] = self.timers.schedule(deadline, id.into());
        self.operations += 1;
    }

    fn cancel(&mut self, id: u32) {
        assert!(
            self.timers.cancel(self.keys[id as usize]),
            "{}: the timer to cancel does not exist",
            S::NAME
        );
        self.operations += 1;
    }

    /// With a probability of `percent`, schedules a message in `ticks` ticks.
    fn receive_later(&mut self, id: u32, now: u64, ticks: u32, percent: u32) {
        if hash(!(now << 32 | u64::from(id)), 100) < percent {
            #[expect(clippy::cast_possible_truncation, reason = "below the length")]
            let at = (now + u64::from(ticks)) as usize % UPCOMING_TICKS;
            self.upcoming[at].push(id);
        }
    }
}
