//! What an attacker pays, and what it is answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::result::Group;

/// More kinds of answers than these are counted as one.
const MAX_KINDS: usize = 64;
const OTHER: &str = "other";

/// Kept by the attacker's thread, and read by the one that measures.
#[derive(Debug, Default)]
pub(super) struct Bill {
    connections: AtomicU64,
    /// Frames, commands or HTTP requests, whichever the attack consists of.
    requests: AtomicU64,
    bytes_sent: AtomicU64,
    open: AtomicU64,
    open_peak: AtomicU64,
    cpu_micros: AtomicU64,
    answers: Mutex<BTreeMap<String, u64>>,
}

/// A connection of the attacker that the server has let in, for as long as it is kept.
#[derive(Debug)]
pub(super) struct Place(Arc<Bill>);

impl Bill {
    pub(super) fn connection(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(super) fn sent(&self, bytes: usize, requests: u64) {
        self.bytes_sent.fetch_add(bytes as u64, Relaxed);
        self.requests.fetch_add(requests, Relaxed);
    }

    pub(super) fn place(self: &Arc<Self>) -> Place {
        let open = self.open.fetch_add(1, Relaxed) + 1;
        self.open_peak.fetch_max(open, Relaxed);
        Place(self.clone())
    }

    pub(super) fn answer(&self, kind: &str) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = answers.get_mut(kind) {
            *count += 1;
        } else {
            let kind = if answers.len() < MAX_KINDS { kind } else { OTHER };
            *answers.entry(kind.to_owned()).or_default() += 1;
        }
    }

    /// Notes what this thread, which is the attacker's, has used so far.
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

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_what_was_open_at_once() {
        let bill = Arc::<Bill>::default();
        let first = bill.place();
        let second = bill.place();
        drop(first);
        let third = bill.place();
        assert_eq!(bill.outcome().number("open_peak"), Ok(2.0));
        drop((second, third));
        assert_eq!(bill.open.load(Relaxed), 0);
    }

    #[test]
    fn kinds_of_answers_are_bounded() {
        let bill = Bill::default();
        for code in 0..1000 {
            bill.answer(&format!("close_{code}"));
        }
        bill.answer("close_3");
        let answers = bill.answers();
        assert_eq!(answers.iter().count(), MAX_KINDS + 1);
        assert_eq!(answers.number("close_3"), Ok(2.0));
        assert_eq!(answers.number(OTHER), Ok(936.0));
    }
}
