use std::time::Duration;

use encke_core::Timestamp;

/// Number of consecutive failures that open the breaker.
const FAILURE_THRESHOLD: u32 = 5;
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Circuit breaker for one hook. After [`FAILURE_THRESHOLD`] consecutive failures it rejects requests. After
/// a pause it admits one request, the *trial*: success closes the breaker, failure doubles the pause.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// Number of consecutive failures.
    failures: u32,
    open: Option<OpenState>,
}

#[derive(Debug)]
struct OpenState {
    until: Timestamp,
    pause: Duration,
    /// Whether the trial is in flight.
    is_trial_in_flight: bool,
}

/// Permission to send one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BreakerPass {
    is_trial: bool,
}

impl Breaker {
    /// Admits a request unless the breaker is open.
    pub(super) fn admit(&mut self, now: Timestamp) -> Option<BreakerPass> {
        match &mut self.open {
            None => Some(BreakerPass { is_trial: false }),
            Some(open) if now >= open.until && !open.is_trial_in_flight => {
                open.is_trial_in_flight = true;
                Some(BreakerPass { is_trial: true })
            }
            Some(_) => None,
        }
    }

    /// Records a success. Returns whether it closed the breaker.
    pub(super) fn record_success(&mut self) -> bool {
        self.failures = 0;
        self.open.take().is_some()
    }

    /// Records a failure. Returns whether it opened the breaker.
    pub(super) fn record_failure(&mut self, admitted: BreakerPass, now: Timestamp) -> bool {
        self.failures = self.failures.saturating_add(1);
        match &mut self.open {
            Some(open) if admitted.is_trial => {
                let pause = (2 * open.pause).min(MAX_PAUSE);
                *open = OpenState { until: now + pause, pause, is_trial_in_flight: false };
            }
            // The request was sent before the breaker opened.
            Some(_) => {}
            None if self.failures >= FAILURE_THRESHOLD => {
                let pause = MIN_PAUSE;
                self.open = Some(OpenState { until: now + pause, pause, is_trial_in_flight: false });
                return true;
            }
            None => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    const NORMAL: Option<BreakerPass> = Some(BreakerPass { is_trial: false });
    const TRIAL: Option<BreakerPass> = Some(BreakerPass { is_trial: true });

    #[test]
    fn consecutive_failures_open_the_breaker_and_a_trial_decides() {
        let mut breaker = Breaker::default();
        let fail = |breaker: &mut Breaker, ms| {
            let admitted = breaker.admit(at(ms)).expect("admitted");
            breaker.record_failure(admitted, at(ms))
        };
        for ms in 0..4 {
            assert!(!fail(&mut breaker, ms));
        }
        assert!(!breaker.record_success(), "the breaker was closed already");
        for ms in 10..14 {
            assert!(!fail(&mut breaker, ms), "the count starts again");
        }
        let before = breaker.admit(at(14)).expect("the breaker is closed");
        assert!(fail(&mut breaker, 15));
        assert_eq!(breaker.admit(at(16)), None);
        assert!(
            !breaker.record_failure(before, at(900)),
            "a request from before the opening changes nothing"
        );
        assert_eq!(breaker.admit(at(1_014)), None);
        assert_eq!(breaker.admit(at(1_015)), TRIAL);
        assert_eq!(breaker.admit(at(1_016)), None, "one trial at a time");
        assert!(!breaker.record_failure(TRIAL.expect("a trial"), at(1_020)));
        assert_eq!(breaker.admit(at(3_019)), None, "the pause has doubled");
        assert_eq!(breaker.admit(at(3_020)), TRIAL);
        assert!(breaker.record_success());
        assert_eq!(breaker.admit(at(3_021)), NORMAL);
    }

    #[test]
    fn pause_is_capped() {
        let (mut breaker, mut now) = (Breaker::default(), 1_000);
        for _ in 0..FAILURE_THRESHOLD {
            breaker.record_failure(BreakerPass { is_trial: false }, at(now));
        }
        for pause_s in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(breaker.admit(at(now + pause_s * 1_000 - 1)), None);
            now += pause_s * 1_000;
            let trial = breaker.admit(at(now)).expect("the pause is over");
            breaker.record_failure(trial, at(now));
        }
    }
}
