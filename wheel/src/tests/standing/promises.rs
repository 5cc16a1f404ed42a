//! What is promised of timers that stay, beside what holds for all timers.

use alloc::vec::Vec;

use crate::{BeyondHorizon, Expire, StandingTimers, Tick, TimerKey, Work};

/// `ahead` ticks from now, or as far as the scheme reaches.
fn ahead(timers: &impl StandingTimers<u64>, ahead: u64) -> Tick {
    timers.now().saturating_add(timers.horizon().map_or(ahead, |horizon| horizon.min(ahead)))
}

/// When a timer expires at the latest that is armed now.
fn latest(timers: &impl StandingTimers<u64>, deadline: Tick) -> u64 {
    let ahead = deadline.saturating_since(timers.now());
    deadline.max(timers.now().saturating_add(1)).0.saturating_add(timers.precision(ahead))
}

/// Registers a timer that is armed so far ahead, and returns when it expires at the latest.
fn armed(timers: &mut impl StandingTimers<u64>, value: u64, ticks: u64) -> (TimerKey, u64) {
    let key = timers.register(value);
    let deadline = ahead(timers, ticks);
    let latest = latest(timers, deadline);
    assert_eq!(timers.arm(key, deadline), Ok(true));
    (key, latest)
}

fn drain(timers: &mut impl StandingTimers<u64>, now: u64) -> Vec<TimerKey> {
    let mut came = Vec::new();
    loop {
        match timers.expire_next(Tick(now), &mut Work::unlimited()) {
            Expire::Due(expired) => came.push(expired.key),
            Expire::UpToDate => return came,
            Expire::OutOfWork => unreachable!("the budget is unlimited"),
        }
    }
}

pub(super) fn a_timer_stays_when_it_expires<S: StandingTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(1000));
    let (key, mut latest_expiry) = armed(&mut timers, 0, 5);
    for round in 1..5 {
        let Expire::Due(expired) = timers.expire_next(Tick(latest_expiry), &mut Work::unlimited()) else {
            panic!("it is due by {latest_expiry}")
        };
        assert_eq!((expired.key, *expired.value), (key, round - 1));
        *expired.value = round;
        assert_eq!((timers.deadline(key), timers.get(key), timers.len()), (None, Some(&round), 1));
        assert!(!timers.disarm(key), "it is not armed any more");
        assert_eq!(drain(&mut timers, latest_expiry + 100), [], "it came once");
        let deadline = ahead(&timers, 300);
        latest_expiry = latest(&timers, deadline);
        assert_eq!(timers.arm(key, deadline), Ok(true));
    }
    assert_eq!(timers.unregister(key), Some(4));
    assert!(timers.is_empty());
}

pub(super) fn what_is_not_armed_does_not_expire<S: StandingTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(0));
    let never = timers.register(1);
    assert_eq!((timers.deadline(never), timers.next_wakeup(Tick::MAX)), (None, None));
    let (disarmed, latest) = armed(&mut timers, 2, 50);
    assert!(timers.disarm(disarmed));
    assert!(!timers.disarm(disarmed), "it was disarmed");
    assert_eq!((timers.deadline(disarmed), timers.get(disarmed)), (None, Some(&2)));
    assert_eq!(drain(&mut timers, latest + 100), []);
    // It may be armed again, for the past as well.
    assert_eq!(timers.arm(disarmed, Tick(3)), Ok(true));
    assert_eq!(timers.deadline(disarmed), Some(Tick(3)));
    let latest = timers.now().0 + 1 + timers.precision(0);
    assert_eq!(drain(&mut timers, latest), [disarmed]);
    assert_eq!(timers.len(), 2);
}

pub(super) fn disarming_and_arming_again_keeps_the_last_word<S: StandingTimers<u64>>(at: fn(Tick) -> S) {
    for (first, second) in [(5, 40), (40, 5), (40, 40), (300, 2), (2, 300)] {
        let mut timers = at(Tick(77));
        let (key, _) = armed(&mut timers, 1, first);
        assert!(timers.disarm(key));
        let deadline = ahead(&timers, second);
        let latest = latest(&timers, deadline);
        assert_eq!(timers.arm(key, deadline), Ok(true));
        assert_eq!(drain(&mut timers, deadline.0 - 1), [], "{first}, then {second}");
        assert!(timers.next_wakeup(Tick::MAX).is_some_and(|wakeup| wakeup.0 <= latest));
        assert_eq!(drain(&mut timers, latest), [key], "{first}, then {second}");
    }
}

pub(super) fn timers_of_a_tick_can_be_changed_while_it_drains<S: StandingTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(0));
    let timer = |timers: &mut S, value| armed(timers, value, 7);
    let keys = [0, 1, 2, 3].map(|value| timer(&mut timers, value).0);
    let (_, last) = timer(&mut timers, 4);
    let Expire::Due(first) = timers.expire_next(Tick(last), &mut Work::unlimited()) else {
        panic!("five are due")
    };
    let first = first.key;
    let rest: Vec<_> = keys.into_iter().filter(|key| *key != first).collect();
    assert!(timers.disarm(rest[0]));
    assert!(timers.unregister(rest[1]).is_some());
    let later = ahead(&timers, 3);
    let at_the_latest = latest(&timers, later);
    assert_eq!(timers.arm(rest[2], later), Ok(true));
    assert_eq!(timers.arm(first, later), Ok(true));
    let mut came = drain(&mut timers, at_the_latest.max(last));
    assert!(!came.contains(&rest[0]) && !came.contains(&rest[1]), "{came:?}");
    came.retain(|key| *key == first || *key == rest[2]);
    assert_eq!(came.len(), 2, "each once");
}

