//! Costs of an attack for the attacker, and the answers that the attacker received.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::result::Group;

/// Maximum number of kinds of answers. Additional kinds are counted together.
const MAX_KINDS: usize = 64;
const OTHER: &str = "other";

/// Counters that the attacker's thread updates and the measuring thread reads.
#[derive(Debug, Default)]
pub(super) struct AttackCosts {
    connections: AtomicU64,
    /// Number of frames, commands or HTTP requests, depending on the attack.
    requests: AtomicU64,
    bytes_sent: AtomicU64,
    open: AtomicU64,
    open_peak: AtomicU64,
    cpu_micros: AtomicU64,
    answers: Mutex<BTreeMap<String, u64>>,
}

/// Guard that counts a connection as open until dropped.
#[derive(Debug)]
pub(super) struct OpenGuard(Arc<AttackCosts>);

impl AttackCosts {
    pub(super) fn count_connection(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(super) fn count_sent(&self, bytes: usize, requests: u64) {
        self.bytes_sent.fetch_add(bytes as u64, Relaxed);
        self.requests.fetch_add(requests, Relaxed);
    }

    pub(super) fn count_open(self: &Arc<Self>) -> OpenGuard {
        let open = self.open.fetch_add(1, Relaxed) + 1;
        self.open_peak.fetch_max(open, Relaxed);
        OpenGuard(self.clone())
    }

    pub(super) fn count_answer(&self, kind: &str) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = answers.get_mut(kind) {
            *count += 1;
        } else {
            let kind = if answers.len() < MAX_KINDS { kind } else { OTHER };
            *answers.entry(kind.to_owned()).or_default() += 1;
        }
    }

    /// Records the CPU time used so far by the current thread, which is the attacker's.
    pub(super) fn note_cpu(&self) {
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) {
            let micros = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or_default();
            self.cpu_micros.store(micros(usage.user_time()) + micros(usage.system_time()), Relaxed);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no run takes near 2^53 microseconds")]
    pub(super) fn outcome(&self) -> Group {
        Group::default()
            .with("connections", self.connections.load(Relaxed))
            .with("open_peak", self.open_peak.load(Relaxed))
            .with("requests", self.requests.load(Relaxed))
            .with("sent_bytes", self.bytes_sent.load(Relaxed))
            .with("cpu_seconds", self.cpu_micros.load(Relaxed) as f64 / 1e6)
    }

    pub(super) fn answers(&self) -> Group {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().fold(Group::default(), |all, (kind, count)| all.with(kind, *count))
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_counts_connections_open_at_once() {
        let costs = Arc::<AttackCosts>::default();
        let first = costs.count_open();
        let second = costs.count_open();
        drop(first);
        let third = costs.count_open();
        assert_eq!(costs.outcome().number("open_peak"), Ok(2.0));
        drop((second, third));
        assert_eq!(costs.open.load(Relaxed), 0);
    }

    #[test]
    fn kinds_of_answers_are_bounded() {
        let costs = AttackCosts::default();
        for code in 0..1000 {
            costs.count_answer(&format!("close_{code}"));
        }
        costs.count_answer("close_3");
        let answers = costs.answers();
        assert_eq!(answers.iter().count(), MAX_KINDS + 1);
        assert_eq!(answers.number("close_3"), Ok(2.0));
        assert_eq!(answers.number(OTHER), Ok(936.0));
    }
}
