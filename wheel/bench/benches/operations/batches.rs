use encke_wheel::{Expired, Tick, TimerKey, TimingWheel, WorkBudget};
use encke_wheel_bench::structures::{ExpiredTimer, Structure};

pub(crate) struct Batches {
    wheel: TimingWheel<u64>,
    batch: Vec<Expired<u64>>,
    returned: usize,
    /// Whether the batch contains all remaining timers up to the requested tick.
    is_complete: bool,
}

impl Structure for Batches {
    const NAME: &'static str = "TimingWheel (batch)";

    type Key = TimerKey;

    fn new(_reach: u64) -> Self {
        Batches { wheel: TimingWheel::new(Tick::ZERO), batch: Vec::new(), returned: 0, is_complete: false }
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

    fn expire_next(&mut self, tick: u64) -> Option<ExpiredTimer> {
        while self.returned == self.batch.len() {
            self.batch.clear();
            self.returned = 0;
            if self.is_complete {
                self.is_complete = false;
                return None;
            }
            self.is_complete =
                self.wheel.expire_batch(Tick(tick), &mut WorkBudget::unlimited(), &mut self.batch);
        }
        let Expired { deadline, value, .. } = self.batch[self.returned];
        self.returned += 1;
        Some(ExpiredTimer { tick: deadline.0, value })
    }
}
