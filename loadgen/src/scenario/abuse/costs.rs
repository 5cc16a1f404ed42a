//! Costs of an attack for the attacker, and the answers that the attacker received.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::record::{Counter, Counts, Highest, Metrics};

/// Counters that the attacker's thread updates.
#[derive(Debug)]
pub(super) struct AttackCosts {
    pub(super) connections: Counter,
    /// Number of frames, commands or HTTP requests, depending on the attack.
    requests: Counter,
    sent_bytes: Counter,
    open: AtomicU64,
    open_peak: Highest,
    cpu_seconds: Highest,
    answers: Counts,
}

/// Guard that counts a connection as open until dropped.
#[derive(Debug)]
pub(super) struct OpenGuard(Arc<AttackCosts>);

impl AttackCosts {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let attacker = metrics.below("attacker");
        Self {
            connections: attacker.counter("connections"),
            requests: attacker.counter("requests"),
            sent_bytes: attacker.counter("sent_bytes"),
            open: AtomicU64::default(),
            open_peak: attacker.highest("open_peak"),
            cpu_seconds: attacker.highest("cpu_seconds"),
            answers: metrics.counts("answers"),
        }
    }

    pub(super) fn count_sent(&self, bytes: usize, requests: u64) {
        self.sent_bytes.add(bytes as u64);
        self.requests.add(requests);
    }

    pub(super) fn count_open(self: &Arc<Self>) -> OpenGuard {
        let open = self.open.fetch_add(1, Relaxed) + 1;
        #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
        self.open_peak.record(open as f64);
        OpenGuard(self.clone())
    }

    pub(super) fn count_answer(&self, kind: &str) {
        self.answers.increment(kind);
    }

    /// Records the CPU time used so far by the current thread, which is the attacker's.
    pub(super) fn note_cpu(&self) {
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) {
            let cpu = usage.user_time() + usage.system_time();
            #[expect(clippy::cast_precision_loss, reason = "no run takes near 2^53 microseconds")]
            self.cpu_seconds.record(cpu.num_microseconds() as f64 / 1e6);
        }
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}
