//! Turns of the wheel thread in made-up time, on every scheme.

use std::num::NonZeroU64;

use encke_wheel::schemes::{CoarseWheel, SimpleWheel};
use encke_wheel::{Tick, TimerQueue};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::scheme::UseQueue;
use super::tests::{SETTINGS, SLACK, after};
use super::wheel::{Dispatch, Turner, Unstarted};
use super::*;

const START: Tick = Tick(1_000);
const TICK: TickLength = TickLength(1_000_000);

/// The wheel thread without the thread.
struct Turns<Q> {
    turner: Turner<Q>,
    timeouts: Arc<Timeouts>,
    batches: Receiver<Batch>,
    now: Timestamp,
}

impl<Q: TimerQueue<Arc<TimerCell>>> Turns<Q> {
    /// `queue` stands at [`START`].
    fn new(queue: Q) -> Self {
        let (timeouts, names) = Timeouts::new(Arc::new(Clock::new(SETTINGS.stall_threshold)), SLACK);
        let (sender, batches) = crossbeam_channel::unbounded();
        let unstarted =
            Unstarted { settings: SETTINGS, timeouts: Arc::clone(&timeouts), names, batches: sender };
        let now = Timestamp::from_nanos(TICK.nanos(START));
        Self { turner: unstarted.turner(queue), timeouts, batches, now }
    }

    fn arm_new(&mut self, wish: Wish) -> Arc<TimerCell> {
        let cell = Arc::new(TimerCell::new(TimerName::Log(std::sync::Weak::new())));
        self.timeouts.arm(&cell, wish);
        self.turner.receive_names();
        cell
    }

    fn planned(&self) -> Timestamp {
        self.turner.wake_up(self.now, &Dispatch::Done)
    }

    /// A turn, when it was planned: the names that come out.
    fn turn(&mut self) -> Vec<Arc<TimerCell>> {
        self.turn_at(self.planned())
    }

    fn turn_at(&mut self, now: Timestamp) -> Vec<Arc<TimerCell>> {
        self.now = now;
        self.turner.receive_names();
        assert!(self.turner.advance(now) == Dispatch::Done, "the channel has no bound");
        self.turner.publish_occupancy();
        assert_eq!(self.timeouts.entries(), self.turner.wheel.len());
        self.batches.try_iter().flat_map(|batch| batch.cells).collect()
    }
}

#[test]
fn what_lies_beyond_the_horizon_is_armed_step_by_step() {
    let mut turns = Turns::new(SimpleWheel::new(START, 8));
    let due = after(turns.now, 1_000);
    let cell = turns.arm_new(Wish::exact(due));
    for turn in 1..125 {
        assert!(turns.turn().is_empty(), "early");
        assert_eq!(turns.now.as_nanos(), TICK.nanos(START.saturating_add(8 * turn)), "as far as it reaches");
        assert_eq!(turns.turner.wheel.len(), 1);
        let later = Wish::exact(after(turns.now, 9));
        assert_eq!(turns.timeouts.want(&cell, later), Told::Enough, "the wheel will look again before");
        assert_eq!(turns.timeouts.want(&cell, Wish::exact(due)), Told::Enough);
    }
    let expired = turns.turn();
    assert!(expired.len() == 1 && Arc::ptr_eq(&expired[0], &cell));
    assert_eq!(turns.now.as_nanos(), due);
    assert!(turns.turner.wheel.is_empty());
}

#[test]
fn what_waits_at_the_horizon_can_be_moved_and_dropped() {
    let mut turns = Turns::new(SimpleWheel::new(START, 8));
    let far = Wish::exact(after(turns.now, 60_000));
    let (moved, dropped) = (turns.arm_new(far), turns.arm_new(far));
    let due = after(turns.now, 3);
    turns.timeouts.arm(&moved, Wish::exact(due));
    turns.timeouts.arm(&dropped, Wish::NONE);
    turns.turner.receive_names();
    let expired = turns.turn();
    assert!(expired.len() == 1 && Arc::ptr_eq(&expired[0], &moved));
    assert_eq!(turns.now.as_nanos(), due);
    assert!(turns.turner.wheel.is_empty());
}

/// The thread was kept from turning for many times as long as the scheme reaches.
#[test]
fn a_wheel_far_behind_its_horizon_catches_up() {
    let mut turns = Turns::new(SimpleWheel::new(START, 8));
    let due = after(turns.now, 100_000);
    let cell = turns.arm_new(Wish::exact(due));
    assert!(turns.turn_at(Timestamp::from_nanos(due - 1)).is_empty(), "early");
    let expired = turns.turn();
    assert!(expired.len() == 1 && Arc::ptr_eq(&expired[0], &cell));
    assert_eq!(turns.now.as_nanos(), due);
}

