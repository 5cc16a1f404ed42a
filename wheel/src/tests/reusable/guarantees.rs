use alloc::vec::Vec;

use crate::{BeyondHorizon, Expiry, ReusableTimers, Tick, TimerKey, WorkBudget};

/// Returns the tick `ahead` ticks from now, or the last tick within the horizon.
fn ahead(timers: &impl ReusableTimers<u64>, ahead: u64) -> Tick {
    timers.now().saturating_add(timers.horizon().map_or(ahead, |horizon| horizon.min(ahead)))
}

fn latest(timers: &impl ReusableTimers<u64>, deadline: Tick) -> u64 {
    let ahead = deadline.saturating_since(timers.now());
    deadline.max(timers.now().saturating_add(1)).0.saturating_add(timers.precision(ahead))
}

/// Registers a timer and arms it `ticks` ticks ahead. Returns its key and the latest tick at which it may
/// expire.
fn armed(timers: &mut impl ReusableTimers<u64>, value: u64, ticks: u64) -> (TimerKey, u64) {
    let key = timers.register(value);
    let deadline = ahead(timers, ticks);
    let latest = latest(timers, deadline);
    assert_eq!(timers.arm(key, deadline), Ok(true));
    (key, latest)
}

fn drain(timers: &mut impl ReusableTimers<u64>, now: u64) -> Vec<TimerKey> {
    let mut drained = Vec::new();
    loop {
        match timers.expire_next(Tick(now), &mut WorkBudget::unlimited()) {
            Expiry::Due(expired) => drained.push(expired.key),
            Expiry::UpToDate => return drained,
            Expiry::OutOfBudget => unreachable!("the budget is unlimited"),
        }
    }
}

pub(super) fn a_timer_stays_when_it_expires<S: ReusableTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(1000));
    let (key, mut latest_expiry) = armed(&mut timers, 0, 5);
    for round in 1..5 {
        let Expiry::Due(expired) = timers.expire_next(Tick(latest_expiry), &mut WorkBudget::unlimited())
        else {
            panic!("not due by {latest_expiry}")
        };
        assert_eq!((expired.key, *expired.value), (key, round - 1));
        *expired.value = round;
        assert_eq!((timers.deadline(key), timers.get(key), timers.len()), (None, Some(&round), 1));
        assert!(!timers.disarm(key), "no longer armed");
        assert_eq!(drain(&mut timers, latest_expiry + 100), [], "expired once");
        let deadline = ahead(&timers, 300);
        latest_expiry = latest(&timers, deadline);
        assert_eq!(timers.arm(key, deadline), Ok(true));
    }
    assert_eq!(timers.unregister(key), Some(4));
    assert!(timers.is_empty());
}

pub(super) fn only_armed_timers_expire<S: ReusableTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(0));
    let never = timers.register(1);
    assert_eq!((timers.deadline(never), timers.next_wakeup(Tick::MAX)), (None, None));
    let (disarmed, latest) = armed(&mut timers, 2, 50);
    assert!(timers.disarm(disarmed));
    assert!(!timers.disarm(disarmed), "already disarmed");
    assert_eq!((timers.deadline(disarmed), timers.get(disarmed)), (None, Some(&2)));
    assert_eq!(drain(&mut timers, latest + 100), []);
    assert_eq!(timers.arm(disarmed, Tick(3)), Ok(true));
    assert_eq!(timers.deadline(disarmed), Some(Tick(3)));
    let latest = timers.now().0 + 1 + timers.precision(0);
    assert_eq!(drain(&mut timers, latest), [disarmed]);
    assert_eq!(timers.len(), 2);
}

pub(super) fn arming_after_disarming_uses_the_new_deadline<S: ReusableTimers<u64>>(at: fn(Tick) -> S) {
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

pub(super) fn timers_of_a_tick_can_be_changed_while_it_drains<S: ReusableTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(0));
    let timer = |timers: &mut S, value| armed(timers, value, 7);
    let keys = [0, 1, 2, 3].map(|value| timer(&mut timers, value).0);
    let (_, last) = timer(&mut timers, 4);
    let Expiry::Due(first) = timers.expire_next(Tick(last), &mut WorkBudget::unlimited()) else {
        panic!("none of five timers is due")
    };
    let first = first.key;
    let rest: Vec<_> = keys.into_iter().filter(|key| *key != first).collect();
    assert!(timers.disarm(rest[0]));
    assert!(timers.unregister(rest[1]).is_some());
    let later = ahead(&timers, 3);
    let at_the_latest = latest(&timers, later);
    assert_eq!(timers.arm(rest[2], later), Ok(true));
    assert_eq!(timers.arm(first, later), Ok(true));
    let mut drained = drain(&mut timers, at_the_latest.max(last));
    assert!(!drained.contains(&rest[0]) && !drained.contains(&rest[1]), "{drained:?}");
    drained.retain(|key| *key == first || *key == rest[2]);
    assert_eq!(drained.len(), 2, "exactly once");
}

