//! Checks that a server keeps a timeout: that it never acts early, and how late it acts.

use std::time::Duration;

use encke_core::close::CloseCode;

use tokio::time::Instant;

use crate::args::Load;
use crate::client::Greeting;
use crate::record::{Counter, Recorder, Times};
use crate::result::{Distribution, summed};
use crate::target::Target;
use crate::transport::websocket::{ConnectionEnd, NO_CLOSE_FRAME};

/// Tolerance for early expiries. The server counts from when it sent a packet, loadgen from when the packet
/// arrived. This much time may lie between the two.
pub(super) const EARLY_TOLERANCE: Duration = Duration::from_millis(20);

/// Returns whether a connection ended in the way expected for a silent client. Only Encke has a close code
/// for that.
pub(super) fn ended_for_silence(end: ConnectionEnd, target: Target) -> bool {
    target != Target::Encke || [NO_CLOSE_FRAME, CloseCode::PongTimeout.code()].contains(&end.code())
}

/// Rejects a run that is too short. A mute connection is pinged after the ping interval, and closed only
/// after the pong timeout as well, so a shorter run could show nothing.
pub(super) fn objection_if_too_short(load: &Load, hello: &Greeting) -> Option<String> {
    let needed = hello.ping_interval + hello.pong_timeout;
    (load.duration < needed).then(|| {
        format!(
            "--duration {}: the server pings every {} and waits {} for the pong, so it closes a mute connection after up to {}",
            humantime::format_duration(load.duration),
            humantime::format_duration(hello.ping_interval),
            humantime::format_duration(hello.pong_timeout),
            humantime::format_duration(needed),
        )
    })
}

/// Arrival of the packet from which the server's timeout counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeoutStart {
    pub(super) read_at: Instant,
    /// Earliest time at which the packet may have arrived, if this process was stalled.
    arrived_from: Instant,
}

/// How long the server waited before it acted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waited {
    since_read: Duration,
    at_most: Duration,
}

impl TimeoutStart {
    pub(super) fn now(recorder: &Recorder) -> Self {
        let read_at = Instant::now();
        Self { read_at, arrived_from: recorder.stalls().earliest(read_at) }
    }

    pub(super) fn waited(self) -> Waited {
        Waited { since_read: self.read_at.elapsed(), at_most: self.arrived_from.elapsed() }
    }
}

/// Observed expiries of one kind of timeout.
#[derive(Debug, Default)]
pub(super) struct TimeoutExpiries {
    early: Counter,
    /// Number of expiries that may or may not have been early: the packet from which they count was read
    /// after this process stalled.
    stalled: Counter,
    lateness: Times,
}

impl TimeoutExpiries {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.counters([("early", &self.early), ("stalled", &self.stalled)]);
        recorder.times("lateness_ms", &self.lateness);
    }

    /// Records an expiry. `waited` is `None` if the server had not sent a ping at all.
    pub(super) fn expired(&self, waited: Option<Waited>, timeout: Duration) {
        match waited {
            Some(Waited { since_read, .. }) if since_read + EARLY_TOLERANCE >= timeout => {
                self.lateness.record(since_read.saturating_sub(timeout));
            }
            Some(Waited { at_most, .. }) if at_most + EARLY_TOLERANCE >= timeout => {
                self.stalled.increment();
            }
            // The server acted too early, or without a ping.
            Some(_) | None => self.early.increment(),
        }
    }

    /// Records an expiry for which only bounds are known: the server began to wait between `at_most` and
    /// `at_least` ago. Counts it as early, or as late, only if that is certain.
    pub(super) fn expired_since(&self, at_most: Duration, at_least: Duration, timeout: Duration) {
        if at_most < timeout {
            self.early.increment();
        } else {
            self.lateness.record(at_least.saturating_sub(timeout));
        }
    }

    pub(super) fn outcome(&self) -> DeadlineOutcome {
        DeadlineOutcome {
            early: self.early.get(),
            stalled: self.stalled.get(),
            lateness_ms: self.lateness.summary(),
        }
    }
}

summed! {
    pub(super) struct DeadlineOutcome {
        early: u64,
        stalled: u64,
        lateness_ms: Distribution,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(1000);

    fn expired(waited_ms: Option<u64>) -> DeadlineOutcome {
        stalled(waited_ms, 0)
    }

    /// Returns the outcome of an expiry whose ping was read after a stall of this length.
    fn stalled(waited_ms: Option<u64>, stall_ms: u64) -> DeadlineOutcome {
        let deadline = TimeoutExpiries::default();
        let waited = waited_ms
            .map(Duration::from_millis)
            .map(|since_read| Waited { since_read, at_most: since_read + Duration::from_millis(stall_ms) });
        deadline.expired(waited, TIMEOUT);
        deadline.outcome()
    }

    #[test]
    fn expiries_during_an_own_stall_are_not_judged() {
        for (waited, stall, early, undecided, late) in
            [(700, 400, 0, 1, 0), (700, 200, 1, 0, 0), (1000, 400, 0, 0, 1), (600, 380, 0, 1, 0)]
        {
            let outcome = stalled(Some(waited), stall);
            let lateness = outcome.lateness_ms.number("count");
            assert_eq!((outcome.early, outcome.stalled), (early, undecided), "{waited} {stall}");
            assert_eq!(lateness, Ok(f64::from(late)), "{waited} {stall}");
        }
    }

    #[test]
    fn early_begins_20_ms_before_the_deadline() {
        for (waited, early) in [(None, 1), (Some(0), 1), (Some(979), 1), (Some(980), 0), (Some(5000), 0)] {
            assert_eq!(expired(waited).early, early, "{waited:?}");
        }
    }

    #[test]
    fn uncertain_expiries_are_neither_early_nor_late() {
        for (at_most, at_least, early, late) in
            [(999, 990, 1, None), (1000, 999, 0, Some(0.0)), (1010, 1005, 0, Some(5.0))]
        {
            let deadline = TimeoutExpiries::default();
            deadline.expired_since(Duration::from_millis(at_most), Duration::from_millis(at_least), TIMEOUT);
            let outcome = deadline.outcome();
            assert_eq!(outcome.early, early, "{at_most}");
            let max = outcome.lateness_ms.number("max").ok();
            assert!(max.zip(late).map_or(max == late, |(max, late)| (max - late).abs() < 0.01), "{max:?}");
        }
    }

    #[test]
    fn lateness_counts_from_the_deadline() {
        let lateness = |waited| expired(Some(waited)).lateness_ms.number("max");
        assert_eq!(lateness(990), Ok(0.0));
        assert_eq!(lateness(1001), Ok(1.0));
        assert!(lateness(900).is_err(), "an early expiry has no lateness");
    }
}
