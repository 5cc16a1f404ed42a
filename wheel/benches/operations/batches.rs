//! This crate's wheel, of which many timers are taken at a time.

use encke_wheel::{Expired, Tick, TimerKey, TimingWheel, Work};

use crate::support::structures::{Due, Structure};

pub(crate) struct Batches {
    wheel: TimingWheel<u64>,
    batch: Vec<Expired<u64>>,
    /// How many of these were told.
    told: usize,
    /// Whether they are all up to the tick that was asked for last.
    is_all: bool,
}

impl Structure for Batches {
    const NAME: &'static str = "TimingWheel (batch)";

    type Key = TimerKey;

    fn new(_reach: u64) -> Self {
        Batches { wheel: TimingWheel::new(Tick::ZERO), batch: Vec::new(), told: 0, is_all: false }
    }

    fn schedule(&mut self, deadline: u64, value: u64) -> TimerKey {
        self.wheel.schedule(Tick(deadline), value)
    }

    fn reschedule(&mut self, key: TimerKey, deadline: u64) -> bool {
        self.wheel.reschedule(key, Tick(deadline))
    }

    fn cancel(&mut self, key: TimerKey) -> bool {
        self.wheel.cancel(key).is_some()
    }

    fn expire_next(&mut self, tick: u64) -> Option<Due> {
        while self.told == self.batch.len() {
            self.batch.clear();
            self.told = 0;
            if self.is_all {
                self.is_all = false;
                return None;
            }
            self.is_all = self.wheel.expire_batch(Tick(tick), &mut Work::unlimited(), &mut self.batch);
        }
        let Expired { deadline, value, .. } = self.batch[self.told];
        self.told += 1;
        Some(Due { tick: deadline.0, value })
    }
}
