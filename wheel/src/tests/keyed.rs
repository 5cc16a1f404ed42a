use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use std::rc::Rc;

use super::seed::with_seeds;
use super::size;
use crate::schemes::{HashedUnsortedWheel, Lawn, SimpleWheel};
use crate::{BeyondHorizon, Expiry, Keyed, Tick, TimerQueue, TimingWheel, WorkBudget};

#[test]
fn an_id_identifies_one_timer_at_a_time() {
    let mut timers = Keyed::new(TimingWheel::new(Tick(0)));
    assert_eq!(timers.start(7, Tick(10), "first"), Ok(None));
    assert_eq!(timers.start(7, Tick(20), "second"), Ok(Some("first")));
    assert_eq!((timers.len(), timers.queue().len()), (1, 1));
    assert_eq!((timers.deadline(&7), timers.get(&7)), (Some(Tick(20)), Some(&"second")));
    assert_eq!(timers.next_wakeup(Tick(9)), None, "may be the deadline of a stopped timer, but no earlier");
    assert_eq!(timers.expire_next(Tick(19), &mut WorkBudget::unlimited()), Expiry::UpToDate);
    assert_eq!(timers.stop(&7), Some("second"));
    assert_eq!(timers.stop(&7), None);
    assert_eq!(timers.restart(&7, Tick(30)), Ok(false));
    assert!(timers.is_empty() && timers.queue().is_empty());
}

#[test]
fn an_id_can_be_looked_up_by_its_borrowed_form() {
    let mut timers = Keyed::new(Lawn::new(Tick(0)));
    assert_eq!(timers.start(String::from("ping"), Tick(10), 1), Ok(None));
    assert_eq!(timers.restart("ping", Tick(11)), Ok(true));
    assert_eq!(timers.stop("ping"), Some(1));
}

#[test]
fn a_timer_that_is_refused_leaves_the_running_one_alone() {
    let mut timers = Keyed::new(SimpleWheel::new(Tick(0), 8));
    let last = Tick(8);
    assert_eq!(timers.start(1, Tick(5), "running"), Ok(None));
    assert_eq!(timers.start(1, Tick(9), "too far"), Err(BeyondHorizon { value: "too far", last }));
    assert_eq!(timers.start(2, Tick(9), "too far"), Err(BeyondHorizon { value: "too far", last }));
    assert_eq!(timers.restart(&1, Tick(9)), Err(BeyondHorizon { value: (), last }));
    assert_eq!((timers.get(&1), timers.deadline(&1)), (Some(&"running"), Some(Tick(5))));
    assert_eq!((timers.len(), timers.queue().len()), (1, 1));
}

#[test]
fn an_expired_id_can_be_reused_immediately() {
    let mut timers = Keyed::new(TimingWheel::new(Tick(0)));
    assert_eq!(timers.start("tick", Tick(1), 0), Ok(None));
    let mut work = WorkBudget::unlimited();
    for now in 1..=5 {
        let Expiry::Due(expired) = timers.expire_next(Tick(5), &mut work) else {
            panic!("nothing is due at {now}")
        };
        assert_eq!((expired.deadline, expired.value), (Tick(now), ("tick", now - 1)));
        assert_eq!(timers.start("tick", Tick(now + 1), now), Ok(None));
    }
    assert_eq!(timers.expire_next(Tick(5), &mut work), Expiry::UpToDate);
}

#[test]
fn nothing_leaks() {
    with_seeds(|random| {
        let witness = Rc::new(());
        let mut timers = Keyed::new(HashedUnsortedWheel::new(Tick(0), 16));
        let mut model = BTreeMap::new();
        for _ in 0..size(2000, 50) {
            let id = random.below(40).to_string();
            let now = timers.queue().now();
            let deadline = now.saturating_add(1 + random.below(100));
            match random.below(6) {
                0..=2 => {
                    let old = timers.start(id.clone(), deadline, Rc::clone(&witness)).expect("no horizon");
                    assert_eq!(old.is_some(), model.insert(id, deadline).is_some());
                }
                3 => {
                    let running = model.get_mut(&id).map(|known| *known = deadline).is_some();
                    assert_eq!(timers.restart(&id, deadline), Ok(running));
                }
                4 => assert_eq!(timers.stop(&id).is_some(), model.remove(&id).is_some()),
                _ => {
                    let now = now.saturating_add(random.below(20));
                    while let Expiry::Due(expired) = timers.expire_next(now, &mut WorkBudget::unlimited()) {
                        assert_eq!(model.remove(&expired.value.0), Some(expired.deadline));
                    }
                }
            }
            let running = model.len();
            assert_eq!((timers.len(), timers.queue().len()), (running, running));
            assert_eq!(Rc::strong_count(&witness), running + 1);
        }
    });
}