pub(super) fn a_range_that_has_the_deadline_changes_nothing<S: StandingTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(10));
    let key = timers.register(1);
    let (start, end) = (ahead(&timers, 20), ahead(&timers, 60));
    assert_eq!(timers.arm_within(key, start..=end), Ok(true));
    let chosen = timers.deadline(key).expect("it is armed");
    assert!((start..=end).contains(&chosen));
    assert_eq!(timers.arm_within(key, Tick(0)..=chosen), Ok(true));
    assert_eq!(timers.deadline(key), Some(chosen), "that was all right already");
    // What was disarmed has no deadline, whatever it had.
    assert!(timers.disarm(key));
    assert_eq!(timers.arm_within(key, start..=end), Ok(true));
    let chosen = timers.deadline(key).expect("it is armed");
    assert!((start..=end).contains(&chosen));
    let latest = latest(&timers, chosen);
    assert_eq!(drain(&mut timers, latest), [key]);
    assert_eq!(timers.arm_within(key, Tick(0)..=Tick::MAX), Ok(true), "it has expired");
    assert!(timers.deadline(key).is_some());
}

pub(super) fn what_is_beyond_leaves_a_timer_as_it_was<S: StandingTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(12_345));
    let key = timers.register(1);
    let Some(horizon) = timers.horizon() else {
        assert_eq!(timers.arm(key, Tick::MAX), Ok(true));
        return;
    };
    let last = Tick(timers.now().0 + horizon);
    let refused = Err(BeyondHorizon { value: (), last });
    let beyond = last.saturating_add(1);
    for before in [None, Some(last)] {
        if let Some(before) = before {
            assert_eq!(timers.arm(key, before), Ok(true));
        }
        assert_eq!(timers.arm(key, beyond), refused);
        assert_eq!(timers.arm_within(key, beyond..=Tick::MAX), refused);
        assert_eq!((timers.deadline(key), timers.get(key)), (before, Some(&1)));
    }
    let latest = latest(&timers, last);
    assert_eq!(drain(&mut timers, latest), [key]);
}

pub(super) fn a_key_is_stale_once_its_timer_is_unregistered<S: StandingTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(0));
    let mut stale = Vec::new();
    for round in 0..10 {
        let (key, _) = armed(&mut timers, round, 3);
        assert_eq!(timers.unregister(key), Some(round));
        stale.push(key);
        // In the same memory, most likely.
        let other = timers.register(1000);
        let soon = ahead(&timers, 4);
        for stale in &stale {
            assert_eq!((timers.get(*stale), timers.deadline(*stale)), (None, None));
            assert_eq!(timers.arm(*stale, soon), Ok(false));
            assert_eq!(timers.arm_within(*stale, Tick(0)..=Tick::MAX), Ok(false));
            assert!(!timers.disarm(*stale));
            assert_eq!(timers.unregister(*stale), None);
        }
        assert_eq!((timers.get(other), timers.deadline(other)), (Some(&1000), None));
        let later = timers.now().0 + 500;
        assert_eq!(drain(&mut timers, later), [], "what was armed went with its timer");
        assert_eq!(timers.unregister(other), Some(1000));
    }
}

/// One unit of work at a time, and each expiry arms its timer for now: every tick comes to an end.
pub(super) fn timers_that_arm_themselves_come_once_a_tick<S: StandingTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(100));
    let each_within = 1 + timers.precision(0);
    let keys = [0, 1, 2].map(|value| armed(&mut timers, value, 1).0);
    let until = Tick(100 + 20 * each_within);
    let mut came = [0; 3];
    loop {
        assert!(!matches!(timers.expire_next(until, &mut Work::new(0)), Expire::Due(_)), "for no work");
        match timers.expire_next(until, &mut Work::new(1)) {
            Expire::Due(expired) => {
                let (key, value) = (expired.key, *expired.value);
                let at = usize::try_from(value).expect("an index");
                assert_eq!(keys[at], key);
                came[at] += 1;
                let now = timers.now();
                assert_eq!(timers.arm(key, now), Ok(true));
            }
            Expire::OutOfWork => assert!(timers.next_wakeup(until).is_some(), "there is more to do"),
            Expire::UpToDate => break,
        }
    }
    assert!(came.iter().all(|came| (20..=20 * each_within).contains(came)), "{came:?}");
    assert_eq!(timers.now(), until);
}

pub(super) fn at_the_end_of_time_all_can_be_disarmed<S: StandingTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(u64::MAX - 1));
    let (last, _) = armed(&mut timers, 1, 1);
    assert_eq!(drain(&mut timers, u64::MAX), [last]);
    assert_eq!(timers.arm(last, Tick::MAX), Ok(true));
    assert_eq!(drain(&mut timers, u64::MAX), []);
    assert_eq!(timers.next_wakeup(Tick::MAX), None);
    assert!(timers.disarm(last));
    assert_eq!(timers.unregister(last), Some(1));
}
