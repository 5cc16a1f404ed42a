use std::time::Duration;

use encke_core::Timestamp;

/// So many failures in a row open it.
const FAILURES: u32 = 5;
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Keeps questions from a backend that fails again and again. After a pause it lets one through, the *trial*, and goes by what becomes of that. The
/// pause is twice as long each time.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// In a row.
    failures: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    until: Timestamp,
    pause: Duration,
    /// The trial is under way.
    is_tried: bool,
}

/// Leave to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    is_trial: bool,
}

impl Breaker {
    /// Whether a question may be asked now.
    pub(super) fn admit(&mut self, now: Timestamp) -> Option<Admitted> {
        match &mut self.open {
            None => Some(Admitted { is_trial: false }),
            Some(open) if now >= open.until && !open.is_tried => {
                open.is_tried = true;
                Some(Admitted { is_trial: true })
            }
            Some(_) => None,
        }
    }

    /// An answer has come. Returns whether that closes it.
    pub(super) fn succeeded(&mut self) -> bool {
        self.failures = 0;
        self.open.take().is_some()
    }

    /// None has come. Returns whether that opens it.
    pub(super) fn failed(&mut self, admitted: Admitted, now: Timestamp) -> bool {
        self.failures = self.failures.saturating_add(1);
        match &mut self.open {
            Some(open) if admitted.is_trial => {
                let pause = (2 * open.pause).min(LONGEST_PAUSE);
                *open = Open { until: now + pause, pause, is_tried: false };
            }
            // It was asked before it opened.
            Some(_) => {}
            None if self.failures >= FAILURES => {
                let pause = SHORTEST_PAUSE;
                self.open = Some(Open { until: now + pause, pause, is_tried: false });
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

    const NORMAL: Option<Admitted> = Some(Admitted { is_trial: false });
    const TRIAL: Option<Admitted> = Some(Admitted { is_trial: true });

    #[test]
    fn failures_in_a_row_open_it_and_a_trial_decides() {
        let mut breaker = Breaker::default();
        let fail = |breaker: &mut Breaker, ms| {
            let admitted = breaker.admit(at(ms)).expect("it is admitted");
            breaker.failed(admitted, at(ms))
        };
        for ms in 0..4 {
            assert!(!fail(&mut breaker, ms));
        }
        assert!(!breaker.succeeded(), "it was closed");
        for ms in 10..14 {
            assert!(!fail(&mut breaker, ms), "they are counted anew");
        }
        let before = breaker.admit(at(14)).expect("it is closed");
        assert!(fail(&mut breaker, 15));
        assert_eq!(breaker.admit(at(16)), None);
        assert!(!breaker.failed(before, at(900)), "one that was asked before changes nothing");
        assert_eq!(breaker.admit(at(1_014)), None);
        assert_eq!(breaker.admit(at(1_015)), TRIAL);
        assert_eq!(breaker.admit(at(1_016)), None, "one at a time");
        assert!(!breaker.failed(TRIAL.expect("a trial"), at(1_020)));
        assert_eq!(breaker.admit(at(3_019)), None, "twice as long");
        assert_eq!(breaker.admit(at(3_020)), TRIAL);
        assert!(breaker.succeeded());
        assert_eq!(breaker.admit(at(3_021)), NORMAL);
    }

    #[test]
    fn a_pause_has_a_limit() {
        let (mut breaker, mut now) = (Breaker::default(), 1_000);
        for _ in 0..FAILURES {
            breaker.failed(Admitted { is_trial: false }, at(now));
        }
        for pause_s in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(breaker.admit(at(now + pause_s * 1_000 - 1)), None);
            now += pause_s * 1_000;
            let trial = breaker.admit(at(now)).expect("the pause is over");
            breaker.failed(trial, at(now));
        }
    }
}
