//! The crate `hierarchical_hash_wheel_timer`: its cancellable four-level wheel, used as the crate's own
//! timers use it.
//!
//! A timer is an `Rc` in a slot and in a hash map keyed by its id. The entry contains only the id, whose 8
//! bytes correspond to the value of the other structures. A tick is a millisecond. A timer is moved by
//! inserting one with the same id, which makes the map drop the earlier one and saves a `cancel`. Cancelled
//! entries stay in their slots until the wheel reaches them. Time advances with `skip` wherever the wheel
//! allows it, and with `tick` otherwise.

use std::rc::Rc;
use std::time::Duration;
use std::vec::IntoIter;

use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};

use super::{ExpiredTimer, Structure};

#[derive(Debug)]
struct Entry {
    id: u64,
}

impl CancellableTimerEntry for Entry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.id
    }
}

pub(crate) struct HashWheel {
    wheel: QuadWheelWithOverflow<Entry>,
    now: u64,
    /// Timers that expired at the current tick and have not been returned yet.
    due: IntoIter<Rc<Entry>>,
}

impl Structure for HashWheel {
    const NAME: &'static str = "hierarchical_hash_wheel_timer";

    type Key = u64;

    fn new(_reach: u64) -> Self {
        HashWheel { wheel: QuadWheelWithOverflow::new(), now: 0, due: Vec::new().into_iter() }
    }

    fn schedule(&mut self, deadline: u64, id: u64) -> u64 {
        let delay = Duration::from_millis(deadline.saturating_sub(self.now).max(1));
        let entry = Rc::new(Entry { id });
        assert!(self.wheel.insert_ref_with_delay(entry, delay).is_ok(), "every delay except 0 is accepted");
        id
    }

    fn reschedule(&mut self, id: u64, deadline: u64) -> bool {
        self.schedule(deadline, id) == id
    }

    fn cancel(&mut self, id: u64) -> bool {
        self.wheel.cancel(&id).is_ok()
    }

    fn expire_next(&mut self, tick: u64) -> Option<ExpiredTimer> {
        loop {
            if let Some(entry) = self.due.next() {
                return Some(ExpiredTimer { tick: self.now, value: entry.id });
            }
            if self.now >= tick {
                return None;
            }
            self.step(tick - self.now);
        }
    }
}

impl HashWheel {
    /// Advances to the next tick at which the wheel has work to do, by at most `at_most` ticks.
    fn step(&mut self, at_most: u64) {
        let idle = match self.wheel.can_skip() {
            Skip::None => 0,
            Skip::Millis(ticks) => u64::from(ticks).min(at_most),
            Skip::Empty => at_most,
        };
        if idle > 0 {
            let ticks = u32::try_from(idle).expect("a benchmark's ticks fit into 32 bits");
            self.wheel.skip(ticks);
        }
        self.now += idle;
        if idle < at_most {
            self.due = self.wheel.tick().into_iter();
            self.now += 1;
        }
    }
}
