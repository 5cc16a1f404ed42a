//! Tests of random operations on a queue, which is compared with a sorted map after every step.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::seed::{Random, with_seeds};
use super::{QueueUnderTest, size, window};
use crate::{BeyondHorizon, Expired, Expiry, Tick, TimerKey, WorkBudget};

/// A queue and its expected state: timers sorted by the latest tick at which they expire.
struct QueueModel<Q> {
    queue: Q,
    /// All timers, keyed by latest expiry (`u64::MAX + 1` if the timer never expires) and number. The number
    /// is also the timer's value.
    timers: BTreeMap<(u128, u64), ModelTimer>,
    /// Every key ever returned, with the number of its timer.
    keys: Vec<(TimerKey, u64)>,
    /// Latest expiry of each live timer, by number.
    alive: BTreeMap<u64, u128>,
    /// Maximum work for all timers scheduled so far, if bounded.
    allowed: u64,
    /// Deadlines are mostly less than `2^magnitude` ticks ahead.
    magnitude: u32,
}

#[derive(Debug, PartialEq)]
struct ModelTimer {
    key: TimerKey,
    deadline: Tick,
    due: u64,
}

impl<Q: QueueUnderTest> QueueModel<Q> {
    fn new(queue: Q, magnitude: u32) -> Self {
        let reach = queue.horizon().map_or(u64::BITS, |horizon| horizon.max(1).ilog2() + 2);
        let magnitude = magnitude.min(reach);
        let (timers, alive, keys) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        QueueModel { queue, timers, keys, alive, allowed: 0, magnitude }
    }

    fn add(&mut self, number: u64, key: TimerKey, deadline: Tick) {
        let (due, latest) = match window(&self.queue, deadline) {
            Some((due, latest)) => (due, u128::from(latest)),
            None => (u64::MAX, u128::from(u64::MAX) + 1),
        };
        assert_eq!(self.timers.insert((latest, number), ModelTimer { key, deadline, due }), None);
        self.alive.insert(number, latest);
        self.allowed += Q::MAX_UNITS_PER_TIMER.unwrap_or(0);
    }

    fn remove(&mut self, number: u64) -> Option<ModelTimer> {
        let latest = self.alive.remove(&number)?;
        Some(self.timers.remove(&(latest, number)).expect("in both maps"))
    }

    fn deadline_of(&self, number: u64) -> Option<Tick> {
        self.alive.get(&number).map(|&latest| self.timers[&(latest, number)].deadline)
    }

    /// Returns a random deadline: mostly in the future and around the boundaries of levels, sometimes in the
    /// past, sometimes at the end of time.
    fn any_deadline(&self, random: &mut Random) -> Tick {
        let now = self.queue.now();
        match random.below(16) {
            0 => Tick(now.0.saturating_sub(random.ticks(self.magnitude))),
            1 => Tick(u64::MAX - random.ticks(10)),
            2 => {
                let digits = 8 * (1 + random.below(7));
                let next = (now.0 >> digits << digits).saturating_add(1 << digits);
                Tick(next.saturating_add(random.below(3)).saturating_sub(1))
            }
            3 => Tick(random.next()),
            4 => {
                let last = now.saturating_add(self.queue.horizon().unwrap_or(255));
                Tick(last.0.saturating_add(random.below(3)).saturating_sub(1))
            }
            _ => now.saturating_add(random.ticks(self.magnitude)),
        }
    }

    fn any_range(&self, random: &mut Random) -> RangeInclusive<Tick> {
        let start = self.any_deadline(random);
        start..=start.saturating_add(random.ticks(self.magnitude))
    }

    fn last(&self) -> Tick {
        self.queue.now().saturating_add(self.queue.horizon().unwrap_or(u64::MAX))
    }

