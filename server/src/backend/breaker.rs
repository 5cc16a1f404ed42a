use std::time::Duration;

use encke_base::quota::QuotaOwner;
use encke_core::Timestamp;

use super::hook::HookCaller;

/// Number of failures since the last success that open the breaker.
const FAILURE_THRESHOLD: u32 = 5;
/// How long a success keeps the breaker closed: a backend that serves some clients is not down.
const SUCCESS_HOLDS: Duration = Duration::from_secs(10);
/// Number of owners whose requests must fail before requests of all clients are rejected: fewer may be the
/// cause of the failures.
const FAILING_OWNERS: usize = 3;
/// Number of failing callers beyond which only callers of new owners are remembered.
const MAX_FAILING: usize = 16;
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Circuit breaker for one hook. It opens after [`FAILURE_THRESHOLD`] failures without a success, at first
/// only for the failing callers. Once several clients have failed, it rejects all requests except one at a
/// time from a caller that has not failed, the *trial*. A failed trial starts a pause, which doubles each
/// time. Any success closes the breaker.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// Number of failures since the last success.
    failures: u32,
    /// Callers of these failures. Bounded by [`MAX_FAILING`] and [`FAILING_OWNERS`].
    failing: Vec<HookCaller>,
    last_success: Option<Timestamp>,
    open: Option<OpenState>,
}

#[derive(Debug)]
struct OpenState {
    /// When the next trial may be sent.
    trial_at: Timestamp,
    /// Pause after the next failed trial.
    pause: Duration,
    /// When a failing caller may send a request, in case there is no other caller. Such a request is not a trial:
    /// it neither delays a trial nor lengthens the pause.
    retry_at: Timestamp,
    /// Whether the trial is in flight.
    is_trial_in_flight: bool,
}

/// Permission to send one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BreakerPass {
    is_trial: bool,
}

impl Breaker {
    /// Admits a request unless the breaker is open for its caller.
    pub(super) fn admit(&mut self, caller: &HookCaller, now: Timestamp) -> Option<BreakerPass> {
        const ORDINARY: Option<BreakerPass> = Some(BreakerPass { is_trial: false });
        let is_general = self.is_general();
        // Once all clients are affected, no other session of a failing client is a trial.
        let is_failing = self.failing.contains(caller) || is_general && self.has_failed(&caller.owner);
        let Some(open) = &mut self.open else { return ORDINARY };
        if is_failing {
            if now < open.retry_at {
                return None;
            }
            open.retry_at = now + open.pause;
            return ORDINARY;
        }
        if !is_general {
            return ORDINARY;
        }
        if now < open.trial_at || open.is_trial_in_flight {
            return None;
        }
        open.is_trial_in_flight = true;
        Some(BreakerPass { is_trial: true })
    }

    /// Records a success. Returns whether it closed the breaker.
    pub(super) fn record_success(&mut self, now: Timestamp) -> bool {
        self.failures = 0;
        self.failing.clear();
        self.last_success = Some(now);
        self.open.take().is_some()
    }

    /// Records a failure. Returns whether it opened the breaker.
    pub(super) fn record_failure(
        &mut self,
        caller: &HookCaller,
        admitted: BreakerPass,
        now: Timestamp,
    ) -> bool {
        self.failures = self.failures.saturating_add(1);
        // At the maximum, add only callers of new owners, until failures of enough owners open the breaker for all.
        let has_room =
            self.failing.len() < MAX_FAILING || !self.is_general() && !self.has_failed(&caller.owner);
        if has_room && !self.failing.contains(caller) {
            self.failing.push(caller.clone());
        }
        if let Some(open) = &mut self.open {
            // Other requests were sent before the breaker opened, or their callers have failed before.
            if admitted.is_trial {
                let pause = open.pause;
                *open = OpenState {
                    trial_at: now + pause,
                    pause: (2 * pause).min(MAX_PAUSE),
                    retry_at: now + 2 * pause,
                    is_trial_in_flight: false,
                };
            }
            return false;
        }
        let is_alive = self.last_success.is_some_and(|last| now.since(last) < SUCCESS_HOLDS);
        if self.failures < FAILURE_THRESHOLD || is_alive {
            return false;
        }
        let pause = MIN_PAUSE;
        self.open =
            Some(OpenState { trial_at: now, pause, retry_at: now + pause, is_trial_in_flight: false });
        true
    }

    /// Whether the breaker is open for all clients, except for a trial.
    pub(super) fn rejects_all(&self) -> bool {
        self.open.is_some() && self.is_general()
    }

    fn has_failed(&self, owner: &QuotaOwner) -> bool {
        self.failing.iter().any(|failing| failing.owner == *owner)
    }

