//! Turns of the wheel thread in made-up time, on every scheme.

use std::num::NonZeroU64;

use encke_core::Timestamp;
use encke_wheel::schemes::{NonCascadingWheel, SimpleWheel};
use encke_wheel::{Tick, TimerQueue};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::scheme::UseQueue;
use super::tests::{SETTINGS, SLACK, after, new_timer};
use super::wheel_loop::{Dispatch, WheelLoop};
use super::wheel_thread::WheelParts;
use super::*;

const START: Tick = Tick(1_000);
const TICK: TickLength = TickLength(1_000_000);

/// The wheel thread without the thread.
struct Turns<Q> {
    wheel_loop: WheelLoop<Q>,
    timeouts: Arc<Timeouts>,
    batches: Receiver<Batch>,
    now: Timestamp,
}

impl<Q: TimerQueue<Arc<TimerCell>>> Turns<Q> {
    /// `queue` stands at [`START`].
    fn new(queue: Q) -> Self {
        let (timeouts, to_arm) = Timeouts::new(Arc::new(Clock::new(SETTINGS.stall_threshold)), SLACK);
        let (sender, batches) = crossbeam_channel::unbounded();
        let parts =
            WheelParts { settings: SETTINGS, timeouts: Arc::clone(&timeouts), to_arm, batches: sender };
        let now = Timestamp::from_nanos(TICK.nanos(START));
        Self { wheel_loop: WheelLoop::new(parts, queue), timeouts, batches, now }
    }

    fn arm_new(&mut self, deadline: RequestedDeadline) -> Arc<TimerCell> {
        let timer = new_timer();
        self.timeouts.arm(&timer, deadline);
        self.wheel_loop.receive();
        timer
    }

    fn planned(&self) -> Timestamp {
        self.wheel_loop.wake_up(self.now, &Dispatch::Done)
    }

    /// A turn, when it was planned: the timers that come out.
    fn turn(&mut self) -> Vec<Arc<TimerCell>> {
        self.turn_at(self.planned())
    }

    fn turn_at(&mut self, now: Timestamp) -> Vec<Arc<TimerCell>> {
        self.now = now;
        self.wheel_loop.receive();
        assert!(self.wheel_loop.advance(now) == Dispatch::Done, "the channel has no bound");
        self.wheel_loop.publish_occupancy();
        assert_eq!(self.timeouts.entries(), self.wheel_loop.wheel.len());
        self.batches.try_iter().flat_map(|batch| batch.timers).collect()
    }
}

#[test]
fn what_lies_beyond_the_horizon_is_armed_step_by_step() {
    let mut turns = Turns::new(SimpleWheel::new(START, 8));
    let due = after(turns.now, 1_000);
    let timer = turns.arm_new(RequestedDeadline::exact(due));
    for turn in 1..125 {
        assert!(turns.turn().is_empty(), "early");
        assert_eq!(turns.now.as_nanos(), TICK.nanos(START.saturating_add(8 * turn)), "as far as it reaches");
        assert_eq!(turns.wheel_loop.wheel.len(), 1);
        let later = RequestedDeadline::exact(after(turns.now, 9));
        assert_eq!(
            turns.timeouts.request(&timer, later),
            ArmAction::Nothing,
            "the wheel will look again before"
        );
        assert_eq!(turns.timeouts.request(&timer, RequestedDeadline::exact(due)), ArmAction::Nothing);
    }
    let expired = turns.turn();
    assert!(expired.len() == 1 && Arc::ptr_eq(&expired[0], &timer));
    assert_eq!(turns.now.as_nanos(), due);
    assert!(turns.wheel_loop.wheel.is_empty());
}

#[test]
fn what_waits_at_the_horizon_can_be_moved_and_dropped() {
    let mut turns = Turns::new(SimpleWheel::new(START, 8));
    let far = RequestedDeadline::exact(after(turns.now, 60_000));
    let (moved, dropped) = (turns.arm_new(far), turns.arm_new(far));
    let due = after(turns.now, 3);
    turns.timeouts.arm(&moved, RequestedDeadline::exact(due));
    turns.timeouts.arm(&dropped, RequestedDeadline::NONE);
    turns.wheel_loop.receive();
    let expired = turns.turn();
    assert!(expired.len() == 1 && Arc::ptr_eq(&expired[0], &moved));
    assert_eq!(turns.now.as_nanos(), due);
    assert!(turns.wheel_loop.wheel.is_empty());
}

/// The thread was kept from turning for many times as long as the scheme reaches.
#[test]
fn a_wheel_far_behind_its_horizon_catches_up() {
    let mut turns = Turns::new(SimpleWheel::new(START, 8));
    let due = after(turns.now, 100_000);
    let timer = turns.arm_new(RequestedDeadline::exact(due));
    assert!(turns.turn_at(Timestamp::from_nanos(due - 1)).is_empty(), "early");
    let expired = turns.turn();
    assert!(expired.len() == 1 && Arc::ptr_eq(&expired[0], &timer));
    assert_eq!(turns.now.as_nanos(), due);
}

