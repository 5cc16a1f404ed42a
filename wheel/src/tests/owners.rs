//! Tests of random operations on owners, which are compared with a list after every step.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::seed::{Random, with_seeds};
use super::size;
use crate::wheel::check::OWNERS_PER_PAGE;
use crate::{OwnerExpiry, Owners, Tick, TimerKey, WorkBudget};

#[derive(Debug)]
struct ExpectedOwner<const K: usize> {
    key: TimerKey,
    value: u64,
    timers: [Option<Armed>; K],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Armed {
    deadline: Tick,
    /// Tick at which the timer is due: at the earliest the tick after it was armed. `None` if there is no
    /// next tick.
    due: Option<u64>,
}

struct OwnersModel<const K: usize> {
    owners: Owners<u64, K>,
    known: Vec<ExpectedOwner<K>>,
    stale_keys: Vec<TimerKey>,
    /// Deadlines are mostly less than `2^magnitude` ticks ahead.
    magnitude: u32,
}

impl<const K: usize> OwnersModel<K> {
    fn now(&self) -> Tick {
        self.owners.now()
    }

    fn any(&self, random: &mut Random) -> Option<usize> {
        let any = random.below(self.known.len().max(1) as u64);
        (!self.known.is_empty()).then(|| usize::try_from(any).expect("an index"))
    }

    fn any_deadline(&self, random: &mut Random) -> Tick {
        let now = self.now();
        match random.below(16) {
            0 => Tick(now.0.saturating_sub(random.ticks(self.magnitude))),
            1 => Tick(u64::MAX - random.ticks(10)),
            _ => now.saturating_add(random.ticks(self.magnitude)),
        }
    }

    fn insert(&mut self, random: &mut Random) {
        let value = random.next();
        let key = self.owners.insert(value);
        assert_eq!(self.owners.get(key), Some(&value));
        assert!((0..K).all(|timer| self.owners.deadline(key, timer).is_none()), "none is armed");
        self.known.push(ExpectedOwner { key, value, timers: [None; K] });
    }

    fn remove(&mut self, random: &mut Random) {
        let Some(at) = self.any(random) else { return };
        let known = self.known.swap_remove(at);
        assert_eq!(self.owners.remove(known.key), Some(known.value));
        assert_eq!(self.owners.remove(known.key), None);
        self.stale_keys.push(known.key);
    }

    fn arm(&mut self, random: &mut Random) {
        let Some(at) = self.any(random) else { return };
        let timer = usize::try_from(random.below(K as u64)).expect("an index");
        let (now, start) = (self.now(), self.any_deadline(random));
        let known = &mut self.known[at];
        let mut owner = self.owners.get_mut(known.key).expect("still present");
        assert_eq!((owner.key(), *owner.value()), (known.key, known.value));
        let before = known.timers[timer].map(|armed| armed.deadline);
        assert_eq!(owner.deadline(timer), before);
        if random.one_in(3) {
            let end = start.saturating_add(random.ticks(self.magnitude));
            owner.arm_within(timer, start..=end);
            let chosen = owner.deadline(timer).expect("armed");
            assert!((start..=end).contains(&chosen), "{chosen} for {start} to {end}");
            if before.is_some_and(|before| (start..=end).contains(&before)) {
                assert_eq!(Some(chosen), before, "the deadline is kept");
                return;
            }
        } else {
            owner.arm(timer, start);
            assert_eq!(owner.deadline(timer), Some(start));
        }
        let deadline = owner.deadline(timer).expect("armed");
        let due = now.0.checked_add(1).map(|next| deadline.0.max(next));
        known.timers[timer] = Some(Armed { deadline, due });
    }

    fn disarm(&mut self, random: &mut Random) {
        let Some(at) = self.any(random) else { return };
        let timer = usize::try_from(random.below(K as u64)).expect("an index");
        let known = &mut self.known[at];
        let mut owner = self.owners.get_mut(known.key).expect("still present");
        assert_eq!(owner.disarm(timer), known.timers[timer].take().is_some());
        assert!(!owner.disarm(timer), "already disarmed");
        assert_eq!(owner.deadline(timer), None);
    }

    fn stale(&mut self, random: &mut Random) {
        let any = usize::try_from(random.below(self.stale_keys.len().max(1) as u64)).expect("an index");
        let Some(key) = self.stale_keys.get(any) else { return };
        assert!(self.owners.get_mut(*key).is_none());
        assert_eq!(self.owners.get(*key), None);
        assert_eq!(self.owners.remove(*key), None);
    }

    fn earliest(&self) -> Option<u64> {
        self.known.iter().flat_map(|known| known.timers).flatten().filter_map(|armed| armed.due).min()
    }

