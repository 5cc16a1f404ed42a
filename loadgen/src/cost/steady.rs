//! The time in which the most connections were open: what the server took then is what they cost.

use std::time::Duration;

use crate::process::Reading;
use crate::record::Traffic;

/// Less CPU time than this is not divided by anything.
const LEAST_CPU: Duration = Duration::from_millis(100);

/// The load on the server at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) connections: u64,
    /// Since the start.
    pub(crate) pings: u64,
}

impl Load {
    pub(crate) fn of(traffic: &Traffic) -> Self {
        Self { connections: traffic.open(), pings: traffic.pings() }
    }
}

/// The time in which the most connections were held: from the reading that had one in a hundred more than any
/// before it, for as long as none has one in a hundred less.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steady {
    from: (Reading, Load),
    to: (Reading, Load),
    goes_on: bool,
}

impl Steady {
    pub(super) fn after(steady: Option<Self>, now: (Reading, Load)) -> Option<Self> {
        let connections = now.1.connections;
        let most = steady.map_or(0, |steady| steady.from.1.connections);
        if connections * 100 > most * 101 {
            return Some(Self { from: now, to: now, goes_on: true });
        }
        let mut steady = steady?;
        steady.goes_on &= connections * 100 >= most * 99;
        if steady.goes_on {
            steady.to = now;
        }
        Some(steady)
    }

    pub(super) fn time(&self) -> Duration {
        self.to.0.at - self.from.0.at
    }

    /// At its end.
    pub(super) fn connections(&self) -> u64 {
        self.to.1.connections
    }

    /// At its end.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.to.0.resident_bytes
    }

    #[expect(clippy::cast_precision_loss, reason = "no process takes near 2^53 bytes")]
    pub(super) fn bytes_per_connection(&self, before: &Reading) -> Option<f64> {
        let (reading, load) = self.to;
        let grown = reading.resident_bytes.saturating_sub(before.resident_bytes);
        (load.connections > 0).then(|| (grown as f64 / load.connections as f64).round())
    }

    /// Of all CPU time: it is what a ping takes if pings are all there is to do.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(super) fn cpu_ms_per_ping(&self) -> Option<f64> {
        let pings = self.to.1.pings.saturating_sub(self.from.1.pings);
        let cpu = self.to.0.cpu.saturating_sub(self.from.0.cpu);
        let each = || (cpu.as_secs_f64() * 1e7 / pings as f64).round() / 1e4;
        (pings > 0 && cpu >= LEAST_CPU).then(each)
    }
}
