//! Looks at everything beside those of each second: at the ends of phases, and ten times a second in a brief one.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

/// From one look to the next in a brief phase. The kernel counts CPU time in a tenth of it.
const CLOSELY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Looks {
    asked: watch::Sender<u64>,
    looked: Notify,
    is_close: Cell<bool>,
}

impl Default for Looks {
    fn default() -> Self {
        let asked = watch::Sender::new(0);
        Self { asked, looked: Notify::new(), is_close: Cell::new(false) }
    }
}

impl Looks {
    pub(super) fn is_close(&self) -> bool {
        self.is_close.get()
    }

    pub(super) fn enter_phase(&self, is_brief: bool) {
        self.is_close.set(is_brief);
        self.ask();
    }

    fn ask(&self) {
        self.asked.send_modify(|number| *number += 1);
    }

    pub(super) async fn look_now(&self) {
        if self.is_close() {
            let looked = self.looked.notified();
            self.ask();
            looked.await;
        }
    }

    pub(super) fn note_looked(&self) {
        self.looked.notify_waiters();
    }

    pub(super) fn asked(&self) -> watch::Receiver<u64> {
        self.asked.subscribe()
    }
}

/// When one who looks each second is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A full second is over.
    Second,
    /// A phase begins, or the scenario wants what there is now to be seen.
    Asked,
    /// It is a brief phase.
    Between,
}

/// Tells one who looks each second when to look.
#[derive(Debug)]
pub(crate) struct Clock {
    recorder: super::Recorder,
    asked: watch::Receiver<u64>,
    first: Instant,
    due: Instant,
    period: Duration,
}

impl Clock {
    pub(super) fn new(recorder: &super::Recorder, first: Instant, period: Duration) -> Self {
        let mut asked = recorder.shared.looks.asked();
        // The first phase may have begun already.
        asked.mark_changed();
        Self { recorder: recorder.clone(), asked, first, due: first, period }
    }

    /// With the instant at which it was due.
    pub(crate) async fn next(&mut self) -> (Due, Instant) {
        let looks = &self.recorder.shared.looks;
        let soon = Instant::now() + CLOSELY;
        tokio::select! {
            biased;
            Ok(()) = self.asked.changed() => (Due::Asked, Instant::now()),
            () = sleep_until(self.due) => {
                let due = self.due;
                // What was missed is left out.
                let over = Instant::now().saturating_duration_since(self.first).div_duration_f64(self.period);
                self.due = self.first + self.period.mul_f64(over.floor() + 1.0);
                (Due::Second, due)
            }
            () = sleep_until(soon), if looks.is_close() => (Due::Between, soon),
        }
    }
}