    fn drive(&mut self, random: &mut Random) {
        let to = match random.below(8) {
            0 => self.owners.next_wakeup(Tick::MAX).unwrap_or(self.now()),
            1 => Tick(self.now().0.saturating_sub(random.below(3))),
            _ => self.now().saturating_add(random.ticks(self.magnitude)),
        };
        let mut tick = self.now();
        loop {
            let wakeup = self.owners.next_wakeup(Tick::MAX);
            assert!(self.earliest().is_none_or(|earliest| wakeup.is_some_and(|tick| tick.0 <= earliest)));
            let mut work = WorkBudget::new(random.below(6));
            match self.owners.expire_next(to, &mut work) {
                OwnerExpiry::Due(mut due) => {
                    let (key, timer, deadline) = (due.owner.key(), due.timer, due.deadline);
                    let now = due.owner.now();
                    assert_eq!(due.owner.deadline(timer), None, "already expired");
                    let known = self.known.iter_mut().find(|known| known.key == key).expect("still present");
                    let armed = known.timers[timer].take().expect("armed");
                    assert_eq!(*due.owner.value(), known.value);
                    *due.owner.value_mut() = known.value.wrapping_add(1);
                    known.value = known.value.wrapping_add(1);
                    assert_eq!((armed.deadline, armed.due), (deadline, Some(now.0)), "expired on its tick");
                    assert!(now >= tick, "out of order");
                    tick = now;
                    if random.one_in(2) {
                        due.owner.arm(timer, now.saturating_add(1 + random.ticks(self.magnitude)));
                        let deadline = due.owner.deadline(timer).expect("armed");
                        let due = now.0.checked_add(1).map(|next| deadline.0.max(next));
                        known.timers[timer] = Some(Armed { deadline, due });
                    }
                }
                OwnerExpiry::OutOfBudget => {
                    if random.one_in(3) {
                        self.change(random);
                    }
                }
                OwnerExpiry::UpToDate => break,
            }
        }
        assert!(self.now() >= to);
        assert!(self.earliest().is_none_or(|earliest| earliest > self.now().0), "an overdue timer is left");
    }

