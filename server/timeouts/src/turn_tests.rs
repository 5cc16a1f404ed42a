//! Tests turns of the wheel loop at chosen times. The random test covers every scheme.

use std::num::NonZeroU64;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use encke_core::Timestamp;
use encke_seeds::with_seeds;
use encke_wheel::schemes::{NonCascadingWheel, Reusable, SimpleWheel};
use encke_wheel::{Owners, ReusableTimers, Tick};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::clock::{Clock, nanos};
use super::scheme::TimersVisitor;
use super::tests::{SETTINGS, SLACK, after, new_timer};
use super::tick_length::TickLength;
use super::wheel_loop::{DispatchOutcome, WheelEntry, WheelLoop, WheelParts};
use super::*;

const START: Tick = Tick(1_000);
const TICK: TickLength = TickLength(1_000_000);

/// A wheel loop without its thread.
struct Turns<W> {
    wheel_loop: WheelLoop<W>,
    timeouts: Arc<Timeouts>,
    batches: Receiver<ExpiryBatch>,
    now: Timestamp,
}

impl<W: ReusableTimers<WheelEntry>> Turns<W> {
    /// Creates a loop. `timers` must start at [`START`].
    fn new(timers: W) -> Self {
        let (timeouts, to_arm) = Timeouts::new(Arc::new(Clock::new(SETTINGS.stall_threshold)), SLACK, TIMERS);
        let (sender, batches) = crossbeam_channel::unbounded();
        let parts =
            WheelParts { settings: SETTINGS, timeouts: Arc::clone(&timeouts), to_arm, batches: sender };
        let now = Timestamp::from_nanos(TICK.nanos(START));
        Self { wheel_loop: WheelLoop::new(parts, timers), timeouts, batches, now }
    }

    fn arm_new(&mut self, deadline: RequestedDeadline) -> Arc<TimerCell> {
        let timer = new_timer();
        self.timeouts.arm(&timer, deadline);
        self.wheel_loop.receive();
        timer
    }

    /// Withdraws the deadline of a timer whose expiries have all been received.
    fn end<'a>(&mut self, timer: impl Into<TimerRef<'a>>) {
        let timer = timer.into();
        self.timeouts.arm(timer, RequestedDeadline::NONE);
        self.wheel_loop.receive();
        assert_eq!(self.timeouts.arming(timer).key_number(), 0, "removed from the wheel");
    }

    fn planned(&self) -> Timestamp {
        self.wheel_loop.wake_up(self.now, &DispatchOutcome::Done)
    }

    /// Runs a turn at the planned time. Returns the timers that expired.
    fn turn(&mut self) -> Vec<Timer> {
        self.turn_at(self.planned())
    }

    fn turn_at(&mut self, now: Timestamp) -> Vec<Timer> {
        self.now = now;
        self.wheel_loop.receive();
        assert!(self.wheel_loop.advance(now) == DispatchOutcome::Done, "the channel is unbounded");
        self.wheel_loop.publish_entries();
        assert_eq!(self.timeouts.entries(), self.wheel_loop.wheel.len());
        self.batches.try_iter().flat_map(ExpiryBatch::into_timers).collect()
    }
}

/// Whether `timer` alone has expired.
fn is_only<'a>(expired: &[Timer], timer: impl Into<TimerRef<'a>>) -> bool {
    *expired == [timer.into().to_timer()]
}

#[test]
fn a_timer_is_registered_once_while_it_has_deadlines() {
    let mut turns = Turns::new(Owners::new(START));
    let start = turns.now;
    let timer = turns.arm_new(RequestedDeadline::exact(after(start, 10)));
    let key = timer.arming.key_number();
    assert!(key != 0);
    for due in [20, 30, 40] {
        let expired = turns.turn();
        assert!(is_only(&expired, &timer));
        assert_eq!(turns.timeouts.entries(), 1, "it stays registered");
        turns.timeouts.arm(&timer, RequestedDeadline::exact(after(start, due)));
        turns.wheel_loop.receive();
        // Postpone the timer, arm it earlier, and postpone it again.
        for other in [100, due, due + 1] {
            turns.timeouts.arm(&timer, RequestedDeadline::exact(after(start, other)));
            turns.wheel_loop.receive();
        }
        assert!(turns.turn_at(Timestamp::from_nanos(after(start, due))).is_empty(), "it was postponed");
        assert_eq!(timer.arming.key_number(), key);
    }
    turns.end(&timer);
    assert_eq!(Arc::strong_count(&timer), 1);
}

