use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::seed::{Random, with_seeds};
use super::{drain, size};
use crate::{Expired, Tick, TimerKey, TimingWheel, WorkBudget};

fn take_all<T>(wheel: &mut TimingWheel<T>, now: u64) -> Vec<Expired<T>> {
    let mut taken = Vec::new();
    while !wheel.expire_batch(Tick(now), &mut WorkBudget::unlimited(), &mut taken) {
        wheel.check_invariants();
    }
    wheel.check_invariants();
    assert_eq!(wheel.now(), Tick(now));
    taken
}

fn deadlines<T>(taken: &[Expired<T>]) -> Vec<u64> {
    taken.iter().map(|expired| expired.deadline.0).collect()
}

/// A wheel and the timers expected in it, sorted by the tick at which they are due and by number. The number
/// is the timer's value.
struct BatchModel {
    wheel: TimingWheel<u64>,
    due: BTreeSet<(u64, u64)>,
    keys: Vec<(TimerKey, u64, u64)>,
    magnitude: u32,
    numbers: u64,
}

impl BatchModel {
    fn deadline(&self, random: &mut Random) -> (Tick, u64) {
        let now = self.wheel.now();
        let deadline = match random.below(16) {
            0 => Tick(now.0.saturating_sub(random.ticks(self.magnitude))),
            1 => Tick(u64::MAX - random.ticks(10)),
            _ => now.saturating_add(random.ticks(self.magnitude)),
        };
        (deadline, deadline.max(now.saturating_add(1)).0)
    }

    fn change(&mut self, random: &mut Random) {
        let (deadline, due) = self.deadline(random);
        let any = usize::try_from(random.below(self.keys.len().max(1) as u64)).expect("an index");
        match random.below(8) {
            0..2 if any < self.keys.len() => {
                let (key, due, number) = self.keys.swap_remove(any);
                let is_there = self.due.remove(&(due, number));
                assert_eq!(self.wheel.cancel(key), is_there.then_some(number));
            }
            2..5 if any < self.keys.len() => {
                let (key, before, number) = self.keys[any];
                let is_there = self.due.remove(&(before, number));
                assert_eq!(self.wheel.reschedule(key, deadline), is_there);
                if is_there {
                    self.due.insert((due, number));
                    self.keys[any].1 = due;
                }
            }
            _ => {
                self.numbers += 1;
                let key = self.wheel.schedule(deadline, self.numbers);
                self.keys.push((key, due, self.numbers));
                self.due.insert((due, self.numbers));
            }
        }
    }

    fn drive(&mut self, random: &mut Random) {
        let to = self.wheel.now().saturating_add(random.ticks(self.magnitude));
        loop {
            let budget = if random.one_in(2) { random.below(100) } else { u64::MAX };
            let mut work = WorkBudget::new(budget);
            let mut batch = Vec::new();
            let before = self.wheel.now().0;
            let is_complete = self.wheel.expire_batch(to, &mut work, &mut batch);
            assert!(batch.len() as u64 <= budget - work.remaining(), "more timers than units spent");
            let mut tick = before;
            for expired in batch {
                let at = self.keys.iter().position(|(key, ..)| *key == expired.key).expect("still present");
                let (_, due, number) = self.keys.swap_remove(at);
                assert!(self.due.remove(&(due, number)), "not expired yet");
                assert_eq!(expired.value, number);
                assert!(tick <= due && due <= self.wheel.now().0, "{due} is out of order after {tick}");
                tick = due;
                assert_eq!((self.wheel.get(expired.key), self.wheel.deadline(expired.key)), (None, None));
            }
            let first = self.due.first().map(|(due, _)| *due);
            assert_eq!(self.wheel.len(), self.due.len());
            assert!(first.is_none_or(|first| first >= self.wheel.now().0), "{first:?} was skipped");
            if !cfg!(miri) {
                self.wheel.check_invariants();
            }
            let wakeup = self.wheel.next_wakeup(Tick::MAX);
            if self.wheel.now() < Tick::MAX {
                assert!(first.is_none_or(|first| wakeup.is_some_and(|wakeup| wakeup.0 <= first)));
            }
            if is_complete {
                assert!(
                    first.is_none_or(|first| first > to.0 || to == Tick::MAX),
                    "{first:?} has not expired"
                );
                assert_eq!(self.wheel.now(), to);
                return;
            }
            if random.one_in(3) {
                self.change(random);
            }
        }
    }
}

