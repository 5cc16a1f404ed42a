//! Checks that a server keeps a timeout: that it never acts early, and how late it acts.

use std::time::Duration;

use encke_core::close::CloseCode;

use encke_client::transport::websocket::NO_CLOSE_FRAME;
use encke_client::{ConnectionEnd, Greeting, Target};
use tokio::time::Instant;

use crate::args::Load;
use crate::record::{Counter, Metrics, Stalls, Times};

/// Tolerance for early expiries. The server counts from when it sent a packet, loadgen from when the packet
/// arrived. This much time may lie between the two.
const EARLY_TOLERANCE: Duration = Duration::from_millis(20);

/// Returns whether a connection ended in the way expected for a silent client. Only Encke has a close code
/// for that.
pub(super) fn ended_for_silence(end: ConnectionEnd, target: Target) -> bool {
    target != Target::Encke || [NO_CLOSE_FRAME, CloseCode::PongTimeout.code()].contains(&end.code())
}

/// Returns the reason to reject a run that is shorter than the ping interval plus the pong timeout: until then,
/// the server need not close a mute connection.
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
    read_at: Instant,
    /// Earliest time at which the packet may have arrived, if this process was stalled.
    arrived_from: Instant,
}

impl TimeoutStart {
    pub(super) fn now(stalls: &Stalls) -> Self {
        let read_at = Instant::now();
        Self { read_at, arrived_from: stalls.earliest(read_at) }
    }
}

/// Observed expiries of one kind of timeout.
#[derive(Debug)]
pub(super) struct TimeoutExpiries {
    early: Counter,
    /// Number of expiries that may or may not have been early: the packet from which they count was read
    /// after this process stalled.
    stalled: Counter,
    lateness: Times,
}

impl TimeoutExpiries {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            early: metrics.counter("early"),
            stalled: metrics.counter("stalled"),
            lateness: metrics.times("lateness_ms"),
        }
    }

    /// Records that the server acted at `now`. `start` is `None` if it had not sent a ping at all.
    pub(super) fn expired(&self, start: Option<TimeoutStart>, now: Instant, timeout: Duration) {
        let is_early = |since: Instant| now - since + EARLY_TOLERANCE < timeout;
        match start {
            Some(TimeoutStart { read_at, .. }) if !is_early(read_at) => {
                self.lateness.record((now - read_at).saturating_sub(timeout));
            }
            Some(TimeoutStart { arrived_from, .. }) if !is_early(arrived_from) => self.stalled.increment(),
            // The server acted too early, or without a ping.
            Some(_) | None => self.early.increment(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_are_early_late_or_undecided() {
        const TIMEOUT: Duration = Duration::from_millis(1000);
        // The time since the ping was read, and the length of the stall before it.
        for (since_read, stall, expected) in [
            (None, 0, (1, 0, None)),
            (Some(979), 0, (1, 0, None)),
            (Some(980), 0, (0, 0, Some(0.0))),
            (Some(990), 0, (0, 0, Some(0.0))),
            (Some(1001), 0, (0, 0, Some(1.0))),
            (Some(700), 200, (1, 0, None)),
            (Some(700), 400, (0, 1, None)),
            (Some(1000), 400, (0, 0, Some(0.0))),
        ] {
            let metrics = Metrics::new();
            let start = Instant::now();
            let (read_at, arrived_from) = (start + Duration::from_millis(stall), start);
            let ping = since_read.map(|_| TimeoutStart { read_at, arrived_from });
            let now = read_at + Duration::from_millis(since_read.unwrap_or_default());
            TimeoutExpiries::new(&metrics).expired(ping, now, TIMEOUT);
            let result = metrics.result();
            let count = |name| result.number(name).expect("the counter exists");
            let lateness = result.number("lateness_ms.max").ok();
            let (early, undecided, late) = expected;
            assert_eq!(
                (count("early"), count("stalled")),
                (f64::from(early), f64::from(undecided)),
                "{expected:?}"
            );
            assert_eq!(lateness.map(f64::round), late, "{expected:?}");
        }
    }
}