#[test]
fn an_owner_may_end_while_its_timer_is_dispatched() {
    let mut turns = Turns::new(Owners::new(START));
    let timer = turns.arm_new(RequestedDeadline::exact(after(turns.now, 10)));
    let on_its_way = turns.turn();
    assert_eq!(turns.timeouts.request(&timer, RequestedDeadline::NONE), ArmAction::Send);
    turns.timeouts.carry_out(&timer, ArmAction::Send);
    assert_eq!(
        turns.timeouts.request(&timer, RequestedDeadline::NONE),
        ArmAction::Wake,
        "it is already queued"
    );
    assert!(turns.turn_at(turns.now).is_empty());
    assert_eq!((turns.timeouts.entries(), on_its_way.len()), (0, 1));
    drop(on_its_way);
    assert_eq!(Arc::strong_count(&timer), 1);
    assert_eq!(turns.timeouts.request(&timer, RequestedDeadline::NONE), ArmAction::Nothing);
}

#[test]
fn an_owner_may_end_while_its_timer_is_sent_for_an_earlier_deadline() {
    let mut turns = Turns::new(Owners::new(START));
    let start = turns.now;
    let timer = turns.arm_new(RequestedDeadline::exact(after(start, 100)));
    turns.timeouts.arm(&timer, RequestedDeadline::exact(after(start, 10)));
    turns.timeouts.arm(&timer, RequestedDeadline::NONE);
    assert!(turns.turn_at(Timestamp::from_nanos(after(start, 10))).is_empty());
    assert_eq!((turns.timeouts.entries(), Arc::strong_count(&timer)), (0, 1));
}

#[test]
fn an_owner_may_end_before_the_wheel_has_its_timer() {
    let mut turns = Turns::new(Owners::new(START));
    let timer = new_timer();
    turns.timeouts.arm(&timer, RequestedDeadline::exact(after(turns.now, 10)));
    assert_eq!(
        turns.timeouts.request(&timer, RequestedDeadline::NONE),
        ArmAction::Nothing,
        "it is already queued"
    );
    assert!(turns.turn_at(turns.now).is_empty());
    assert_eq!((turns.timeouts.entries(), Arc::strong_count(&timer)), (0, 1));
}

#[test]
fn a_sleep_leaves_the_wheel_when_it_expires() {
    let mut turns = Turns::new(Owners::new(START));
    let timer = Arc::new(TimerCell::new(TimerOwner::Sleep));
    turns.timeouts.arm(&timer, RequestedDeadline::exact(after(turns.now, 10)));
    turns.wheel_loop.receive();
    assert_eq!(turns.turn().len(), 1);
    assert_eq!((turns.timeouts.entries(), Arc::strong_count(&timer)), (0, 1));
    assert_eq!(turns.timeouts.request(&timer, RequestedDeadline::NONE), ArmAction::Nothing);
}

/// Models a session that pings: its pong is due shortly after the rearmed time, and arrives immediately.
#[test]
fn the_usual_request_after_an_expiry_is_not_sent() {
    let mut turns = Turns::new(Owners::new(START));
    let timer = Timer::Slot(1);
    let after_now = |turns: &Turns<_>, ms| RequestedDeadline::exact(after(turns.now, ms));
    turns.timeouts.arm(&timer, after_now(&turns, 10));
    turns.wheel_loop.receive();
    let again = u64::try_from(SETTINGS.rearm_delay.as_millis()).expect("a short duration");
    for _ in 0..3 {
        assert_eq!(turns.turn().len(), 1);
        let at = turns.now;
        assert_eq!(turns.timeouts.request(&timer, after_now(&turns, again)), ArmAction::Nothing);
        assert_eq!(turns.timeouts.request(&timer, after_now(&turns, 100)), ArmAction::Nothing);
        assert!(turns.turn().is_empty(), "it fires without being due");
        assert_eq!(turns.now.as_nanos(), after(at, again));
    }
    turns.end(&timer);
}