#[test]
fn batches_are_complete_and_in_order() {
    for (begins, magnitude) in [(0, 12), (1 << 40, 20), (250, 10), (u64::MAX - 100_000, 18)] {
        with_seeds(|random| {
            let wheel = TimingWheel::new(Tick(begins));
            let mut model =
                BatchModel { wheel, due: BTreeSet::new(), keys: Vec::new(), magnitude, numbers: 0 };
            for _ in 0..size(60, 4) {
                (0..random.below(size(200, 40) as u64)).for_each(|_| model.change(random));
                model.drive(random);
            }
        });
    }
}

#[test]
fn a_whole_revolution_expires_in_order() {
    let mut wheel = TimingWheel::new(Tick(0));
    for number in (0..size(2000, 100) as u64).rev() {
        wheel.schedule(Tick(512 + number * 37 % 256), number);
    }
    assert_eq!(drain(&mut wheel, 510), []);
    // Add some timers that go directly into slots of level 0, and one that is postponed beyond the
    // revolution.
    for deadline in [600, 512, 767, 511] {
        wheel.schedule(Tick(deadline), 0);
    }
    let key = wheel.schedule(Tick(700), 0);
    assert!(wheel.reschedule(key, Tick(768)));
    let taken = take_all(&mut wheel, 767);
    assert!(deadlines(&taken).is_sorted());
    assert_eq!(taken.len(), size(2000, 100) + 4);
    assert_eq!(deadlines(&take_all(&mut wheel, 768)), [768]);
}

/// The revolution begins where a slot of level 2 begins, which has to be emptied first.
#[test]
fn a_revolution_that_begins_with_a_slot_of_level_2_expires_in_order() {
    let mut wheel = TimingWheel::new(Tick(0));
    wheel.schedule(Tick(65_546), "level 2");
    assert_eq!(drain(&mut wheel, 65_000), []);
    wheel.schedule(Tick(65_540), "level 1");
    wheel.schedule(Tick(65_550), "level 1");
    assert_eq!(deadlines(&take_all(&mut wheel, 70_000)), [65_540, 65_546, 65_550]);
}

/// The existing timers have later deadlines than the new timers, but stay in front.
#[test]
fn existing_elements_of_a_batch_are_kept() {
    for count in [10, 100] {
        let mut wheel = TimingWheel::new(Tick(0));
        for number in 0..count {
            wheel.schedule(Tick(1000 - number), number);
        }
        let mut batch = take_all(&mut wheel, 1000);
        for number in 0..count {
            wheel.schedule(Tick(1900 - number), number);
        }
        let before = batch.len();
        batch.iter_mut().for_each(|expired| expired.deadline = Tick::MAX);
        assert!(wheel.expire_batch(Tick(2100), &mut WorkBudget::unlimited(), &mut batch));
        let deadlines = deadlines(&batch);
        let (old, new) = deadlines.split_at(before);
        assert!(old.iter().all(|deadline| *deadline == u64::MAX) && new.is_sorted());
    }
}

#[test]
fn late_timers_expire_at_the_next_tick() {
    let mut wheel = TimingWheel::new(Tick(256));
    wheel.schedule(Tick(400), ());
    wheel.schedule(Tick(600), ());
    wheel.schedule(Tick(3), ());
    assert_eq!(deadlines(&take_all(&mut wheel, 1000)), [3, 400, 600]);
    // Put the timers into the slot that begins the next revolution.
    let mut wheel = TimingWheel::new(Tick(511));
    wheel.schedule(Tick(768), ());
    wheel.schedule(Tick(600), ());
    wheel.schedule(Tick(512), ());
    wheel.schedule(Tick(7), ());
    let taken = deadlines(&take_all(&mut wheel, 2000));
    assert_eq!(taken[2..], [600, 768]);
}

#[test]
fn a_batch_respects_its_budget() {
    let mut wheel = TimingWheel::new(Tick(0));
    for number in 0..100 {
        wheel.schedule(Tick(1000 + number), number);
    }
    let mut batch = Vec::new();
    assert!(!wheel.expire_batch(Tick(2000), &mut WorkBudget::new(0), &mut batch));
    // The revolution up to 1023 is taken as a whole. The remaining budget does not cover the next revolution,
    // so the call only moves some of its timers.
    let mut work = WorkBudget::new(80);
    assert!(!wheel.expire_batch(Tick(2000), &mut work, &mut batch));
    assert_eq!((batch.len(), work.remaining()), (24, 0));
    assert_eq!(wheel.next_wakeup(Tick(2000)), Some(Tick(1024)));
    // 20 timers remain to be moved, one of which is already due, and 75 are in their slots.
    let mut work = WorkBudget::new(94);
    assert!(!wheel.expire_batch(Tick(2000), &mut work, &mut batch));
    assert_eq!((batch.len(), work.remaining()), (99, 0));
    let mut work = WorkBudget::new(2);
    assert!(wheel.expire_batch(Tick(2000), &mut work, &mut batch));
    assert_eq!(work.remaining(), 1);
    assert!(batch.iter().map(|expired| expired.value).eq(0..100));
}