    fn schedule(&mut self, random: &mut Random) {
        let number = self.keys.len() as u64;
        let (now, last) = (self.queue.now(), self.last());
        let range = if random.one_in(3) {
            self.any_range(random)
        } else {
            let deadline = self.any_deadline(random);
            deadline..=deadline
        };
        let result = if range.start() == range.end() {
            self.queue.schedule(*range.start(), number)
        } else {
            self.queue.schedule_within(range.clone(), number)
        };
        let key = match result {
            Ok(key) => key,
            Err(refused) => {
                assert_eq!(refused, BeyondHorizon { value: number, last });
                assert!(*range.start() > last, "{range:?} is within the horizon at {now}");
                return;
            }
        };
        assert!(*range.start() <= last, "{range:?} is beyond the horizon at {now}");
        let chosen = self.queue.deadline(key).expect("scheduled");
        assert!(range.contains(&chosen) && chosen <= last, "{chosen} for {range:?} at {now}");
        assert!(chosen > now || range.end() <= &now, "{chosen} for {range:?} at {now}");
        self.keys.push((key, number));
        self.add(number, key, chosen);
    }

    fn any_key(&self, random: &mut Random) -> Option<(TimerKey, u64)> {
        // Prefer recent timers, which are more likely to be alive.
        let back = if random.one_in(2) { random.below(50) } else { random.next() };
        let back = usize::try_from(back % self.keys.len().max(1) as u64).expect("an index");
        self.keys.iter().rev().nth(back).copied()
    }

    fn reschedule(&mut self, random: &mut Random) {
        let Some((key, number)) = self.any_key(random) else { return };
        let last = self.last();
        let before = self.deadline_of(number);
        let range = self.any_range(random);
        let exact = random.one_in(2);
        let result = if exact {
            self.queue.reschedule(key, *range.start())
        } else {
            self.queue.reschedule_within(key, range.clone())
        };
        let after = self.queue.deadline(key);
        let Some(before) = before else {
            assert_eq!((result, after), (Ok(false), None));
            return;
        };
        let after = after.expect("scheduled");
        match result {
            Err(refused) => {
                assert_eq!((refused, after), (BeyondHorizon { value: (), last }, before));
                assert!(*range.start() > last);
            }
            Ok(moved) => {
                assert!(moved && range.contains(&after), "{after} for {range:?}");
                if exact {
                    assert_eq!(after, *range.start());
                } else if range.contains(&before) {
                    assert_eq!(before, after);
                    return;
                }
                self.remove(number).expect("alive");
                self.add(number, key, after);
            }
        }
    }

    fn cancel(&mut self, random: &mut Random) {
        let Some((key, number)) = self.any_key(random) else { return };
        let expected = self.remove(number).map(|_| number);
        assert_eq!(self.queue.cancel(key), expected);
    }

    /// Returns a random tick to drive to: mostly a little later than now, sometimes much later, sometimes
    /// exactly when something happens, sometimes earlier.
    fn any_now(&self, random: &mut Random) -> Tick {
        let now = self.queue.now();
        match random.below(8) {
            0 => now,
            1 => Tick(now.0.saturating_sub(random.ticks(self.magnitude))),
            2 => self.queue.next_wakeup(Tick::MAX).unwrap_or(now),
            3 => self.first_latest().map_or(now, |latest| Tick(latest.saturating_sub(random.below(2)))),
            4 => now.saturating_add(random.ticks(self.magnitude)),
            _ => now.saturating_add(random.ticks(self.magnitude.min(10))),
        }
    }

    /// Returns the number of timers in the structure, including cancelled timers that have not been removed
    /// yet.
    fn occupancy(&self) -> usize {
        (0..self.queue.levels()).map(|level| self.queue.occupancy(level)).sum()
    }

    /// Returns the tick by which at least one timer must have expired.
    fn first_latest(&self) -> Option<u64> {
        self.timers.first_key_value().and_then(|(&(latest, _), _)| u64::try_from(latest).ok())
    }