#[test]
fn an_entry_that_may_come_late_serves_no_wish_before_that() {
    let mut turns = Turns::new(CoarseWheel::new(START));
    let start = turns.now;
    let late = turns.turner.wheel.precision(60_000);
    assert!(late > 1_000, "seconds");
    let cell = turns.arm_new(Wish::exact(after(start, 60_000)));
    assert_eq!(turns.timeouts.want(&cell, Wish::exact(after(start, 60_000 + late))), Told::Enough);
    assert!(turns.turn_at(Timestamp::from_nanos(after(start, 59_950))).is_empty());
    turns.timeouts.arm(&cell, Wish::exact(after(start, 60_001)));
    turns.turner.receive_names();
    assert_eq!(turns.turn().len(), 1);
    assert_eq!(turns.now.as_nanos(), after(start, 60_001), "an entry so near is exact");
}

#[test]
fn nothing_is_early_or_lost_or_later_than_the_scheme_says() {
    for seed in (0..12).chain([rand::random()]) {
        println!("seed {seed}");
        for scheme in Scheme::ALL {
            println!("{scheme}");
            scheme.queue(START, Run { seed });
        }
        Run { seed }.with(SimpleWheel::new(START, 8));
        let width = NonZeroU64::new(7).expect("not 0");
        Run { seed }.with(SimpleWheel::with_width(START, 20, width));
    }
}

/// Owners that change their minds at any time, mostly while the wheel sleeps.
struct Run {
    seed: u64,
}

const NAMES: usize = 30;
const CHANGES: usize = 400;

/// What an owner wants, and when at the latest it must have it.
#[derive(Clone, Copy)]
struct Wanted {
    due: u64,
    latest: u64,
}

impl UseQueue<Arc<TimerCell>> for Run {
    type Output = ();

    fn with<Q: TimerQueue<Arc<TimerCell>>>(self, queue: Q) {
        let mut rng = SmallRng::seed_from_u64(self.seed);
        let mut turns = Turns::new(queue);
        let cells: Vec<_> = (0..NAMES).map(|_| turns.arm_new(Wish::NONE)).collect();
        let mut wanted: Vec<Option<Wanted>> = vec![None; NAMES];
        let mut changes = 0;
        while changes < CHANGES || wanted.iter().any(Option::is_some) {
            let planned = turns.planned();
            assert!(planned > turns.now, "it would not sleep");
            let mut now = planned;
            if changes < CHANGES && rng.random_bool(0.5) {
                changes += 1;
                let asleep = planned.as_nanos() - turns.now.as_nanos();
                let at = turns.now.as_nanos() + rng.random_range(0..asleep);
                let index = rng.random_range(0..NAMES);
                let (wish, want) = random_wish(&mut rng, &turns, at);
                wanted[index] = want;
                let told = turns.timeouts.want(&cells[index], wish);
                let wakes = wish.latest(nanos(SLACK)).is_some_and(|latest| latest < planned.as_nanos());
                turns.timeouts.tell_wheel(&cells[index], told);
                if told != Told::Enough && wakes {
                    now = Timestamp::from_nanos(at);
                }
            }
            for expired in turns.turn_at(now) {
                let index = cells.iter().position(|cell| Arc::ptr_eq(cell, &expired)).expect("ours");
                let Wanted { due, latest } = wanted[index].take().expect("not twice, nor unwanted");
                let now = now.as_nanos();
                assert!(due <= now, "name {index} early: {now} instead of {due}");
                assert!(now <= latest, "name {index} late: {now} instead of {latest}");
                assert_eq!(turns.timeouts.want(&cells[index], Wish::NONE), Told::Enough, "no entry is left");
            }
            for (index, want) in wanted.iter().enumerate() {
                let missed = want.is_some_and(|want| want.latest < now.as_nanos());
                assert!(!missed, "name {index} does not come");
            }
        }
        turns.turn();
        assert!(turns.turner.wheel.is_empty(), "nothing is left");
    }
}

/// From a tick to minutes ahead, exact or soft, or no longer at all.
fn random_wish<Q: TimerQueue<Arc<TimerCell>>>(
    rng: &mut SmallRng,
    turns: &Turns<Q>,
    now: u64,
) -> (Wish, Option<Wanted>) {
    if rng.random_bool(0.1) {
        return (Wish::NONE, None);
    }
    let most = TICK.nanos(Tick(1 << rng.random_range(0..18)));
    let due = now + rng.random_range(0..most);
    let soft = rng.random_bool(0.3);
    let (wish, slack) = if soft { (Wish::soft(due), nanos(SLACK)) } else { (Wish::exact(due), 0) };
    // Rounded up to a tick, and told from where the wheel may stand.
    let ahead = TICK.first_at_or_after(due + slack - now + nanos(SETTINGS.longest_sleep())).0 + 1;
    let late = turns.turner.wheel.precision(ahead);
    (wish, Some(Wanted { due, latest: due + slack + TICK.nanos(Tick(late + 1)) }))
}
