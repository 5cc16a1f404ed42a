//! Pairs of endpoints, a client and a server, each with five timers:
//!
//! - idle, 60 s after the last message sent or received. The timer is constantly postponed and never expires.
//!   With ranges, it may expire anywhere between 60 and 61 s.
//! - close, 180 s after the start: the endpoint stops sending requests. The timer expires again 10 s later
//!   and ends the endpoint.
//! - pace, 10 ticks after each message sent: the next message may be sent.
//! - request, about a second after the last message of the response: the client sends another request.
//! - deadline, the time by which a request should have been answered. The timer is moved at the first message
//!   of the response and cancelled at the last, so it never expires.
//!
//! Nothing depends on the order of timers within a tick: whether an endpoint is closed depends on the tick,
//! not on whether its timer has been handled, and random values are hashes of the endpoint and its number of
//! requests.

use encke_wheel::{Tick, TimerKey, WorkBudget};
use encke_wheel_bench::random::{hash, mix};

use crate::timers::EndpointTimers;

/// Number of ticks of 20 µs in a second.
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

pub(crate) const SLEEP: u64 = SECOND / 10;

pub(crate) const IDLE_TIMER: usize = 0;
pub(crate) const CLOSE_TIMER: usize = 1;
pub(crate) const PACE_TIMER: usize = 2;
pub(crate) const REQUEST_TIMER: usize = 3;
pub(crate) const DEADLINE_TIMER: usize = 4;
pub(crate) const TIMERS: usize = 5;

/// One end of a pair. Aligned, so that it occupies a separate cache line.
#[derive(Clone)]
#[repr(align(64))]
struct Endpoint {
    keys: [Option<TimerKey>; TIMERS],
    /// Number of the endpoint: even for a client, whose server has the next number.
    number: u32,
    /// Tick at which the endpoint closes, below 2^32.
    closes: u32,
    requests: u32,
    queued: u8,
    quota: u8,
    /// Number of messages of the response that have not been received yet.
    expected: u8,
}

