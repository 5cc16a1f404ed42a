//! The thread that owns the wheel.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use encke_wheel::schemes::SimpleWheel;
use encke_wheel::{Expiry, Tick, TimerQueue, WorkBudget};

use crate::formula::{SLOT, SLOTS, wheel};
use crate::{RUN, SessionTimer, TickClock, TimerKind};

#[derive(Debug, Default)]
pub(crate) struct WheelCounts {
    pub(crate) set: u64,
    /// Number of session expiries among the started timers. They lie beyond the cap.
    pub(crate) expiries: u64,
    /// Number of timers that were set to the cap.
    pub(crate) capped: u64,
    pub(crate) slots: [SlotCounts; SLOTS],
    pub(crate) sleeps: u64,
    pub(crate) asleep: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotCounts {
    pub(crate) handed_over: u64,
    pub(crate) max_at_once: u64,
}

pub(crate) struct WheelThread {
    clock: TickClock,
    wheel: SimpleWheel<SessionTimer>,
    jobs: Sender<SessionTimer>,
    counts: WheelCounts,
}

impl WheelThread {
    pub(crate) fn new(clock: TickClock, jobs: Sender<SessionTimer>) -> Self {
        WheelThread { clock, wheel: wheel(), jobs, counts: WheelCounts::default() }
    }

    pub(crate) fn run(mut self, timers: &Receiver<SessionTimer>) -> (SimpleWheel<SessionTimer>, WheelCounts) {
        while self.clock.now() < RUN {
            self.expire();
            if let Some(timer) = self.receive(timers) {
                self.counts.set += 1;
                self.counts.expiries += u64::from(timer.kind == TimerKind::Expiry);
                self.set(timer);
            }
        }
        (self.wheel, self.counts)
    }

    fn expire(&mut self) {
        let now = self.clock.now();
        let mut slot = SlotCounts::default();
        // Use an unlimited budget, because this thread has nothing else to do.
        while let Expiry::Due(expired) = self.wheel.expire_next(now, &mut WorkBudget::unlimited()) {
            let timer = expired.value;
            if expired.deadline < timer.deadline {
                self.set(timer); // The deadline was beyond the cap.
                continue;
            }
            slot.handed_over += 1;
            // Ignore errors: sending fails only if a worker has panicked, which is reported when the worker
            // is joined.
            let _ = self.jobs.send(timer);
        }
        // Count all timers in the current slot: if the thread is delayed, the timers of several slots are
        // sent together.
        let index = usize::try_from(now.0 / SLOT).unwrap_or(0) % SLOTS;
        let total = &mut self.counts.slots[index];
        total.handed_over += slot.handed_over;
        total.max_at_once = total.max_at_once.max(slot.handed_over);
    }

    fn set(&mut self, timer: SessionTimer) {
        if let Err(beyond) = self.wheel.schedule(timer.deadline, timer) {
            // Set the timer to the cap: the caller has to remember the deadline and set the timer again each
            // time it expires.
            self.counts.capped += 1;
            let reached = self.wheel.schedule(beyond.last, timer);
            reached.expect("within the reported horizon");
        }
    }

    /// Receives the next timer to set, or returns `None` once the wheel has something to do.
    fn receive(&mut self, timers: &Receiver<SessionTimer>) -> Option<SessionTimer> {
        match timers.try_recv() {
            Ok(timer) => return Some(timer),
            Err(TryRecvError::Disconnected) => unreachable!("main holds a sender"),
            Err(TryRecvError::Empty) => {}
        }
        let wakeup = self.wheel.next_wakeup(RUN).unwrap_or(RUN);
        let before = Instant::now();
        // Wait for the next tick and for new timers together: a new timer must end the sleep, because it may
        // be due before all others.
        let timer = timers.recv_deadline(self.clock.instant(wakeup)).ok();
        self.counts.asleep += before.elapsed();
        self.counts.sleeps += 1;
        timer
    }
}

/// Returns the error message if an interval is beyond the horizon of the wheel.
pub(crate) fn refused(interval: u64) -> Option<String> {
    wheel().schedule(Tick(interval), ()).err().map(|beyond| beyond.to_string())
}