pub(super) fn arming_within_a_range_keeps_a_deadline_inside_it<S: ReusableTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(10));
    let key = timers.register(1);
    let (start, end) = (ahead(&timers, 20), ahead(&timers, 60));
    assert_eq!(timers.arm_within(key, start..=end), Ok(true));
    let chosen = timers.deadline(key).expect("armed");
    assert!((start..=end).contains(&chosen));
    assert_eq!(timers.arm_within(key, Tick(0)..=chosen), Ok(true));
    assert_eq!(timers.deadline(key), Some(chosen), "the deadline was already in the range");
    assert!(timers.disarm(key));
    assert_eq!(timers.arm_within(key, start..=end), Ok(true));
    let chosen = timers.deadline(key).expect("armed");
    assert!((start..=end).contains(&chosen));
    let latest = latest(&timers, chosen);
    assert_eq!(drain(&mut timers, latest), [key]);
    assert_eq!(timers.arm_within(key, Tick(0)..=Tick::MAX), Ok(true), "already expired");
    assert!(timers.deadline(key).is_some());
}

pub(super) fn a_deadline_beyond_the_horizon_changes_nothing<S: ReusableTimers<u64>>(at: fn(Tick) -> S) {
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

pub(super) fn a_key_is_stale_once_its_timer_is_unregistered<S: ReusableTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(0));
    let mut stale = Vec::new();
    for round in 0..10 {
        let (key, _) = armed(&mut timers, round, 3);
        assert_eq!(timers.unregister(key), Some(round));
        stale.push(key);
        // Register another timer, which probably uses the same memory.
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
        assert_eq!(drain(&mut timers, later), [], "unregistering also disarms");
        assert_eq!(timers.unregister(other), Some(1000));
    }
}

/// Every tick terminates even if each expiry arms its timer for the current tick and the budget is one unit
/// at a time.
pub(super) fn timers_rearmed_on_expiry_expire_once_per_tick<S: ReusableTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(100));
    let each_within = 1 + timers.precision(0);
    let keys = [0, 1, 2].map(|value| armed(&mut timers, value, 1).0);
    let until = Tick(100 + 20 * each_within);
    let mut drained = [0; 3];
    loop {
        assert!(
            !matches!(timers.expire_next(until, &mut WorkBudget::new(0)), Expiry::Due(_)),
            "expired without budget"
        );
        match timers.expire_next(until, &mut WorkBudget::new(1)) {
            Expiry::Due(expired) => {
                let (key, value) = (expired.key, *expired.value);
                let at = usize::try_from(value).expect("an index");
                assert_eq!(keys[at], key);
                drained[at] += 1;
                let now = timers.now();
                assert_eq!(timers.arm(key, now), Ok(true));
            }
            Expiry::OutOfBudget => assert!(timers.next_wakeup(until).is_some(), "work remains"),
            Expiry::UpToDate => break,
        }
    }
    assert!(drained.iter().all(|drained| (20..=20 * each_within).contains(drained)), "{drained:?}");
    assert_eq!(timers.now(), until);
}

pub(super) fn at_the_end_of_time_all_can_be_disarmed<S: ReusableTimers<u64>>(at: fn(Tick) -> S) {
    let mut timers = at(Tick(u64::MAX - 1));
    let (last, _) = armed(&mut timers, 1, 1);
    assert_eq!(drain(&mut timers, u64::MAX), [last]);
    assert_eq!(timers.arm(last, Tick::MAX), Ok(true));
    assert_eq!(drain(&mut timers, u64::MAX), []);
    assert_eq!(timers.next_wakeup(Tick::MAX), None);
    assert!(timers.disarm(last));
    assert_eq!(timers.unregister(last), Some(1));
}