    /// Whether so many clients fail that the backend must be the cause. Sessions of one owner count once: one
    /// client can open many.
    fn is_general(&self) -> bool {
        let is_first = |(index, caller): &(usize, &HookCaller)| {
            self.failing[..*index].iter().all(|earlier| earlier.owner != caller.owner)
        };
        self.failing.iter().enumerate().filter(is_first).count() >= FAILING_OWNERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000 + ms * 1_000_000)
    }

    /// Returns the session with this number, of a user of its own.
    fn user(number: u128) -> HookCaller {
        HookCaller::session_of(Some(&format!("user {number}")), number)
    }

    /// Returns the session with this number, of an anonymous client behind a shared address.
    fn anonymous(number: u128) -> HookCaller {
        HookCaller::session_of(None, number)
    }

    const ORDINARY: Option<BreakerPass> = Some(BreakerPass { is_trial: false });
    const TRIAL: Option<BreakerPass> = Some(BreakerPass { is_trial: true });

    impl Breaker {
        /// Sends a request that fails. Returns whether it opened the breaker.
        #[track_caller]
        fn fail(&mut self, caller: &HookCaller, ms: u64) -> bool {
            let admitted = self.admit(caller, at(ms)).expect("admitted");
            self.record_failure(caller, admitted, at(ms))
        }

        /// Opens the breaker by failures of these callers at time 0.
        fn open(failing: &[HookCaller]) -> Self {
            let mut breaker = Self::default();
            let opened = failing
                .iter()
                .cycle()
                .take(FAILURE_THRESHOLD as usize)
                .map(|caller| breaker.record_failure(caller, BreakerPass { is_trial: false }, at(0)));
            assert_eq!(opened.filter(|opened| *opened).count(), 1);
            breaker
        }
    }

    #[test]
    fn failures_of_one_client_affect_no_other() {
        for (failing, healthy) in [(user(1), user(2)), (anonymous(1), anonymous(2))] {
            let mut breaker = Breaker::open(std::slice::from_ref(&failing));
            assert_eq!(breaker.admit(&failing, at(999)), None);
            assert_eq!([(); 3].map(|()| breaker.admit(&healthy, at(999))), [ORDINARY; 3]);
            assert_eq!(breaker.admit(&failing, at(1_000)), ORDINARY, "no other client has been served");
            assert_eq!(breaker.admit(&failing, at(1_001)), None);
            assert!(breaker.record_success(at(1_500)));
            for ms in 1_501..11_500 {
                assert!(!breaker.fail(&failing, ms), "the backend serves other clients: {ms}");
            }
            assert!(breaker.fail(&failing, 11_500));
            assert_eq!(breaker.admit(&healthy, at(11_500)), ORDINARY);
        }
    }

    #[test]
    fn failures_of_several_clients_leave_only_trials_of_others() {
        let mut breaker = Breaker::open(&[1, 2, 3].map(user));
        assert_eq!(breaker.admit(&user(4), at(1)), TRIAL);
        assert_eq!(breaker.admit(&user(5), at(2)), None, "one trial at a time");
        assert!(!breaker.record_failure(&user(1), ORDINARY.expect("a pass"), at(3)));
        assert_eq!(breaker.admit(&user(5), at(4)), None, "an earlier request does not end the trial");
        assert!(!breaker.record_failure(&user(4), TRIAL.expect("a pass"), at(10)));
        for (caller, ms, expected) in [
            (5, 1_009, None),
            (5, 1_010, TRIAL),
            (1, 2_009, None),
            // No other trial has succeeded until now.
            (4, 2_010, ORDINARY),
            (1, 2_011, None),
        ] {
            assert_eq!(breaker.admit(&user(caller), at(ms)), expected, "{caller} at {ms}");
        }
        assert!(breaker.record_success(at(2_100)));
        assert_eq!(breaker.admit(&user(1), at(2_100)), ORDINARY);
        assert!(breaker.failing.is_empty());
    }

    #[test]
    fn many_sessions_of_one_address_count_as_one_client() {
        let mut breaker = Breaker::open(&[anonymous(1)]);
        for number in 2..=100 {
            assert_eq!(breaker.admit(&anonymous(number), at(1)), ORDINARY, "{number}");
            breaker.record_failure(&anonymous(number), BreakerPass { is_trial: false }, at(1));
        }
        assert_eq!(breaker.failing.len(), MAX_FAILING);
        assert_eq!([(); 3].map(|()| breaker.admit(&user(1), at(1))), [ORDINARY; 3]);
        [1, 2].into_iter().for_each(|number| _ = breaker.fail(&user(number), 1));
        let next = [101, 102].map(|number| breaker.admit(&anonymous(number), at(1_000)));
        assert_eq!(next, [ORDINARY, None], "one retry, which is no trial");
        assert_eq!(breaker.admit(&user(3), at(1_000)), TRIAL);
    }

    #[test]
    fn pause_is_capped() {
        let (mut breaker, mut now) = (Breaker::open(&[1, 2, 3].map(user)), 1);
        for (caller, pause_s) in (4..).zip([0, 1, 2, 4, 8, 16, 30, 30]) {
            if pause_s > 0 {
                assert_eq!(breaker.admit(&user(caller), at(now + pause_s * 1_000 - 1)), None);
            }
            now += pause_s * 1_000;
            assert_eq!(breaker.admit(&user(caller), at(now)), TRIAL);
            breaker.record_failure(&user(caller), TRIAL.expect("a pass"), at(now));
        }
    }
}