/// The expiry of a timer is repeated if the worker is delayed or has panicked.
#[test]
fn an_unhandled_expiry_is_repeated() {
    let mut turns = Turns::new(Owners::new(START));
    let timer = Timer::Slot(1);
    turns.timeouts.arm(&timer, RequestedDeadline::exact(after(turns.now, 10)));
    turns.wheel_loop.receive();
    for _ in 0..3 {
        let expired = turns.turn();
        assert!(is_only(&expired, &timer));
        assert_eq!(turns.timeouts.entries(), 1);
    }
    turns.end(&timer);
}

#[test]
fn a_session_may_request_a_deadline_before_the_rearmed_time() {
    let mut turns = Turns::new(Owners::new(START));
    let timer = Timer::Slot(1);
    turns.timeouts.arm(&timer, RequestedDeadline::exact(after(turns.now, 10)));
    turns.wheel_loop.receive();
    assert_eq!(turns.turn().len(), 1);
    let due = after(turns.now, 5);
    assert_eq!(turns.timeouts.request(&timer, RequestedDeadline::exact(due)), ArmAction::Send);
    turns.timeouts.carry_out(&timer, ArmAction::Send);
    turns.wheel_loop.receive();
    assert_eq!(turns.turn().len(), 1);
    assert_eq!(turns.now.as_nanos(), due);
    turns.end(&timer);
}

#[test]
fn a_deadline_beyond_the_horizon_is_armed_step_by_step() {
    let mut turns = Turns::new(Reusable::new(SimpleWheel::new(START, 8)));
    let due = after(turns.now, 1_000);
    let timer = turns.arm_new(RequestedDeadline::exact(due));
    for turn in 1..125 {
        assert!(turns.turn().is_empty(), "early");
        assert_eq!(turns.now.as_nanos(), TICK.nanos(START.saturating_add(8 * turn)), "at the horizon");
        assert_eq!(turns.wheel_loop.wheel.len(), 1);
        let later = RequestedDeadline::exact(after(turns.now, 9));
        assert_eq!(
            turns.timeouts.request(&timer, later),
            ArmAction::Nothing,
            "the wheel reads the request before that"
        );
        assert_eq!(turns.timeouts.request(&timer, RequestedDeadline::exact(due)), ArmAction::Nothing);
    }
    let expired = turns.turn();
    assert!(is_only(&expired, &timer));
    assert_eq!(turns.now.as_nanos(), due);
    assert_eq!(turns.wheel_loop.wheel.len(), 1, "it stays registered");
    turns.end(&timer);
}

#[test]
fn a_timer_at_the_horizon_can_be_moved_and_removed() {
    let mut turns = Turns::new(Reusable::new(SimpleWheel::new(START, 8)));
    let far = RequestedDeadline::exact(after(turns.now, 60_000));
    let (moved, dropped) = (turns.arm_new(far), turns.arm_new(far));
    let due = after(turns.now, 3);
    turns.timeouts.arm(&moved, RequestedDeadline::exact(due));
    turns.timeouts.arm(&dropped, RequestedDeadline::NONE);
    turns.wheel_loop.receive();
    let expired = turns.turn();
    assert!(is_only(&expired, &moved));
    assert_eq!(turns.now.as_nanos(), due);
    turns.end(&moved);
    assert!(turns.wheel_loop.wheel.is_empty());
}

/// Simulates a thread that was blocked for much longer than the scheme's horizon.
#[test]
fn a_wheel_far_behind_its_horizon_catches_up() {
    let mut turns = Turns::new(Reusable::new(SimpleWheel::new(START, 8)));
    let due = after(turns.now, 100_000);
    let timer = turns.arm_new(RequestedDeadline::exact(due));
    assert!(turns.turn_at(Timestamp::from_nanos(due - 1)).is_empty(), "early");
    let expired = turns.turn();
    assert!(is_only(&expired, &timer));
    assert_eq!(turns.now.as_nanos(), due);
}

#[test]
fn a_timer_that_may_fire_late_serves_no_earlier_deadline() {
    let mut turns = Turns::new(Reusable::new(NonCascadingWheel::new(START)));
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
    assert_eq!(turns.now.as_nanos(), after(start, 60_001), "a timer this near is exact");
}