    fn change(&mut self, random: &mut Random) {
        match random.below(16) {
            0 => self.insert(random),
            1 if self.known.len() > size(40, 10) => self.remove(random),
            2..4 => self.disarm(random),
            4 => self.stale(random),
            _ => self.arm(random),
        }
    }
}

fn run<const K: usize>(random: &mut Random, begins: Tick, magnitude: u32) {
    let owners = Owners::<u64, K>::new(begins);
    let mut model = OwnersModel { owners, known: Vec::new(), stale_keys: Vec::new(), magnitude };
    for _ in 0..size(60, 10) {
        model.insert(random);
    }
    for step in 0..size(4000, 150) {
        if random.one_in(10) {
            model.drive(random)
        } else {
            model.change(random)
        }
        assert_eq!(model.owners.len(), model.known.len());
        if step % 16 == 0 && !cfg!(miri) {
            model.owners.check_invariants();
        }
    }
}

#[test]
fn owners_of_one_timer() {
    with_seeds(|random| run::<1>(random, Tick(0), 20));
}

#[test]
fn owners_of_five_timers() {
    with_seeds(|random| run::<5>(random, Tick(1 << 40), 12));
}

#[test]
fn owners_of_many_timers_that_are_near() {
    with_seeds(|random| run::<17>(random, Tick(250), 5));
}

#[test]
fn owners_at_the_end_of_time() {
    with_seeds(|random| run::<3>(random, Tick(u64::MAX - 100_000), 18));
}

/// A timer that moves back and forth between two slots leaves an entry in each slot every time.
#[test]
fn moving_back_and_forth_leaves_few_holes() {
    let mut owners: Owners<(), 2> = Owners::new(Tick(0));
    let key = owners.insert(());
    for now in 0..size(100_000, 300) as u64 {
        let mut owner = owners.get_mut(key).expect("still present");
        owner.arm(0, Tick(1 << 40));
        owner.arm(0, Tick(now + 1));
        assert!(matches!(
            owners.expire_next(Tick(now + 1), &mut WorkBudget::unlimited()),
            OwnerExpiry::Due(_)
        ));
        assert!(matches!(
            owners.expire_next(Tick(now + 1), &mut WorkBudget::unlimited()),
            OwnerExpiry::UpToDate
        ));
        if now % 64 == 0 {
            let entries: usize = owners.occupancy().iter().sum();
            assert!(entries <= 200, "{entries} entries for one timer");
        }
    }
    owners.check_invariants();
}

/// Like `moving_back_and_forth_leaves_few_holes`, but timers are only armed through the owner returned by
/// `expire_next`, without a look-up.
#[test]
fn arming_lent_owners_leaves_few_holes() {
    let mut owners: Owners<(), 2> = Owners::new(Tick(0));
    for _ in 0..10 {
        let key = owners.insert(());
        owners.get_mut(key).expect("still present").arm(1, Tick(1));
    }
    for now in 1..size(20_000, 80) as u64 {
        while let OwnerExpiry::Due(mut due) = owners.expire_next(Tick(now), &mut WorkBudget::unlimited()) {
            due.owner.arm(1, Tick(1 << 40));
            due.owner.arm(1, Tick(now + 1));
        }
        let entries: usize = owners.occupancy().iter().sum();
        assert!(entries <= 1000, "{entries} entries for ten timers, which leave 640 in 64 ticks");
    }
    owners.check_invariants();
}

/// A single call may leave as many holes as an owner has timers.
#[test]
fn owners_of_many_timers_leave_few_holes() {
    const K: usize = 64;
    let mut owners: Owners<(), K> = Owners::new(Tick(0));
    let room = size(4, 1) * usize::try_from(OWNERS_PER_PAGE).expect("a page is small") * K;
    let keys: Vec<_> = (0..room / K).map(|_| owners.insert(())).collect();
    let rounds = size(250, 5) as u64;
    for round in 0..rounds {
        for key in &keys {
            let mut owner = owners.get_mut(*key).expect("still present");
            (0..K).for_each(|timer| owner.arm(timer, Tick((rounds - round) << 40)));
        }
        let entries: usize = owners.occupancy().iter().sum();
        assert!(entries <= 2 * room, "{entries} entries, room for {room}");
    }
    owners.check_invariants();
}

/// Like `owners_of_many_timers_leave_few_holes`, but with holes left behind by freed pages.
#[test]
fn owners_of_many_timers_that_come_and_go_leave_few_holes() {
    const K: usize = 64;
    let mut owners: Owners<(), K> = Owners::new(Tick(0));
    let many = size(20, 3) * usize::try_from(OWNERS_PER_PAGE).expect("a page is small");
    for round in 0..size(20, 1) as u64 {
        let keys: Vec<_> = (0..many).map(|_| owners.insert(())).collect();
        for key in &keys {
            let mut owner = owners.get_mut(*key).expect("still present");
            (0..K).for_each(|timer| owner.arm(timer, Tick((1 + (round + timer as u64) % 200) << 40)));
        }
        for key in keys {
            assert!(owners.remove(key).is_some());
        }
        let entries: usize = owners.occupancy().iter().sum();
        assert!(entries <= 2 * many * K, "{entries} entries, room for {}", many * K);
    }
    owners.check_invariants();
}

#[test]
fn arming_late_leaves_no_holes() {
    let mut owners: Owners<(), 1> = Owners::new(Tick(100));
    let key = owners.insert(());
    let mut owner = owners.get_mut(key).expect("still present");
    for late in 0..100 {
        owner.arm(0, Tick(late));
    }
    assert_eq!(owners.occupancy().iter().sum::<usize>(), 1);
    owners.check_invariants();
    let OwnerExpiry::Due(due) = owners.expire_next(Tick(101), &mut WorkBudget::unlimited()) else {
        panic!("not due")
    };
    assert_eq!((due.deadline, due.owner.now()), (Tick(99), Tick(101)));
}

#[test]
fn disarming_leaves_no_holes() {
    let mut owners: Owners<(), 1> = Owners::new(Tick(0));
    let key = owners.insert(());
    for number in 0..100 {
        let mut owner = owners.get_mut(key).expect("still present");
        owner.arm(0, Tick(1000 + number));
        assert!(owner.disarm(0));
    }
    assert_eq!(owners.occupancy().iter().sum::<usize>(), 1);
}

#[test]
fn values_live_as_long_as_their_owners() {
    let mut owners: Owners<String, 2> = Owners::new(Tick(0));
    let keys: Vec<_> = (0..100).map(|number: u32| owners.insert(number.to_string())).collect();
    owners.get_mut(keys[7]).expect("still present").value_mut().push_str(" and more");
    assert_eq!(owners.remove(keys[7]), Some(String::from("7 and more")));
    assert_eq!(owners.len(), 99);
}

#[test]
fn a_value_may_panic_when_the_wheel_is_dropped() {
    struct Fragile {
        panics: bool,
        _witness: Rc<()>,
    }

    impl Drop for Fragile {
        fn drop(&mut self) {
            assert!(!self.panics, "dropped");
        }
    }

    let witness = Rc::new(());
    let mut owners: Owners<Fragile, 2> = Owners::new(Tick(0));
    for number in 0..4 * OWNERS_PER_PAGE {
        owners.insert(Fragile { panics: number == OWNERS_PER_PAGE + 1, _witness: Rc::clone(&witness) });
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(owners))).is_err());
    assert_eq!(Rc::strong_count(&witness), 1, "each was dropped once");
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn a_timer_index_out_of_range_panics() {
    let mut owners: Owners<(), 2> = Owners::new(Tick(0));
    let key = owners.insert(());
    owners.get_mut(key).expect("still present").arm(2, Tick(1));
}
