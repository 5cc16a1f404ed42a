//! Random use of the wheel, compared with a sorted map at every step.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::seed::{Random, with_seeds};
use super::size;
use crate::{Expire, Expired, LEVELS, Tick, TimerKey, TimingWheel, Work};

/// What the wheel should be: timers sorted by the tick at which they come out.
struct Model {
    wheel: TimingWheel<u64>,
    /// Every timer by when it comes out (one past `u64::MAX` if never) and its number, which is its value.
    timers: BTreeMap<(u128, u64), (TimerKey, Tick)>,
    /// Every key ever given out, with the number of its timer and when that comes out, if it is alive.
    keys: Vec<(TimerKey, u64)>,
    /// By number of timer: when it comes out, while it is alive.
    alive: BTreeMap<u64, u128>,
    /// What may be spent on all that was scheduled so far.
    allowed: u64,
    /// Deadlines are mostly less than `2^magnitude` ahead.
    magnitude: u32,
}

impl Model {
    fn new(start: Tick, magnitude: u32) -> Self {
        Model {
            wheel: TimingWheel::new(start),
            timers: BTreeMap::new(),
            keys: Vec::new(),
            alive: BTreeMap::new(),
            allowed: 0,
            magnitude,
        }
    }

    fn add(&mut self, number: u64, key: TimerKey, deadline: Tick) {
        let due = u128::from(deadline.0).max(u128::from(self.wheel.now().0) + 1);
        assert_eq!(self.timers.insert((due, number), (key, deadline)), None);
        self.alive.insert(number, due);
        self.allowed += LEVELS as u64;
    }

    fn remove(&mut self, number: u64) -> Option<(TimerKey, Tick)> {
        let due = self.alive.remove(&number)?;
        Some(self.timers.remove(&(due, number)).expect("both maps know it"))
    }

    fn deadline_of(&self, number: u64) -> Option<Tick> {
        self.alive.get(&number).map(|&due| self.timers[&(due, number)].1)
    }

    /// A deadline: mostly ahead, around the boundaries of levels, sometimes late, sometimes at the end of
    /// time.
    fn any_deadline(&self, random: &mut Random) -> Tick {
        let now = self.wheel.now();
        match random.below(16) {
            0 => Tick(now.0.saturating_sub(random.ticks(self.magnitude))),
            1 => Tick(u64::MAX - random.ticks(10)),
            2 => {
                let digits = 8 * (1 + random.below(7));
                let next = (now.0 >> digits << digits).saturating_add(1 << digits);
                Tick(next.saturating_add(random.below(3)).saturating_sub(1))
            }
            3 => Tick(random.next()),
            _ => now.saturating_add(random.ticks(self.magnitude)),
        }
    }

    fn schedule(&mut self, random: &mut Random) {
        let number = self.keys.len() as u64;
        let deadline = self.any_deadline(random);
        let (key, deadline) = if random.one_in(3) {
            let range = deadline..=deadline.saturating_add(random.ticks(self.magnitude));
            let key = self.wheel.schedule_within(range.clone(), number);
            let chosen = self.wheel.deadline(key).expect("it is scheduled");
            assert!(range.contains(&chosen), "{chosen} for {range:?} at {}", self.wheel.now());
            assert!(chosen > self.wheel.now() || range.end() <= &self.wheel.now(), "{chosen} for {range:?}");
            (key, chosen)
        } else {
            (self.wheel.schedule(deadline, number), deadline)
        };
        self.keys.push((key, number));
        self.add(number, key, deadline);
    }

    fn any_key(&self, random: &mut Random) -> Option<(TimerKey, u64)> {
        // Recent ones are alive more often.
        let back = if random.one_in(2) { random.below(50) } else { random.next() };
        let back = usize::try_from(back % self.keys.len().max(1) as u64).expect("an index");
        self.keys.iter().rev().nth(back).copied()
    }

    fn reschedule(&mut self, random: &mut Random) {
        let Some((key, number)) = self.any_key(random) else { return };
        let deadline = self.any_deadline(random);
        let before = self.deadline_of(number);
        if random.one_in(2) {
            assert_eq!(self.wheel.reschedule(key, deadline), before.is_some());
            if self.remove(number).is_some() {
                self.add(number, key, deadline);
            }
            return;
        }
        let range = deadline..=deadline.saturating_add(random.ticks(self.magnitude));
        assert_eq!(self.wheel.reschedule_within(key, range.clone()), before.is_some());
        let Some(before) = before else { return };
        let after = self.wheel.deadline(key).expect("it is scheduled");
        assert!(range.contains(&after), "{after} for {range:?}");
        if range.contains(&before) {
            assert_eq!(before, after);
        } else {
            self.remove(number).expect("it was alive");
            self.add(number, key, after);
        }
    }