    fn advance(&mut self, random: &mut Random) {
        let now = self.any_now(random);
        let mut work =
            if random.one_in(2) { WorkBudget::new(random.below(20)) } else { WorkBudget::unlimited() };
        for _ in 0..200 {
            let before = (self.queue.now(), work.remaining());
            let promised = self.queue.next_wakeup(Tick::MAX);
            let outcome = self.queue.expire_next(now, &mut work);
            let spent = before.1 - work.remaining();
            if Q::MAX_UNITS_PER_TIMER.is_some() {
                self.allowed = self.allowed.checked_sub(spent).expect("a timer took more work than allowed");
            }
            let reached = self.queue.now();
            assert!(before.0 <= reached && reached <= now.max(before.0), "{before:?} to {now}");
            match outcome {
                Expiry::Due(expired) => {
                    assert!(spent > 0);
                    assert!(promised.is_some_and(|promised| promised <= reached), "woken too late");
                    self.expect_due(&expired);
                    self.queue.check();
                    self.change_while_draining(random);
                }
                Expiry::OutOfBudget => {
                    assert_eq!(work.remaining(), 0);
                    // The remaining work may consist only of finding that nothing is due before `now`.
                    assert!(self.queue.next_wakeup(now).is_some() || reached < now, "work remains");
                    return;
                }
                Expiry::UpToDate => {
                    assert_eq!(reached, now.max(before.0));
                    assert!(
                        self.first_latest().is_none_or(|latest| latest > reached.0),
                        "a timer was skipped"
                    );
                    return;
                }
            }
        }
    }

    fn expect_due(&mut self, expired: &Expired<u64>) {
        let now = self.queue.now().0;
        assert!(self.first_latest().is_some_and(|latest| now <= latest), "an earlier timer was skipped");
        let timer = self.remove(expired.value).expect("alive");
        assert!(timer.due <= now, "{timer:?} expired early, at {now}");
        assert_eq!((timer.key, timer.deadline), (expired.key, expired.deadline));
    }

    fn change_while_draining(&mut self, random: &mut Random) {
        match random.below(8) {
            0 | 1 => self.schedule(random),
            2 => self.reschedule(random),
            3 => self.cancel(random),
            _ => {}
        }
    }

    fn step(&mut self, random: &mut Random) {
        match random.below(10) {
            0..=3 => self.schedule(random),
            4 | 5 => self.reschedule(random),
            6 => self.cancel(random),
            _ => self.advance(random),
        }
    }

    fn check(&self, random: &mut Random) {
        self.queue.check();
        assert_eq!(self.queue.len(), self.timers.len());
        assert_eq!(self.queue.is_empty(), self.timers.is_empty());
        let at_most = self.any_deadline(random);
        match (self.queue.next_wakeup(at_most), self.first_latest()) {
            (Some(wakeup), Some(latest)) => {
                assert!(wakeup.0 <= latest, "{wakeup} for {latest}");
                assert!(wakeup >= self.queue.now() && wakeup <= at_most.max(self.queue.now()), "{wakeup}");
            }
            (None, Some(latest)) => assert!(latest > at_most.0, "no wake-up for {latest}"),
            // A wake-up is allowed if the entry of a cancelled timer may still have to be removed.
            (wakeup, None) => {
                assert!(wakeup.is_none() || self.occupancy() > 0, "nothing to do at {wakeup:?}")
            }
        }
        if let Some((key, number)) = self.any_key(random) {
            assert_eq!(self.queue.deadline(key), self.deadline_of(number));
            assert_eq!(self.queue.get(key).copied(), self.alive.contains_key(&number).then_some(number));
        }
    }
}

fn run<Q: QueueUnderTest>(queue: Q, magnitude: u32, steps: usize, random: &mut Random) {
    let mut model = QueueModel::new(queue, magnitude);
    for _ in 0..steps {
        model.step(random);
        model.check(random);
    }
}

pub(super) fn from_the_beginning_of_time<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    with_seeds(|random| run(at(Tick::ZERO), 10, size(300, 12), random));
}

pub(super) fn with_deadlines_of_every_magnitude<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    with_seeds(|random| {
        let magnitude = 8 + u32::try_from(random.below(50)).expect("below 50");
        run(at(Tick(random.ticks(64))), magnitude, size(300, 12), random);
    });
}

pub(super) fn just_before_each_level_wraps<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    with_seeds(|random| {
        for bits in (8..u64::BITS).step_by(size(8, 56)) {
            let wrap = (1_u64 << bits).wrapping_mul(1 + random.below(1 << 8));
            run(at(Tick(wrap.wrapping_sub(1 + random.below(300)))), 9, size(80, 8), random);
        }
    });
}

pub(super) fn up_to_the_end_of_time<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    with_seeds(|random| run(at(Tick(u64::MAX - random.ticks(18))), 12, size(300, 12), random));
}
