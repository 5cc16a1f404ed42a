//! Tests of random operations on reusable timers, which are compared with a list after every step.

use alloc::vec::Vec;

use super::super::seed::{Random, with_seeds};
use super::super::size;
use crate::{BeyondHorizon, Expiry, ReusableTimers, Tick, TimerKey, WorkBudget};

#[derive(Debug)]
struct ExpectedTimer {
    key: TimerKey,
    value: u64,
    armed: Option<Armed>,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    deadline: Tick,
    /// Earliest and latest tick at which the timer expires. `None` if it was armed at the end of time and
    /// never expires.
    window: Option<(u64, u64)>,
}

struct ReusableModel<S> {
    timers: S,
    known: Vec<ExpectedTimer>,
    stale_keys: Vec<TimerKey>,
    magnitude: u32,
}

impl<S: ReusableTimers<u64>> ReusableModel<S> {
    fn new(timers: S, magnitude: u32) -> Self {
        let reach = timers.horizon().map_or(u64::BITS, |horizon| horizon.max(1).ilog2() + 2);
        ReusableModel { timers, known: Vec::new(), stale_keys: Vec::new(), magnitude: magnitude.min(reach) }
    }

    fn any(&self, random: &mut Random) -> Option<usize> {
        let any = random.below(self.known.len().max(1) as u64);
        (!self.known.is_empty()).then(|| usize::try_from(any).expect("an index"))
    }

    fn any_deadline(&self, random: &mut Random) -> Tick {
        let now = self.timers.now();
        match random.below(16) {
            0 => Tick(now.0.saturating_sub(random.ticks(self.magnitude))),
            1 => Tick(u64::MAX - random.ticks(10)),
            2 => now.saturating_add(self.timers.horizon().unwrap_or(255) + random.below(2)),
            _ => now.saturating_add(random.ticks(self.magnitude)),
        }
    }

    fn register(&mut self, random: &mut Random) {
        let value = random.next();
        let key = self.timers.register(value);
        assert_eq!((self.timers.get(key), self.timers.deadline(key)), (Some(&value), None));
        assert!(
            self.known.iter().all(|known| known.key != key) && !self.stale_keys.contains(&key),
            "the key is not new"
        );
        self.known.push(ExpectedTimer { key, value, armed: None });
    }

    fn unregister(&mut self, random: &mut Random) {
        let Some(at) = self.any(random) else { return };
        let known = self.known.swap_remove(at);
        assert_eq!(self.timers.unregister(known.key), Some(known.value));
        self.stale_keys.push(known.key);
    }

    fn stale(&mut self, random: &mut Random) {
        let any = usize::try_from(random.below(self.stale_keys.len().max(1) as u64)).expect("an index");
        let Some(&key) = self.stale_keys.get(any) else { return };
        let soon = self.timers.now().saturating_add(1);
        assert_eq!(self.timers.arm(key, soon), Ok(false));
        assert_eq!(self.timers.arm_within(key, soon..=soon), Ok(false));
        assert!(!self.timers.disarm(key));
        assert_eq!((self.timers.get(key), self.timers.deadline(key)), (None, None));
        assert_eq!(self.timers.unregister(key), None);
    }

    fn window(&self, deadline: Tick) -> Option<(u64, u64)> {
        let now = self.timers.now();
        let due = deadline.0.max(now.0.checked_add(1)?);
        Some((due, due.saturating_add(self.timers.precision(deadline.saturating_since(now)))))
    }

