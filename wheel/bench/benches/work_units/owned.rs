//! The same endpoints and messages as in [`units`](crate::units), but with each endpoint stored in the wheel
//! as the owner of its five timers. The handler of an expiry needs no look-up to access the endpoint.

use encke_wheel::{DueTimer, OwnerExpiry, OwnerMut, Owners, Tick, TimerKey, WorkBudget};
use encke_wheel_bench::random::{hash, mix};

use crate::units::{
    CLOSE, CLOSE_TIMER, DEADLINE_TIMER, FIRST_DEADLINE, IDLE, IDLE_SLACK, IDLE_TIMER, LINGER, MessageTotals,
    NEXT_DEADLINE, PACE, PACE_TIMER, Pairs, REQUEST, REQUEST_TIMER, RESPONSE, TIMERS, start_tick,
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
    started: u32,
    next_start: u64,
    requested: u64,
    totals: MessageTotals,
}

impl<const RANGES: bool> PairsOwned<RANGES> {
    pub(crate) fn new(pairs: u32) -> Self {
        PairsOwned {
            endpoints: Owners::new(Tick(0)),
            now: 0,
            pairs,
            started: 0,
            next_start: start_tick(0, pairs.into()),
            requested: 0,
            totals: MessageTotals::default(),
        }
    }

    /// Handles the less frequent timers.
    #[inline(never)]
    fn handle_expiry(&mut self, key: TimerKey, timer: usize, deadline: u64) {
        let mut endpoint = self.endpoints.get_mut(key).expect("the owner was lent");
        let (now, closes) = (endpoint.now().0, u64::from(endpoint.value().closes));
        match timer {
            REQUEST_TIMER if now < closes => self.request(key),
            REQUEST_TIMER => {}
            CLOSE_TIMER if deadline == closes => {
                endpoint.arm(CLOSE_TIMER, Tick(now + LINGER));
            }
            CLOSE_TIMER => {
                let endpoint = self.endpoints.remove(key).expect("the owner was lent");
                self.requested += u64::from(endpoint.requests);
            }
            IDLE_TIMER => panic!("an endpoint was idle"),
            _ => panic!("a request was not answered in time"),
        }
    }

    fn request(&mut self, key: TimerKey) {
        let mut endpoint = self.endpoints.get_mut(key).expect("still present");
        endpoint.value_mut().requests += 1;
        endpoint.value_mut().expected = RESPONSE;
        endpoint.arm(DEADLINE_TIMER, Tick(endpoint.now().0 + FIRST_DEADLINE));
        let peer = endpoint.value().peer.expect("an endpoint has a peer");
        let mut peer = self.endpoints.get_mut(peer).expect("the peer still exists");
        peer.value_mut().queued += RESPONSE;
        if peer.value().quota > 0 && send::<RANGES>(&mut peer).is_some() {
            self.receive(key);
        }
    }

    #[inline(always)]
    fn receive(&mut self, key: TimerKey) {
        self.totals.messages += 1;
        let mut endpoint = self.endpoints.get_mut(key).expect("an endpoint lives as long as its peer");
        touch::<RANGES>(&mut endpoint);
        let expected = endpoint.value().expected - 1;
        endpoint.value_mut().expected = expected;
        if expected == RESPONSE - 1 || expected == 0 {
            self.received_first_or_last(key);
        }
    }

    #[inline(never)]
    fn received_first_or_last(&mut self, key: TimerKey) {
        let mut endpoint = self.endpoints.get_mut(key).expect("still present");
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

    fn next_start(&self) -> u64 {
        self.next_start
    }

    #[inline(always)]
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.endpoints.next_wakeup(at_most)
    }

    fn totals(&self) -> MessageTotals {
        assert!(self.endpoints.is_empty(), "every endpoint has ended");
        assert_eq!(self.totals.messages, self.requested * u64::from(RESPONSE), "every request was answered");
        self.totals
    }

    #[inline(always)]
    fn drive(&mut self, to: u64) {
        let mut work = WorkBudget::unlimited();
        while let OwnerExpiry::Due(DueTimer { timer, deadline, mut owner }) =
            self.endpoints.expire_next(Tick(to), &mut work)
        {
            if timer == PACE_TIMER {
                let peer = send::<RANGES>(&mut owner);
                peer.into_iter().for_each(|peer| self.receive(peer));
            } else {
                let key = owner.key();
                self.handle_expiry(key, timer, deadline.0);
            }
        }
        self.now = to;
    }

    fn begin(&mut self) {
        let closes = self.now + CLOSE;
        let numbers = [self.started * 2, self.started * 2 + 1];
        self.started += 1;
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
            let mut endpoint = self.endpoints.get_mut(key).expect("just inserted");
            endpoint.value_mut().peer = Some(peer);
            touch::<RANGES>(&mut endpoint);
            endpoint.arm(CLOSE_TIMER, Tick(closes));
        }
        self.request(keys[0]);
        self.next_start = start_tick(self.started, self.pairs.into());
    }

    fn is_exact(&self) -> bool {
        true
    }
}

type LentEndpoint<'a> = OwnerMut<'a, Endpoint, TIMERS>;

/// Sends the next queued message, or records that one may be sent. Returns the receiver.
#[inline(always)]
fn send<const RANGES: bool>(endpoint: &mut LentEndpoint<'_>) -> Option<TimerKey> {
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

#[inline(always)]
fn touch<const RANGES: bool>(endpoint: &mut LentEndpoint<'_>) {
    let now = endpoint.now().0;
    if RANGES {
        endpoint.arm_within(IDLE_TIMER, Tick(now + IDLE)..=Tick(now + IDLE + IDLE_SLACK));
    } else {
        endpoint.arm(IDLE_TIMER, Tick(now + IDLE));
    }
}
