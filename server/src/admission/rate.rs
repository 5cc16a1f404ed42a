use std::time::Duration;

use encke_core::Timestamp;

/// Limits the commands of one client: a token bucket that holds one second's worth, kept as the instant at which it
/// would be full again (the generic cell rate algorithm of ATM, ITU-T I.371). It needs no timer.
#[derive(Debug)]
pub(crate) struct CommandRate {
    /// The share of a second that one command takes; zero means no limit.
    each: Duration,
    full_at: Timestamp,
}

/// What to do with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Carry it out.
    Fine,
    /// Refuse it.
    TooFast,
    /// Close the connection: the client ignored a second's worth of refusals.
    Flood,
}

const BURST: Duration = Duration::from_secs(1);

impl CommandRate {
    pub(crate) fn new(per_second: u32, now: Timestamp) -> Self {
        let each = Duration::from_secs(1).checked_div(per_second).unwrap_or_default();
        Self { each, full_at: now }
    }

    /// Counts one command.
    pub(crate) fn command(&mut self, now: Timestamp) -> Pace {
        self.full_at = self.full_at.max(now) + self.each;
        match self.full_at.since(now) {
            used if used <= BURST => Pace::Fine,
            used if used <= 2 * BURST => Pace::TooFast,
            _ => Pace::Flood,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000 + ms * 1_000_000)
    }

    #[test]
    fn a_seconds_worth_at_once_then_one_at_a_time() {
        let mut rate = CommandRate::new(10, at(0));
        let mut burst = |count, ms| (0..count).map(|_| rate.command(at(ms))).collect::<Vec<_>>();
        assert_eq!(burst(10, 0), [Pace::Fine; 10]);
        assert_eq!(burst(1, 50), [Pace::TooFast]);
        assert_eq!(burst(1, 200), [Pace::Fine], "the refused one was counted, too");
        assert_eq!(burst(10, 3_000), [Pace::Fine; 10]);
    }

    #[test]
    fn a_client_that_ignores_refusals_is_a_flood() {
        let mut rate = CommandRate::new(10, at(0));
        let paces: Vec<_> = (0..21).map(|_| rate.command(at(0))).collect();
        assert_eq!(paces[10..20], [Pace::TooFast; 10]);
        assert_eq!(paces[20], Pace::Flood);
    }

    #[test]
    fn zero_is_no_limit() {
        let mut rate = CommandRate::new(0, at(0));
        assert!((0..10_000).all(|_| rate.command(at(0)) == Pace::Fine));
    }
}