    fn cancel(&mut self, random: &mut Random) {
        let Some((key, number)) = self.any_key(random) else { return };
        let expected = self.remove(number).map(|_| number);
        assert_eq!(self.wheel.cancel(key), expected);
    }

    /// The clock: mostly a little later, sometimes much, sometimes exactly when something happens, sometimes
    /// earlier.
    fn any_now(&self, random: &mut Random) -> Tick {
        let now = self.wheel.now();
        match random.below(8) {
            0 => now,
            1 => Tick(now.0.saturating_sub(random.ticks(self.magnitude))),
            2 => self.wheel.next_wakeup(Tick::MAX).unwrap_or(now),
            3 => self.first_due().map_or(now, |due| Tick(due.saturating_sub(random.below(2)))),
            4 => now.saturating_add(random.ticks(self.magnitude)),
            _ => now.saturating_add(random.ticks(self.magnitude.min(10))),
        }
    }

    fn first_due(&self) -> Option<u64> {
        self.timers.first_key_value().and_then(|(&(due, _), _)| u64::try_from(due).ok())
    }

    /// Drives the wheel to some time, with some budget, changing it on the way.
    fn advance(&mut self, random: &mut Random) {
        let now = self.any_now(random);
        let mut work = if random.one_in(2) { Work::new(random.below(20)) } else { Work::unlimited() };
        for _ in 0..200 {
            let before = (self.wheel.now(), work.left());
            let outcome = self.wheel.expire_next(now, &mut work);
            let spent = before.1 - work.left();
            self.allowed = self.allowed.checked_sub(spent).expect("a timer moves seven times at most");
            assert!(
                before.0 <= self.wheel.now() && self.wheel.now() <= now.max(before.0),
                "{before:?} to {now}"
            );
            match outcome {
                Expire::Due(expired) => {
                    assert!(spent > 0);
                    self.expect_due(&expired);
                    self.wheel.check_invariants();
                    self.change_while_draining(random);
                }
                Expire::OutOfWork => {
                    assert_eq!(work.left(), 0);
                    assert!(self.wheel.next_wakeup(now).is_some(), "there is more to do");
                    return;
                }
                Expire::UpToDate => {
                    assert_eq!(self.wheel.now(), now.max(before.0));
                    assert!(
                        self.first_due().is_none_or(|due| due > self.wheel.now().0),
                        "nothing is left behind"
                    );
                    return;
                }
            }
        }
    }

    fn expect_due(&mut self, expired: &Expired<u64>) {
        assert_eq!(self.first_due(), Some(self.wheel.now().0), "the earliest tick comes first");
        assert_eq!(self.alive[&expired.value], u128::from(self.wheel.now().0), "on its tick");
        assert_eq!(self.remove(expired.value), Some((expired.key, expired.deadline)));
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
        self.wheel.check_invariants();
        assert_eq!(self.wheel.len(), self.timers.len());
        assert_eq!(self.wheel.is_empty(), self.timers.is_empty());
        let at_most = self.any_deadline(random);
        match (self.wheel.next_wakeup(at_most), self.first_due()) {
            (Some(wakeup), Some(due)) => {
                assert!(wakeup.0 <= due && wakeup <= at_most.max(self.wheel.now()), "{wakeup} for {due}");
            }
            (None, Some(due)) => assert!(due > at_most.0, "{due} is forgotten"),
            (wakeup, None) => assert_eq!(wakeup, None, "nothing will come out"),
        }
        if let Some((key, number)) = self.any_key(random) {
            assert_eq!(self.wheel.deadline(key), self.deadline_of(number));
            assert_eq!(self.wheel.get(key).copied(), self.alive.contains_key(&number).then_some(number));
        }
    }
}

fn run(start: Tick, magnitude: u32, random: &mut Random) {
    let mut model = Model::new(start, magnitude);
    for _ in 0..size(600, 40) {
        model.step(random);
        model.check(random);
    }
}

#[test]
fn from_the_beginning_of_time() {
    with_seeds(|random| run(Tick::ZERO, 10, random));
}

#[test]
fn with_deadlines_of_every_magnitude() {
    with_seeds(|random| {
        let magnitude = 8 + u32::try_from(random.below(50)).expect("below 50");
        run(Tick(random.ticks(64)), magnitude, random);
    });
}

#[test]
fn just_before_each_level_wraps() {
    with_seeds(|random| {
        for bits in (8..u64::BITS).step_by(size(8, 48)) {
            let wrap = (1_u64 << bits).wrapping_mul(1 + random.below(1 << 8));
            run(Tick(wrap.wrapping_sub(1 + random.below(300))), 9, random);
        }
    });
}

#[test]
fn up_to_the_end_of_time() {
    with_seeds(|random| run(Tick(u64::MAX - random.ticks(18)), 12, random));
}