#[test]
fn no_timer_is_early_lost_or_later_than_documented() {
    with_seeds(0..12, |seed| {
        for scheme in TimerScheme::ALL {
            println!("{scheme}");
            scheme.timers(START, RandomRun { seed, of_sessions: false });
            scheme.timers(START, RandomRun { seed, of_sessions: true });
        }
        let width = NonZeroU64::new(7).expect("not 0");
        for of_sessions in [false, true] {
            RandomRun { seed, of_sessions }.visit(Reusable::new(SimpleWheel::new(START, 8)));
            RandomRun { seed, of_sessions }.visit(Reusable::new(SimpleWheel::with_width(START, 20, width)));
        }
    });
}

/// Random test in which owners change their deadlines at any time, mostly while the wheel sleeps.
struct RandomRun {
    seed: u64,
    /// Whether the timers belong to sessions, and are rearmed when they expire. Other timers are disarmed.
    of_sessions: bool,
}

const TIMERS: usize = 30;
const CHANGES: usize = 400;

/// When a timer is due, and the latest time at which it must have expired.
#[derive(Clone, Copy)]
struct ExpectedExpiry {
    due: u64,
    latest: u64,
}

impl TimersVisitor<WheelEntry> for RandomRun {
    type Output = ();

    fn visit<W: ReusableTimers<WheelEntry>>(self, timers: W) {
        let mut rng = SmallRng::seed_from_u64(self.seed);
        let mut turns = Turns::new(timers);
        let slots = (0..).map(Timer::Slot);
        let logs = std::iter::repeat_with(|| Timer::Standalone(new_timer()));
        let timers: Vec<Timer> =
            if self.of_sessions { slots.take(TIMERS).collect() } else { logs.take(TIMERS).collect() };
        let mut expected: Vec<Option<ExpectedExpiry>> = vec![None; TIMERS];
        let mut changes = 0;
        while changes < CHANGES || expected.iter().any(Option::is_some) {
            let planned = turns.planned();
            assert!(planned > turns.now, "the wake-up is planned in the past");
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
                let index = timers.iter().position(|timer| *timer == expired).expect("ours");
                let ExpectedExpiry { due, latest } =
                    expected[index].take().expect("expires once per request");
                let now = now.as_nanos();
                assert!(due <= now, "timer {index} early: {now} instead of {due}");
                assert!(now <= latest, "timer {index} late: {now} instead of {latest}");
                if rng.random_bool(0.5) {
                    turns.end(&timers[index]);
                } else if self.of_sessions {
                    let (deadline, expectation) = random_deadline(&mut rng, &turns, now);
                    expected[index] = expectation;
                    turns.timeouts.arm(&timers[index], deadline);
                    turns.wheel_loop.receive();
                }
                // All other timers stay disarmed until they are armed again.
            }
            for (index, expectation) in expected.iter().enumerate() {
                let missed = expectation.is_some_and(|expected| expected.latest < now.as_nanos());
                assert!(!missed, "timer {index} was lost");
            }
        }
        timers.iter().for_each(|timer| turns.end(timer));
        turns.turn();
        assert!(turns.wheel_loop.wheel.is_empty(), "no timer is left");
    }
}

/// Returns a random deadline, exact or soft, between one tick and several minutes ahead, or none.
fn random_deadline<W: ReusableTimers<WheelEntry>>(
    rng: &mut SmallRng,
    turns: &Turns<W>,
    now: u64,
) -> (RequestedDeadline, Option<ExpectedExpiry>) {
    if rng.random_bool(0.1) {
        return (RequestedDeadline::NONE, None);
    }
    let most = TICK.nanos(Tick(1 << rng.random_range(0..18)));
    let due = now + rng.random_range(0..most);
    let soft = rng.random_bool(0.3);
    let (deadline, slack) =
        if soft { (RequestedDeadline::soft(due), nanos(SLACK)) } else { (RequestedDeadline::exact(due), 0) };
    // Round up to a tick, and measure from the tick that the wheel may still be at.
    let ahead = TICK.first_at_or_after(due + slack - now + nanos(SETTINGS.longest_sleep())).0 + 1;
    let late = turns.wheel_loop.wheel.precision(ahead);
    (deadline, Some(ExpectedExpiry { due, latest: due + slack + TICK.nanos(Tick(late + 1)) }))
}