#[test]
fn an_entry_that_may_come_late_serves_no_deadline_before_that() {
    let mut turns = Turns::new(NonCascadingWheel::new(START));
    let start = turns.now;
    let late = turns.wheel_loop.wheel.precision(60_000);
    assert!(late > 1_000, "seconds");
    let timer = turns.arm_new(RequestedDeadline::exact(after(start, 60_000)));
    assert_eq!(
        turns.timeouts.request(&timer, RequestedDeadline::exact(after(start, 60_000 + late))),
        ArmAction::Nothing
    );
    assert!(turns.turn_at(Timestamp::from_nanos(after(start, 59_950))).is_empty());
    turns.timeouts.arm(&timer, RequestedDeadline::exact(after(start, 60_001)));
    turns.wheel_loop.receive();
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

/// Owners that request other deadlines at any time, mostly while the wheel sleeps.
struct Run {
    seed: u64,
}

const TIMERS: usize = 30;
const CHANGES: usize = 400;

/// When a timer is due, and when it must have expired at the latest.
#[derive(Clone, Copy)]
struct Expected {
    due: u64,
    latest: u64,
}

impl UseQueue<Arc<TimerCell>> for Run {
    type Output = ();

    fn with<Q: TimerQueue<Arc<TimerCell>>>(self, queue: Q) {
        let mut rng = SmallRng::seed_from_u64(self.seed);
        let mut turns = Turns::new(queue);
        let timers: Vec<_> = (0..TIMERS).map(|_| turns.arm_new(RequestedDeadline::NONE)).collect();
        let mut expected: Vec<Option<Expected>> = vec![None; TIMERS];
        let mut changes = 0;
        while changes < CHANGES || expected.iter().any(Option::is_some) {
            let planned = turns.planned();
            assert!(planned > turns.now, "it would not sleep");
            let mut now = planned;
            if changes < CHANGES && rng.random_bool(0.5) {
                changes += 1;
                let asleep = planned.as_nanos() - turns.now.as_nanos();
                let at = turns.now.as_nanos() + rng.random_range(0..asleep);
                let index = rng.random_range(0..TIMERS);
                let (deadline, expectation) = random_deadline(&mut rng, &turns, at);
                expected[index] = expectation;
                let action = turns.timeouts.request(&timers[index], deadline);
                let wakes = deadline.latest(nanos(SLACK)).is_some_and(|latest| latest < planned.as_nanos());
                turns.timeouts.carry_out(&timers[index], action);
                if action != ArmAction::Nothing && wakes {
                    now = Timestamp::from_nanos(at);
                }
            }
            for expired in turns.turn_at(now) {
                let index = timers.iter().position(|timer| Arc::ptr_eq(timer, &expired)).expect("ours");
                let Expected { due, latest } =
                    expected[index].take().expect("not twice, and not without a request");
                let now = now.as_nanos();
                assert!(due <= now, "timer {index} early: {now} instead of {due}");
                assert!(now <= latest, "timer {index} late: {now} instead of {latest}");
                assert_eq!(
                    turns.timeouts.request(&timers[index], RequestedDeadline::NONE),
                    ArmAction::Nothing,
                    "no entry is left"
                );
            }
            for (index, expectation) in expected.iter().enumerate() {
                let missed = expectation.is_some_and(|expected| expected.latest < now.as_nanos());
                assert!(!missed, "timer {index} does not come");
            }
        }
        turns.turn();
        assert!(turns.wheel_loop.wheel.is_empty(), "nothing is left");
    }
}

/// From a tick to minutes ahead, exact or soft, or no longer at all.
fn random_deadline<Q: TimerQueue<Arc<TimerCell>>>(
    rng: &mut SmallRng,
    turns: &Turns<Q>,
    now: u64,
) -> (RequestedDeadline, Option<Expected>) {
    if rng.random_bool(0.1) {
        return (RequestedDeadline::NONE, None);
    }
    let most = TICK.nanos(Tick(1 << rng.random_range(0..18)));
    let due = now + rng.random_range(0..most);
    let soft = rng.random_bool(0.3);
    let (deadline, slack) =
        if soft { (RequestedDeadline::soft(due), nanos(SLACK)) } else { (RequestedDeadline::exact(due), 0) };
    // Rounded up to a tick, and action from where the wheel may stand.
    let ahead = TICK.first_at_or_after(due + slack - now + nanos(SETTINGS.longest_sleep())).0 + 1;
    let late = turns.wheel_loop.wheel.precision(ahead);
    (deadline, Some(Expected { due, latest: due + slack + TICK.nanos(Tick(late + 1)) }))
}
