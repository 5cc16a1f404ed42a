//! A server's sessions in their steady state: each has one timer, a heartbeat that is put off whenever the peer is heard.
//!
//! A tick is 10 ms. A session hears something every 10 s on average, at random, and puts off its ping to 25 s from then.
//! If nothing comes, the ping goes out, and the peer has 10 s for the pong, which mostly takes less than 200 ms. Every
//! 10 minutes on average it loses its connection: its place is kept for 120 s, and mostly it is back within 60 s.
//!
//! What happens depends on the tick and the session, never on the order in which timers of a tick come out. So all
//! structures that are exact have the same history, and its checksum is compared.

use std::mem;
use std::time::{Duration, Instant};

use crate::support::random::{Random, hash, mix};
use crate::support::structures::Structure;

const PING: u64 = 2_500;
const PONG: u64 = 1_000;
const WINDOW: u64 = 12_000;

/// Between two things heard of a session, on average.
const MESSAGES: u64 = 1_000;
/// Between two losses of its connection, on average.
const LOSSES: u64 = 60_000;
/// Longer than anybody is away who comes back.
const MEMORY: usize = 8_192;

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) time: Duration,
    /// Timers set, moved, cancelled and expired.
    pub(crate) operations: u64,
    /// `None` if the structure is not exact.
    pub(crate) checksum: Option<u64>,
}

/// How many ticks make some 200,000 operations, or a tenth of that; 20 s at least.
pub(crate) fn ticks(timers: u32, quick: bool) -> u64 {
    let ticks = if quick { 20_000_000 } else { 200_000_000 };
    (ticks / u64::from(timers)).max(2_000)
}

pub(crate) fn measure<S: Structure>(timers: u32, ticks: u64) -> Outcome {
    let mut sessions = Sessions::<S>::new(timers);
    let clock = Instant::now();
    for tick in 1..=ticks {
        sessions.step(tick);
    }
    let time = clock.elapsed();
    let exact = sessions.timers.precision(WINDOW) == 0;
    let checksum = exact.then_some(sessions.checksum);
    Outcome { time, operations: sessions.operations, checksum }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Connected, and its timer is the next ping.
    Waiting,
    /// Connected, and its timer is the pong's timeout.
    Asked,
    /// Its timer is the end of the time for which its place is kept.
    Away,
}

struct Sessions<S: Structure> {
    timers: S,
    states: Vec<State>,
    keys: Vec<S::Key>,
    /// Of whom something will be heard, by tick modulo the length.
    soon: Vec<Vec<u32>>,
    random: Random,
    operations: u64,
    checksum: u64,
}

impl<S: Structure> Sessions<S> {
    fn new(count: u32) -> Self {
        let mut timers = S::new(WINDOW);
        let first = |id: u32| 1 + u64::from(hash(id.into(), 2_500));
        let keys = (0..count).map(|id| timers.schedule(first(id), id.into())).collect();
        let states = vec![State::Waiting; count as usize];
        let soon = vec![Vec::new(); MEMORY];
        Sessions { timers, states, keys, soon, random: Random(1), operations: 0, checksum: 0 }
    }

    fn step(&mut self, now: u64) {
        while let Some(due) = self.timers.expire_next(now) {
            let id = u32::try_from(due.value).expect("values are ids");
            self.expired(id, now);
        }
        #[expect(clippy::cast_possible_truncation, reason = "below the length")]
        let mut heard = mem::take(&mut self.soon[now as usize % MEMORY]);
        for id in heard.drain(..) {
            self.heard(id, now);
        }
        for _ in 0..self.happen(now, MESSAGES) {
            let id = self.any();
            if self.states[id as usize] != State::Away {
                self.heard(id, now);
            }
        }
        for _ in 0..self.happen(now, LOSSES) {
            let id = self.any();
            if self.states[id as usize] != State::Away {
                self.cancel(id);
                self.lost(id, now);
            }
        }
    }

    /// How often something happens at this tick that every session has once in so many ticks.
    fn happen(&self, now: u64, every: u64) -> u64 {
        let sessions = self.states.len() as u64;
        now * sessions / every - (now - 1) * sessions / every
    }

    fn any(&mut self) -> u32 {
        let count = u32::try_from(self.states.len()).expect("made of a u32");
        self.random.below(count)
    }

    fn expired(&mut self, id: u32, now: u64) {
        self.operations += 1;
        self.checksum = self.checksum.wrapping_add(mix(now << 32 | u64::from(id)));
        match self.states[id as usize] {
            State::Waiting => {
                self.set(id, State::Asked, now + PONG);
                self.later(id, now, 1 + hash(now << 32 | u64::from(id), 20), 98);
            }
            State::Asked => self.lost(id, now),
            State::Away => self.set(id, State::Waiting, now + PING),
        }
    }

    fn heard(&mut self, id: u32, now: u64) {
        match self.states[id as usize] {
            State::Waiting => {
                let known = self.timers.reschedule(self.keys[id as usize], now + PING);
                assert!(known, "{}: no timer to move", S::NAME);
                self.operations += 1;
            }
            State::Asked | State::Away => {
                self.cancel(id);
                self.set(id, State::Waiting, now + PING);
            }
        }
    }

    fn lost(&mut self, id: u32, now: u64) {
        self.set(id, State::Away, now + WINDOW);
        self.later(id, now, 1 + hash(now << 32 | u64::from(id), 6_000), 90);
    }

    fn set(&mut self, id: u32, state: State, deadline: u64) {
        self.states[id as usize] = state;
        self.keys[id as usize] = self.timers.schedule(deadline, id.into());
        self.operations += 1;
    }

    fn cancel(&mut self, id: u32) {
        assert!(self.timers.cancel(self.keys[id as usize]), "{}: no timer to cancel", S::NAME);
        self.operations += 1;
    }

    /// Something will be heard, with that likelihood in percent.
    fn later(&mut self, id: u32, now: u64, ticks: u32, percent: u32) {
        if hash(!(now << 32 | u64::from(id)), 100) < percent {
            #[expect(clippy::cast_possible_truncation, reason = "below the length")]
            let at = (now + u64::from(ticks)) as usize % MEMORY;
            self.soon[at].push(id);
        }
    }
}
