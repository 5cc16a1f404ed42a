//! When to sample: every second, at the start of a phase, and ten times a second in brief phases.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

/// Time between samples in a brief phase: ten of the kernel's ticks of CPU time.
const FAST_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct SampleTriggers {
    requests: watch::Sender<u64>,
    sampled: Notify,
    is_fast: Cell<bool>,
}

impl Default for SampleTriggers {
    fn default() -> Self {
        let requests = watch::Sender::new(0);
        Self { requests, sampled: Notify::new(), is_fast: Cell::new(false) }
    }
}

impl SampleTriggers {
    pub(super) fn is_fast(&self) -> bool {
        self.is_fast.get()
    }

    pub(super) fn enter_phase(&self, is_brief: bool) {
        self.is_fast.set(is_brief);
        self.request_sample();
    }

    fn request_sample(&self) {
        self.requests.send_modify(|number| *number += 1);
    }

    pub(super) async fn sample_now(&self) {
        if self.is_fast() {
            let sampled = self.sampled.notified();
            self.request_sample();
            sampled.await;
        }
    }

    pub(super) fn note_sampled(&self) {
        self.sampled.notify_waiters();
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.requests.subscribe()
    }
}

/// Reason for taking a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleReason {
    /// A full second has passed.
    Second,
    /// A phase has begun, or the scenario has requested a sample.
    Requested,
    /// An additional sample in a brief phase.
    Between,
}

/// Schedules samples.
#[derive(Debug)]
pub(crate) struct SamplingClock {
    recorder: super::Recorder,
    requests: watch::Receiver<u64>,
    first: Instant,
    due: Instant,
    period: Duration,
}

impl SamplingClock {
    pub(super) fn new(recorder: &super::Recorder, first: Instant, period: Duration) -> Self {
        let mut requests = recorder.shared.triggers.subscribe();
        // The first phase may have begun already.
        requests.mark_changed();
        Self { recorder: recorder.clone(), requests, first, due: first, period }
    }

    /// Waits until the next sample is due, and returns its reason and when it was due.
    pub(crate) async fn next(&mut self) -> (SampleReason, Instant) {
        let triggers = &self.recorder.shared.triggers;
        let soon = Instant::now() + FAST_INTERVAL;
        tokio::select! {
            biased;
            Ok(()) = self.requests.changed() => (SampleReason::Requested, Instant::now()),
            () = sleep_until(self.due) => {
                let due = self.due;
                // Skip samples that were missed.
                let over = Instant::now().saturating_duration_since(self.first).div_duration_f64(self.period);
                self.due = self.first + self.period.mul_f64(over.floor() + 1.0);
                (SampleReason::Second, due)
            }
            () = sleep_until(soon), if triggers.is_fast() => (SampleReason::Between, soon),
        }
    }
}
