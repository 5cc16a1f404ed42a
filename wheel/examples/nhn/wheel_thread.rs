//! The thread that owns the wheel.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use encke_wheel::schemes::SimpleWheel;
use encke_wheel::{Expire, Tick, TimerQueue, Work};

use crate::formula::{SLOT, SLOTS, wheel};
use crate::{Clock, Kind, RUN, Timer};

/// What the thread did.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) set: u64,
    /// Of these, expiries, which lie beyond the cap.
    pub(crate) expiries: u64,
    /// How often the cap was met.
    pub(crate) capped: u64,
    pub(crate) slots: [Slot; SLOTS],
    pub(crate) sleeps: u64,
    pub(crate) asleep: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) handed_over: u64,
    pub(crate) most_at_once: u64,
}

pub(crate) struct WheelThread {
    clock: Clock,
    wheel: SimpleWheel<Timer>,
    jobs: Sender<Timer>,
    counts: Counts,
}

impl WheelThread {
    pub(crate) fn new(clock: Clock, jobs: Sender<Timer>) -> Self {
        WheelThread { clock, wheel: wheel(), jobs, counts: Counts::default() }
    }

    /// Turns the wheel until the run is over.
    pub(crate) fn run(mut self, timers: &Receiver<Timer>) -> (SimpleWheel<Timer>, Counts) {
        while self.clock.now() < RUN {
            self.turn();
            if let Some(timer) = self.receive(timers) {
                self.counts.set += 1;
                self.counts.expiries += u64::from(timer.kind == Kind::Expiry);
                self.set(timer);
            }
        }
        (self.wheel, self.counts)
    }

    /// Hands over all that is due by now.
    fn turn(&mut self) {
        let now = self.clock.now();
        let mut slot = Slot::default();
        // Without a limit: there is nothing else for this thread to do.
        while let Expire::Due(expired) = self.wheel.expire_next(now, &mut Work::unlimited()) {
            let timer = expired.value;
            if expired.deadline < timer.deadline {
                self.set(timer); // It lay beyond the cap, and has come nearer.
                continue;
            }
            slot.handed_over += 1;
            // The workers are gone only if one has panicked, and joining it says so.
            let _ = self.jobs.send(timer);
        }
        // If the thread came too late, several slots count as one, as they are for the workers.
        let index = usize::try_from(now.0 / SLOT).unwrap_or(0) % SLOTS;
        let total = &mut self.counts.slots[index];
        total.handed_over += slot.handed_over;
        total.most_at_once = total.most_at_once.max(slot.handed_over);
    }

    fn set(&mut self, timer: Timer) {
        if let Err(beyond) = self.wheel.schedule(timer.deadline, timer) {
            // The cap. The caller has to remember the deadline and to set the timer again each time it comes.
            self.counts.capped += 1;
            let reached = self.wheel.schedule(beyond.last, timer);
            reached.expect("it said that it reaches so far");
        }
    }

    /// The next timer to set, or none by the time the wheel has something to do.
    fn receive(&mut self, timers: &Receiver<Timer>) -> Option<Timer> {
        match timers.try_recv() {
            Ok(timer) => return Some(timer),
            Err(TryRecvError::Disconnected) => unreachable!("main has a sender"),
            Err(TryRecvError::Empty) => {}
        }
        let wakeup = self.wheel.next_wakeup(RUN).unwrap_or(RUN);
        let before = Instant::now();
        // In one place for both: a new timer ends the sleep, since it may be due before all others.
        let timer = timers.recv_deadline(self.clock.instant(wakeup)).ok();
        self.counts.asleep += before.elapsed();
        self.counts.sleeps += 1;
        timer
    }
}

/// What lies further ahead than the wheel reaches: how the wheel says so.
pub(crate) fn refused(interval: u64) -> Option<String> {
    wheel().schedule(Tick(interval), ()).err().map(|beyond| beyond.to_string())
}