    fn arm(&mut self, random: &mut Random) {
        let Some(at) = self.any(random) else { return };
        let start = self.any_deadline(random);
        let (key, before) = (self.known[at].key, self.known[at].armed);
        let last = self.timers.now().saturating_add(self.timers.horizon().unwrap_or(u64::MAX));
        let (mut end, is_within) = (start, random.one_in(3));
        let armed = if is_within {
            end = start.saturating_add(random.ticks(self.magnitude));
            self.timers.arm_within(key, start..=end)
        } else {
            self.timers.arm(key, start)
        };
        let deadline = self.timers.deadline(key);
        let old = before.map(|before| before.deadline);
        if let Err(refused) = armed {
            assert_eq!(
                (refused, deadline),
                (BeyondHorizon { value: (), last }, old),
                "the timer is unchanged"
            );
            assert!(start > last, "{start} is within the horizon");
            return;
        }
        assert_eq!(armed, Ok(true));
        let deadline = deadline.expect("armed");
        assert!((start..=end).contains(&deadline), "{deadline} for {start} to {end}");
        if is_within && old.is_some_and(|old| (start..=end).contains(&old)) {
            assert_eq!(Some(deadline), old, "the deadline is kept");
            return;
        }
        self.known[at].armed = Some(Armed { deadline, window: self.window(deadline) });
    }

    fn disarm(&mut self, random: &mut Random) {
        let Some(at) = self.any(random) else { return };
        let known = &mut self.known[at];
        assert_eq!(self.timers.disarm(known.key), known.armed.take().is_some());
        assert!(!self.timers.disarm(known.key), "already disarmed");
        assert_eq!(self.timers.deadline(known.key), None);
    }

    fn latest(&self) -> Option<u64> {
        self.known.iter().filter_map(|known| Some(known.armed?.window?.1)).min()
    }

    fn drive(&mut self, random: &mut Random) {
        let to = match random.below(8) {
            0 => self.timers.next_wakeup(Tick::MAX).unwrap_or(self.timers.now()),
            1 => Tick(self.timers.now().0.saturating_sub(random.below(3))),
            _ => self.timers.now().saturating_add(random.below(1 << self.magnitude.min(12))),
        };
        let mut tick = self.timers.now();
        loop {
            let wakeup = self.timers.next_wakeup(Tick::MAX);
            assert!(self.latest().is_none_or(|latest| wakeup.is_some_and(|tick| tick.0 <= latest)));
            match self.timers.expire_next(to, &mut WorkBudget::new(random.below(6))) {
                Expiry::Due(expired) => {
                    let (key, deadline, value) = (expired.key, expired.deadline, expired.value);
                    let known = self.known.iter_mut().find(|known| known.key == key).expect("still present");
                    assert_eq!(*value, known.value);
                    known.value = known.value.wrapping_add(1);
                    *value = known.value;
                    let armed = known.armed.take().expect("armed");
                    let now = self.timers.now();
                    let (earliest, latest) = armed.window.expect("it expires before the end of time");
                    assert!((earliest..=latest).contains(&now.0), "{now} for {armed:?}");
                    assert!(armed.deadline == deadline && now >= tick, "out of order");
                    assert_eq!(self.timers.deadline(key), None, "already expired");
                    tick = now;
                    if random.one_in(4) {
                        self.change(random);
                    }
                }
                Expiry::OutOfBudget if random.one_in(3) => self.change(random),
                Expiry::OutOfBudget => {}
                Expiry::UpToDate => break,
            }
        }
        assert!(self.timers.now() >= to);
        assert!(self.latest().is_none_or(|latest| latest > self.timers.now().0), "an overdue timer is left");
    }

    fn change(&mut self, random: &mut Random) {
        match random.below(16) {
            0 => self.register(random),
            1 if self.known.len() > size(30, 10) => self.unregister(random),
            2..4 => self.disarm(random),
            4 => self.stale(random),
            _ => self.arm(random),
        }
    }
}

pub(super) fn matches_a_list<S: ReusableTimers<u64>>(new: fn(Tick) -> S) {
    for (begins, magnitude) in [(0, 12), (250, 5), (1 << 40, 20), (u64::MAX - 5000, 11)] {
        with_seeds(|random| {
            let mut model = ReusableModel::new(new(Tick(begins)), magnitude);
            (0..size(40, 10)).for_each(|_| model.register(random));
            for _ in 0..size(600, 100) {
                if random.one_in(10) {
                    model.drive(random)
                } else {
                    model.change(random)
                }
                assert_eq!(model.timers.len(), model.known.len());
            }
        });
    }
}