/// The budget check counts all timers of a revolution, including those in spilled lines of either level.
#[test]
fn a_revolution_is_taken_at_once_only_if_the_budget_covers_it() {
    for (in_first, in_second) in [(100, 1), (1, 100), (100, size(8000, 200) as u64)] {
        let mut wheel = TimingWheel::new(Tick(0));
        for number in 0..in_second {
            wheel.schedule(Tick(600), number);
        }
        assert_eq!(drain(&mut wheel, 510), []);
        for number in 0..in_first {
            wheel.schedule(Tick(610), number);
        }
        let all = in_first + in_second;
        let mut batch = Vec::new();
        assert!(!wheel.expire_batch(Tick(767), &mut WorkBudget::new(all - 1), &mut batch));
        assert!((batch.len() as u64) < all, "the budget did not cover all");
        while !wheel.expire_batch(Tick(767), &mut WorkBudget::unlimited(), &mut batch) {}
        assert_eq!(batch.len() as u64, all);
    }
}

/// While a slot is being swept, its lines are in two places: only the lines already put back are linked to
/// the slot, and they hide the others.
#[test]
fn a_batch_respects_its_budget_during_a_sweep() {
    let timers = size(200, 100) as u64;
    for holes in (timers / 2..timers / 2 + 25).step_by(size(1, 25)) {
        let mut wheel = TimingWheel::new(Tick(0));
        for number in 0..timers {
            wheel.schedule(Tick(1000), number);
        }
        let other = wheel.schedule(Tick(1 << 40), timers);
        for earlier in 0..=holes {
            assert!(wheel.reschedule(other, Tick((250 - earlier) << 32)));
        }
        let mut work = WorkBudget::new(timers - 1);
        let mut batch = Vec::new();
        assert!(!wheel.expire_batch(Tick(2000), &mut work, &mut batch));
        assert_eq!(
            (batch.len(), work.remaining(), wheel.now()),
            (0, 0, Tick(768)),
            "the budget does not cover a revolution"
        );
        wheel.check_invariants();
    }
}

#[test]
fn the_size_of_a_batch_is_bounded() {
    let count = size(100_000, 1500);
    let mut wheel = TimingWheel::new(Tick(0));
    for number in 0..count {
        wheel.schedule(Tick(1 + (number % 200) as u64), number);
    }
    let mut batch = Vec::new();
    let mut taken = 0;
    loop {
        let is_complete = wheel.expire_batch(Tick(1000), &mut WorkBudget::unlimited(), &mut batch);
        assert!(batch.len() <= 1024 + 14);
        taken += batch.len();
        batch.clear();
        if is_complete {
            break;
        }
    }
    assert_eq!(taken, count);
}

/// Counts drops, and panics when one particular value is dropped.
#[derive(Debug)]
struct Fragile {
    number: u64,
    _witness: Rc<()>,
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(self.number != 20, "dropped");
    }
}

#[test]
fn a_panicking_value_is_dropped_by_the_caller() {
    let witness = Rc::new(());
    let mut wheel = TimingWheel::new(Tick(0));
    for number in 0..40 {
        let value = Fragile { number, _witness: Rc::clone(&witness) };
        wheel.schedule(Tick(300 + number % 7), value);
    }
    wheel.schedule(Tick(5000), Fragile { number: 1000, _witness: Rc::clone(&witness) });
    let taken = take_all(&mut wheel, 1000);
    assert_eq!((taken.len(), wheel.len(), Rc::strong_count(&witness)), (40, 1, 42));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(taken))).is_err());
    assert_eq!(Rc::strong_count(&witness), 2, "exactly once");
    wheel.check_invariants();
    assert_eq!(take_all(&mut wheel, 5000).len(), 1);
    assert_eq!(Rc::strong_count(&witness), 1);
}
