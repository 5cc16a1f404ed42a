//! The steady period of a run: the period with the most open connections. The cost per connection and per
//! ping is computed from it.

use std::time::Duration;

use crate::process::Reading;
use crate::record::Traffic;

/// Minimum CPU time for computing a cost per ping: less is too inaccurate.
const MIN_CPU: Duration = Duration::from_millis(100);

/// Load on the server at a given time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerLoad {
    pub(crate) connections: u64,
    /// Number of pings since the start.
    pub(crate) pings: u64,
}

impl ServerLoad {
    pub(crate) fn of(traffic: &Traffic) -> Self {
        Self { connections: traffic.open(), pings: traffic.pings() }
    }
}

/// Period with the most open connections. It begins with the reading that has more than 1 % more connections
/// than any earlier reading, and ends before the first one that has more than 1 % fewer.
#[derive(Clone, Copy, Debug)]
pub(super) struct SteadyPeriod {
    from: (Reading, ServerLoad),
    to: (Reading, ServerLoad),
    is_ongoing: bool,
}

impl SteadyPeriod {
    pub(super) fn after(steady: Option<Self>, now: (Reading, ServerLoad)) -> Option<Self> {
        let connections = now.1.connections;
        let most = steady.map_or(0, |steady| steady.from.1.connections);
        if connections * 100 > most * 101 {
            return Some(Self { from: now, to: now, is_ongoing: true });
        }
        let mut steady = steady?;
        steady.is_ongoing &= connections * 100 >= most * 99;
        if steady.is_ongoing {
            steady.to = now;
        }
        Some(steady)
    }

    pub(super) fn time(&self) -> Duration {
        self.to.0.at - self.from.0.at
    }

    /// Returns the number of open connections at the end of the period.
    pub(super) fn connections(&self) -> u64 {
        self.to.1.connections
    }

    /// Returns the resident memory at the end of the period.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.to.0.resident_bytes
    }

    #[expect(clippy::cast_precision_loss, reason = "no process takes near 2^53 bytes")]
    pub(super) fn bytes_per_connection(&self, before: &Reading) -> Option<f64> {
        let (reading, load) = self.to;
        let grown = reading.resident_bytes.saturating_sub(before.resident_bytes);
        (load.connections > 0).then(|| (grown as f64 / load.connections as f64).round())
    }

    /// Returns the total CPU time divided by the number of pings: the cost of a ping if the server does
    /// nothing else.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(super) fn cpu_ms_per_ping(&self) -> Option<f64> {
        let pings = self.to.1.pings.saturating_sub(self.from.1.pings);
        let cpu = self.to.0.cpu.saturating_sub(self.from.0.cpu);
        let each = || (cpu.as_secs_f64() * 1e7 / pings as f64).round() / 1e4;
        (pings > 0 && cpu >= MIN_CPU).then(each)
    }
}