impl Endpoint {
    fn not_started(number: u32) -> Endpoint {
        Endpoint {
            keys: [None; TIMERS],
            number,
            closes: u32::MAX,
            requests: 0,
            queued: 0,
            quota: 1,
            expected: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageTotals {
    pub(crate) messages: u64,
    /// Checksum of the ticks at which responses were complete.
    pub(crate) digest: u64,
}

pub(crate) trait Pairs {
    fn now(&self) -> u64;
    /// Returns the tick at which the next pair starts, or `u64::MAX` if all pairs have started.
    fn next_start(&self) -> u64;
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick>;
    fn drive(&mut self, to: u64);
    fn begin(&mut self);
    /// Returns whether every request is sent on time.
    fn is_exact(&self) -> bool;
    /// Returns the totals of the run.
    ///
    /// # Panics
    ///
    /// Panics if an endpoint has not ended.
    fn totals(&self) -> MessageTotals;
}

/// Endpoints in an array, with the keys of their timers.
pub(crate) struct PairsWith<T, const RANGES: bool> {
    clock: TimerClock<T, RANGES>,
    pairs: Vec<[Endpoint; 2]>,
    started: u32,
    next_start: u64,
    totals: MessageTotals,
}

struct TimerClock<T, const RANGES: bool> {
    timers: T,
    now: u64,
}

impl<T: EndpointTimers, const RANGES: bool> PairsWith<T, RANGES> {
    /// Creates the pairs. The horizon of `timers` must be at least [`CLOSE`].
    pub(crate) fn new(timers: T, pairs: u32) -> Self {
        PairsWith {
            clock: TimerClock { timers, now: 0 },
            pairs: (0..pairs).map(|pair| [2 * pair, 2 * pair + 1].map(Endpoint::not_started)).collect(),
            started: 0,
            next_start: start_tick(0, pairs.into()),
            totals: MessageTotals::default(),
        }
    }

    #[inline(always)]
    fn pace_expired(&mut self, number: u32) {
        let (this, other) = pair_of(&mut self.pairs, number);
        T::expired(&mut this.keys[PACE_TIMER]);
        this.quota = 1;
        if self.clock.send(this) {
            self.clock.receive(other, &mut self.totals);
        }
    }

    /// Handles the less frequent timers.
    #[inline(never)]
    fn handle_expiry(&mut self, number: u32, timer: usize, deadline: u64) {
        let (this, other) = pair_of(&mut self.pairs, number);
        T::expired(&mut this.keys[timer]);
        let closes = u64::from(this.closes);
        match timer {
            REQUEST_TIMER if self.clock.now < closes => {
                self.clock.request(this, other, &mut self.totals);
            }
            REQUEST_TIMER => {}
            CLOSE_TIMER if deadline == closes => self.clock.set(this, CLOSE_TIMER, LINGER),
            CLOSE_TIMER => this.keys.iter_mut().for_each(|key| self.clock.timers.end(key)),
            IDLE_TIMER => panic!("an endpoint was idle"),
            _ => panic!("a request was not answered in time"),
        }
    }
}

impl<T: EndpointTimers, const RANGES: bool> Pairs for PairsWith<T, RANGES> {
    fn now(&self) -> u64 {
        self.clock.now
    }

    fn next_start(&self) -> u64 {
        self.next_start
    }

    fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.clock.timers.next_wakeup(at_most)
    }

    fn is_exact(&self) -> bool {
        [PACE, NEXT_DEADLINE, FIRST_DEADLINE, REQUEST + 99]
            .iter()
            .all(|&ahead| self.clock.timers.precision(ahead) == 0)
    }

    fn totals(&self) -> MessageTotals {
        assert!(self.clock.timers.is_empty(), "every endpoint has ended");
        let requested =
            self.pairs.as_flattened().iter().map(|endpoint| u64::from(endpoint.requests)).sum::<u64>();
        assert_eq!(self.totals.messages, requested * u64::from(RESPONSE), "every request was answered");
        self.totals
    }

    fn drive(&mut self, to: u64) {
        let mut work = WorkBudget::unlimited();
        while let Some((name, deadline)) = self.clock.timers.next(Tick(to), &mut work) {
            self.clock.now = self.clock.timers.now().0;
            let (number, timer) = (name >> 3, (name & 7) as usize);
            if timer == PACE_TIMER {
                self.pace_expired(number);
            } else {
                self.handle_expiry(number, timer, deadline.0);
            }
        }
        self.clock.now = to;
    }

    fn begin(&mut self) {
        let closes = self.clock.now + CLOSE;
        let pair @ [_, _] = &mut self.pairs[self.started as usize];
        for endpoint in pair.iter_mut() {
            endpoint.closes = u32::try_from(closes).expect("the virtual time fits into 32 bits");
            for (timer, key) in endpoint.keys.iter_mut().enumerate() {
                self.clock.timers.begin(key, name(endpoint.number, timer));
            }
            self.clock.touch(endpoint);
            self.clock.set(endpoint, CLOSE_TIMER, CLOSE);
        }
        let [client, server] = pair;
        self.clock.request(client, server, &mut self.totals);
        self.started += 1;
        self.next_start = start_tick(self.started, self.pairs.len() as u64);
    }
}

impl<T: EndpointTimers, const RANGES: bool> TimerClock<T, RANGES> {
    fn request(&mut self, this: &mut Endpoint, other: &mut Endpoint, totals: &mut MessageTotals) {
        this.requests += 1;
        this.expected = RESPONSE;
        self.set(this, DEADLINE_TIMER, FIRST_DEADLINE);
        other.queued += RESPONSE;
        if self.send(other) {
            self.receive(this, totals);
        }
    }

    /// Sends a message if one is queued and the quota allows it. Returns whether a message was sent.
    #[inline(always)]
    fn send(&mut self, this: &mut Endpoint) -> bool {
        if this.queued == 0 || this.quota == 0 {
            return false;
        }
        this.queued -= 1;
        this.quota -= 1;
        self.set(this, PACE_TIMER, PACE);
        self.touch(this);
        true
    }

    #[inline(always)]
    fn receive(&mut self, this: &mut Endpoint, totals: &mut MessageTotals) {
        totals.messages += 1;
        self.touch(this);
        this.expected -= 1;
        if this.expected == RESPONSE - 1 || this.expected == 0 {
            self.received_first_or_last(this, totals);
        }
    }

    #[inline(never)]
    fn received_first_or_last(&mut self, this: &mut Endpoint, totals: &mut MessageTotals) {
        let Endpoint { number, requests, expected, .. } = *this;
        if expected > 0 {
            return self.set(this, DEADLINE_TIMER, NEXT_DEADLINE);
        }
        let random = u64::from(hash(u64::from(number) << 32 | u64::from(requests), 100));
        totals.digest = totals.digest.wrapping_add(mix(self.now << 32 | u64::from(number)));
        self.timers.stop(&mut this.keys[DEADLINE_TIMER]);
        self.set(this, REQUEST_TIMER, REQUEST + random);
    }

    #[inline(always)]
    fn touch(&mut self, this: &mut Endpoint) {
        if !RANGES {
            return self.set(this, IDLE_TIMER, IDLE);
        }
        let range = Tick(self.now + IDLE)..=Tick(self.now + IDLE + IDLE_SLACK);
        self.timers.set_within(&mut this.keys[IDLE_TIMER], name(this.number, IDLE_TIMER), range);
    }

    #[inline(always)]
    fn set(&mut self, this: &mut Endpoint, timer: usize, ticks: u64) {
        let deadline = Tick(self.now + ticks);
        self.timers.set(&mut this.keys[timer], name(this.number, timer), deadline);
    }
}

/// Returns the name of a timer, which combines the number of its endpoint and its index in the endpoint.
#[inline(always)]
fn name(number: u32, timer: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "one of five")]
    let timer = timer as u32;
    number << 3 | timer
}

#[inline(always)]
fn pair_of(pairs: &mut [[Endpoint; 2]], number: u32) -> (&mut Endpoint, &mut Endpoint) {
    let [client, server] = &mut pairs[(number / 2) as usize];
    if number.is_multiple_of(2) { (client, server) } else { (server, client) }
}

/// Returns the tick at which a pair starts, which is random within the pair's share of the first second, or
/// `u64::MAX` if there are no more pairs.
pub(crate) fn start_tick(pair: u32, pairs: u64) -> u64 {
    let pair = u64::from(pair);
    let part = (pair << 16) + u64::from(hash(pair, 1 << 16));
    if pair < pairs { (part * SECOND / pairs) >> 16 } else { u64::MAX }
}
