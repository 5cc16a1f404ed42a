use super::{QueueUnderTest, drain, schedule};
use crate::{BeyondHorizon, Tick};

/// Returns the current tick and the last tick within the horizon, or `None` if there is no horizon.
fn reach(queue: &impl QueueUnderTest) -> Option<(Tick, Tick)> {
    let now = queue.now();
    queue.horizon().map(|horizon| (now, Tick(now.0 + horizon)))
}

pub(super) fn timers_beyond_the_horizon_are_refused<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    for start in [0, 1, 49, 50, 12_345] {
        let mut queue = at(Tick(start));
        let Some((now, last)) = reach(&queue) else {
            schedule(&mut queue, Tick::MAX, 1);
            return;
        };
        assert!(last > now);
        for beyond in [last.saturating_add(1), last.saturating_add(1000), Tick::MAX] {
            assert_eq!(queue.schedule(beyond, 7), Err(BeyondHorizon { value: 7, last }));
            let range = beyond..=Tick::MAX;
            assert_eq!(queue.schedule_within(range, 7), Err(BeyondHorizon { value: 7, last }));
        }
        queue.check();
        assert!(queue.is_empty());
        schedule(&mut queue, last, 1);
        assert_eq!(drain(&mut queue, last.0 - 1), []);
        assert_eq!(drain(&mut queue, last.0).len(), 1);
    }
}

pub(super) fn a_refused_reschedule_keeps_the_deadline<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(100));
    let Some((_, last)) = reach(&queue) else { return };
    let key = schedule(&mut queue, last, 1);
    let refused = Err(BeyondHorizon { value: (), last });
    let beyond = last.saturating_add(1);
    assert_eq!(queue.reschedule(key, beyond), refused);
    assert_eq!(queue.reschedule_within(key, beyond..=Tick::MAX), refused);
    assert_eq!(queue.reschedule_within(key, last..=Tick::MAX), Ok(true));
    queue.check();
    assert_eq!((queue.deadline(key), queue.get(key)), (Some(last), Some(&1)));
    assert_eq!(drain(&mut queue, last.0).len(), 1);
}

pub(super) fn a_range_partly_within_the_horizon_is_accepted<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(100));
    let last = reach(&queue).map_or(Tick(1000), |(_, last)| last);
    let key = queue.schedule_within(last..=Tick::MAX, 1).expect("the start is within the horizon");
    assert!(queue.deadline(key).is_some_and(|deadline| deadline >= last));
    if queue.horizon().is_some() {
        assert_eq!(queue.deadline(key), Some(last));
    }
}
