//! The same endpoints and messages, where an endpoint lives in the wheel as the owner of its five timers: what
//! [`units`](crate::units) keeps in an array is its value here, and whoever handles an expiry has it in hand.

use encke_wheel::{Due, Lent, OwnerMut, Owners, Tick, TimerKey, Work};

use crate::support::random::{hash, mix};
use crate::units::{
    CLOSE, CLOSE_TIMER, DEADLINE_TIMER, FIRST_DEADLINE, IDLE, IDLE_SLACK, IDLE_TIMER, LINGER, NEXT_DEADLINE,
    PACE, PACE_TIMER, Pairs, REQUEST, REQUEST_TIMER, RESPONSE, TIMERS, Totals, beginning,
};

#[derive(Debug)]
struct Endpoint {
    peer: Option<TimerKey>,
    number: u32,
    closes: u32,
    requests: u32,
    queued: u8,
    quota: u8,
    expected: u8,
}

pub(crate) struct PairsOwned<const RANGES: bool> {
    endpoints: Owners<Endpoint, TIMERS>,
    now: u64,
    pairs: u32,
    begun: u32,
    next_beginning: u64,
    /// Of endpoints that are gone.
    requested: u64,
    totals: Totals,
}

impl<const RANGES: bool> PairsOwned<RANGES> {
    pub(crate) fn new(pairs: u32) -> Self {
        PairsOwned {
            endpoints: Owners::new(Tick(0)),
            now: 0,
            pairs,
            begun: 0,
            next_beginning: beginning(0, pairs.into()),
            requested: 0,
            totals: Totals::default(),
        }
    }

    /// What fires less often.
    #[inline(never)]
    fn fires(&mut self, key: TimerKey, which: usize, deadline: u64) {
        let mut endpoint = self.endpoints.get_mut(key).expect("it was lent");
        let (now, closes) = (endpoint.now().0, u64::from(endpoint.value().closes));
        match which {
            REQUEST_TIMER if now < closes => self.request(key),
            REQUEST_TIMER => {}
            CLOSE_TIMER if deadline == closes => {
                endpoint.arm(CLOSE_TIMER, Tick(now + LINGER));
            }
            CLOSE_TIMER => {
                let endpoint = self.endpoints.remove(key).expect("it was lent");
                self.requested += u64::from(endpoint.requests);
            }
            IDLE_TIMER => panic!("an endpoint was idle"),
            _ => panic!("a request was not answered in time"),
        }
    }

    fn request(&mut self, key: TimerKey) {
        let mut endpoint = self.endpoints.get_mut(key).expect("it is there");
        endpoint.value_mut().requests += 1;
        endpoint.value_mut().expected = RESPONSE;
        endpoint.arm(DEADLINE_TIMER, Tick(endpoint.now().0 + FIRST_DEADLINE));
        let peer = endpoint.value().peer.expect("it has one");
        let mut peer = self.endpoints.get_mut(peer).expect("it is there as long");
        peer.value_mut().queued += RESPONSE;
        if peer.value().quota > 0 && send::<RANGES>(&mut peer).is_some() {
            self.receive(key);
        }
    }

    #[inline(always)]
    fn receive(&mut self, key: TimerKey) {
        self.totals.messages += 1;
        let mut endpoint = self.endpoints.get_mut(key).expect("it is there as long as its peer");
        touch::<RANGES>(&mut endpoint);
        let expected = endpoint.value().expected - 1;
        endpoint.value_mut().expected = expected;
        if expected == RESPONSE - 1 || expected == 0 {
            self.received_first_or_last(key);
        }
    }

    #[inline(never)]
    fn received_first_or_last(&mut self, key: TimerKey) {
        let mut endpoint = self.endpoints.get_mut(key).expect("it is there");
        let now = endpoint.now().0;
        let Endpoint { number, requests, expected, .. } = *endpoint.value();
        if expected > 0 {
            endpoint.arm(DEADLINE_TIMER, Tick(now + NEXT_DEADLINE));
            return;
        }
        let random = u64::from(hash(u64::from(number) << 32 | u64::from(requests), 100));
        self.totals.digest = self.totals.digest.wrapping_add(mix(now << 32 | u64::from(number)));
        endpoint.disarm(DEADLINE_TIMER);
        endpoint.arm(REQUEST_TIMER, Tick(now + REQUEST + random));
    }
}

impl<const RANGES: bool> Pairs for PairsOwned<RANGES> {
    fn now(&self) -> u64 {
        self.now
    }

    fn next_beginning(&self) -> u64 {
        self.next_beginning
    }

    #[inline(always)]
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.endpoints.next_wakeup(at_most)
    }

    fn totals(&self) -> Totals {
        assert!(self.endpoints.is_empty(), "every endpoint has ended");
        assert_eq!(self.totals.messages, self.requested * u64::from(RESPONSE), "every request was answered");
        self.totals
    }

    #[inline(always)]
    fn drive(&mut self, to: u64) {
        let mut work = Work::unlimited();
        while let Lent::Due(Due { which, deadline, mut owner }) =
            self.endpoints.expire_next(Tick(to), &mut work)
        {
            if which == PACE_TIMER {
                let peer = send::<RANGES>(&mut owner);
                peer.into_iter().for_each(|peer| self.receive(peer));
            } else {
                let key = owner.key();
                self.fires(key, which, deadline.0);
            }
        }
        self.now = to;
    }

    fn begin(&mut self) {
        let closes = self.now + CLOSE;
        let numbers = [self.begun * 2, self.begun * 2 + 1];
        self.begun += 1;
        let keys = numbers.map(|number| {
            self.endpoints.insert(Endpoint {
                peer: None,
                number,
                closes: u32::try_from(closes).expect("the virtual time fits into 32 bits"),
                requests: 0,
                queued: 0,
                quota: 1,
                expected: 0,
            })
        });
        for (key, peer) in [(keys[0], keys[1]), (keys[1], keys[0])] {
            let mut endpoint = self.endpoints.get_mut(key).expect("it was put in");
            endpoint.value_mut().peer = Some(peer);
            touch::<RANGES>(&mut endpoint);
            endpoint.arm(CLOSE_TIMER, Tick(closes));
        }
        self.request(keys[0]);
        self.next_beginning = beginning(self.begun, self.pairs.into());
    }

    fn is_exact(&self) -> bool {
        true
    }
}

type Lending<'a> = OwnerMut<'a, Endpoint, TIMERS>;

/// Sends what may be sent, now that one message may be. Returns to whom.
#[inline(always)]
fn send<const RANGES: bool>(endpoint: &mut Lending<'_>) -> Option<TimerKey> {
    let Some(queued) = endpoint.value().queued.checked_sub(1) else {
        endpoint.value_mut().quota = 1;
        return None;
    };
    endpoint.value_mut().queued = queued;
    endpoint.value_mut().quota = 0;
    endpoint.arm(PACE_TIMER, Tick(endpoint.now().0 + PACE));
    touch::<RANGES>(endpoint);
    endpoint.value().peer
}

/// Puts off the idle timer.
#[inline(always)]
fn touch<const RANGES: bool>(endpoint: &mut Lending<'_>) {
    let now = endpoint.now().0;
    if RANGES {
        endpoint.arm_within(IDLE_TIMER, Tick(now + IDLE)..=Tick(now + IDLE + IDLE_SLACK));
    } else {
        endpoint.arm(IDLE_TIMER, Tick(now + IDLE));
    }
}
