//! Pairs of endpoints, a client and a server, each with five timers:
//!
//! - idle, 60 s from the last message sent or received, so it is put off all the time and never expires. With ranges it
//!   may come anywhere between 60 and 61 s.
//! - close, 180 s from the beginning: no more requests. 10 s later it expires once more, and the endpoint ends.
//! - pace, 10 ticks after each message sent: the next may be sent.
//! - request, about a second after the last message of the response: the client requests again.
//! - deadline, when a request should have been answered. It is moved at the first message of the response and cancelled
//!   at the last, so it never expires.
//!
//! Nothing depends on the order of timers within a tick: an endpoint closes at a tick, not at a call; what is random is a
//! hash of the endpoint and how often it has requested.

use encke_wheel::{Tick, TimerKey, Work};

use crate::support::random::{hash, mix};
use crate::timers::Timers;

/// 20 µs each.
pub(crate) const SECOND: u64 = 50_000;
pub(crate) const END: u64 = 300 * SECOND;

pub(crate) const IDLE: u64 = 60 * SECOND;
pub(crate) const IDLE_SLACK: u64 = SECOND;
pub(crate) const CLOSE: u64 = 180 * SECOND;
pub(crate) const LINGER: u64 = 10 * SECOND;
pub(crate) const PACE: u64 = 10;
pub(crate) const REQUEST: u64 = SECOND;
pub(crate) const RESPONSE: u8 = 128;
pub(crate) const FIRST_DEADLINE: u64 = PACE * RESPONSE as u64 * 4;
pub(crate) const NEXT_DEADLINE: u64 = PACE * RESPONSE as u64 * 2;

/// How long to sleep at most.
pub(crate) const SLEEP: u64 = SECOND / 10;

#[derive(Clone, Copy)]
enum Kind {
    Idle,
    Close,
    Pace,
    Request,
    Deadline,
}

const KINDS: [Kind; 5] = [Kind::Idle, Kind::Close, Kind::Pace, Kind::Request, Kind::Deadline];

/// What a timer carries: the number of an endpoint, and which of its timers it is.
fn name(endpoint: u32, kind: Kind) -> u32 {
    endpoint << 3 | kind as u32
}

/// The endpoints of a pair are neighbours, clients at even numbers. Each in a cache line of its own.
#[derive(Clone)]
#[repr(align(64))]
struct Endpoint {
    keys: [Option<TimerKey>; KINDS.len()],
    /// When it closes, which is before 2^32.
    closes: u32,
    requests: u32,
    /// Messages that wait to be sent.
    queued: u8,
    /// How many it may send now.
    quota: u8,
    /// Messages of the response that are still to come.
    expected: u8,
}

const UNBORN: Endpoint =
    Endpoint { keys: [None; KINDS.len()], closes: u32::MAX, requests: 0, queued: 0, quota: 1, expected: 0 };

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) messages: u64,
    /// Depends on when each response was complete.
    pub(crate) digest: u64,
    pub(crate) schedules: u64,
    pub(crate) expiries: u64,
}

impl Totals {
    /// What is the same for all exact schemes.
    pub(crate) fn history(&self) -> (u64, u64) {
        (self.messages, self.digest)
    }
}

pub(crate) struct World<T> {
    timers: T,
    now: u64,
    ranges: bool,
    endpoints: Vec<Endpoint>,
    /// How many of them have begun.
    begun: u32,
    /// When the next pair begins; the end of time if all have begun.
    next_beginning: u64,
    totals: Totals,
}

impl<T: Timers> World<T> {
    /// `timers` reach to [`CLOSE`] at least.
    pub(crate) fn new(timers: T, pairs: u32, ranges: bool) -> Self {
        let endpoints = vec![UNBORN; 2 * pairs as usize];
        let totals = Totals::default();
        let mut world = World { timers, now: 0, ranges, endpoints, begun: 0, next_beginning: 0, totals };
        world.next_beginning = world.beginning();
        world
    }

    /// Whether requests go out at their ticks.
    pub(crate) fn is_exact(&self) -> bool {
        [PACE, NEXT_DEADLINE, FIRST_DEADLINE, REQUEST + 99]
            .iter()
            .all(|&ahead| self.timers.precision(ahead) == 0)
    }

    /// A second of virtual time. Says whether there is more.
    pub(crate) fn run_for_a_second(&mut self) -> bool {
        let until = self.now + SECOND;
        while self.now < until {
            let at_most = (self.now + SLEEP).min(until).min(self.next_beginning);
            let next = self.timers.next_wakeup(Tick(at_most)).map_or(at_most, |tick| tick.0);
            self.drive(next);
            while self.next_beginning <= self.now {
                self.begin();
            }
        }
        until < END
    }

    /// # Panics
    ///
    /// If an endpoint is left.
    pub(crate) fn totals(&self) -> Totals {
        assert!(self.timers.is_empty(), "every endpoint has ended");
        let requested = self.endpoints.iter().map(|endpoint| u64::from(endpoint.requests)).sum::<u64>();
        assert_eq!(self.totals.messages, requested * u64::from(RESPONSE), "every request was answered");
        self.totals
    }

    fn drive(&mut self, to: u64) {
        let mut work = Work::unlimited();
        while let Some((name, deadline)) = self.timers.next(Tick(to), &mut work) {
            self.now = self.timers.now().0;
            self.totals.expiries += 1;
            let endpoint = name >> 3;
            T::has_fired(&mut self.endpoints[endpoint as usize].keys[(name & 7) as usize]);
            if name & 7 == Kind::Pace as u32 {
                self.endpoints[endpoint as usize].quota = 1;
                self.send(endpoint);
                continue;
            }
            match KINDS[(name & 7) as usize] {
                Kind::Pace => unreachable!("that was this"),
                Kind::Request => {
                    if self.now < u64::from(self.endpoints[endpoint as usize].closes) {
                        self.request(endpoint);
                    }
                }
                Kind::Close => self.close(endpoint, deadline.0),
                Kind::Idle => panic!("an endpoint was idle"),
                Kind::Deadline => panic!("a request was not answered in time"),
            }
        }
        self.now = to;
    }

    /// When the next pair begins.
    fn beginning(&self) -> u64 {
        beginning(self.begun / 2, self.endpoints.len() as u64 / 2)
    }

    fn begin(&mut self) {
        let client = self.begun;
        self.begun += 2;
        for endpoint in [client, client + 1] {
            let closes = self.now + CLOSE;
            self.endpoints[endpoint as usize].closes =
                u32::try_from(closes).expect("the virtual time fits into 32 bits");
            for kind in KINDS {
                self.timers
                    .begin(&mut self.endpoints[endpoint as usize].keys[kind as usize], name(endpoint, kind));
            }
            self.touch(endpoint);
            self.set(endpoint, Kind::Close, CLOSE);
        }
        self.request(client);
        self.next_beginning = self.beginning();
    }

    fn request(&mut self, endpoint: u32) {
        let this = &mut self.endpoints[endpoint as usize];
        this.requests += 1;
        this.expected = RESPONSE;
        self.set(endpoint, Kind::Deadline, FIRST_DEADLINE);
        let other = endpoint ^ 1;
        self.endpoints[other as usize].queued += RESPONSE;
        self.send(other);
    }

    /// Sends what may be sent.
    #[inline(always)]
    fn send(&mut self, endpoint: u32) {
        let this = &mut self.endpoints[endpoint as usize];
        if this.queued == 0 || this.quota == 0 {
            return;
        }
        this.queued -= 1;
        this.quota -= 1;
        self.set(endpoint, Kind::Pace, PACE);
        self.touch(endpoint);
        self.receive(endpoint ^ 1);
    }

    #[inline(always)]
    fn receive(&mut self, endpoint: u32) {
        self.totals.messages += 1;
        self.touch(endpoint);
        let this = &mut self.endpoints[endpoint as usize];
        this.expected -= 1;
        if this.expected == RESPONSE - 1 {
            self.set(endpoint, Kind::Deadline, NEXT_DEADLINE);
        } else if this.expected == 0 {
            let requests = u64::from(this.requests);
            let random = u64::from(hash(u64::from(endpoint) << 32 | requests, 100));
            self.totals.digest = self.totals.digest.wrapping_add(mix(self.now << 32 | u64::from(endpoint)));
            self.stop(endpoint, Kind::Deadline);
            self.set(endpoint, Kind::Request, REQUEST + random);
        }
    }

    fn close(&mut self, endpoint: u32, deadline: u64) {
        if deadline == u64::from(self.endpoints[endpoint as usize].closes) {
            self.set(endpoint, Kind::Close, LINGER);
            return;
        }
        for key in &mut self.endpoints[endpoint as usize].keys {
            self.timers.end(key);
        }
    }

    /// Puts off the idle timer.
    #[inline(always)]
    fn touch(&mut self, endpoint: u32) {
        if !self.ranges {
            return self.set(endpoint, Kind::Idle, IDLE);
        }
        self.totals.schedules += 1;
        let range = Tick(self.now + IDLE)..=Tick(self.now + IDLE + IDLE_SLACK);
        let key = &mut self.endpoints[endpoint as usize].keys[Kind::Idle as usize];
        self.timers.set_within(key, name(endpoint, Kind::Idle), range);
    }

    /// Sets or moves a timer to so many ticks from now.
    #[inline(always)]
    fn set(&mut self, endpoint: u32, kind: Kind, ticks: u64) {
        self.totals.schedules += 1;
        let deadline = Tick(self.now + ticks);
        let key = &mut self.endpoints[endpoint as usize].keys[kind as usize];
        self.timers.set(key, name(endpoint, kind), deadline);
    }

    fn stop(&mut self, endpoint: u32, kind: Kind) {
        self.timers.stop(&mut self.endpoints[endpoint as usize].keys[kind as usize]);
    }
}

/// When a pair begins: all do in the course of the first second, each somewhere in its part of it. The end of time, if there are no more.
pub(crate) fn beginning(pair: u32, pairs: u64) -> u64 {
    let pair = u64::from(pair);
    let part = (pair << 16) + u64::from(hash(pair, 1 << 16));
    if pair < pairs { (part * SECOND / pairs) >> 16 } else { u64::MAX }
}
