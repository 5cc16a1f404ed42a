use super::{drain, size};
use crate::range::choose;
use crate::{Expiry, Tick, TimingWheel, WorkBudget};

fn chosen(now: u64, start: u64, end: u64) -> u64 {
    choose(Tick(now), &(Tick(start)..=Tick(end))).0
}

#[test]
fn the_latest_boundary_of_the_highest_level_is_chosen() {
    assert_eq!(chosen(0, 6000, 7000), 6912, "27 * 256");
    assert_eq!(chosen(0, 6912, 6913), 6912);
    assert_eq!(chosen(0, 60_000, 70_000), 65_536);
    assert_eq!(chosen(0, 60_000, 65_535), 65_280, "255 * 256");
    assert_eq!(chosen(0, 60_000, 200_000), 3 * 65_536);
    assert_eq!(chosen(0, 1, 1 << 40), 1 << 40);
}

#[test]
fn the_choice_does_not_depend_on_now() {
    for now in [0, 1, 100, 255, 256, 999] {
        assert_eq!(chosen(now, 1000, 1100), 1024, "at {now}");
    }
}

#[test]
fn within_a_slot_the_roundest_tick_is_chosen() {
    assert_eq!(chosen(0, 1030, 1039), 1032);
    assert_eq!(chosen(0, 1032, 1042), 1040);
    assert_eq!(chosen(0, 1033, 1035), 1034);
    assert_eq!(chosen(0, 1033, 1034), 1034);
    assert_eq!(chosen(0, 1033, 1033), 1033);
    assert_eq!(chosen(0, 1, 255), 128);
}

#[test]
fn past_ticks_are_not_chosen() {
    assert_eq!(chosen(1024, 1000, 1030), 1028);
    assert_eq!(chosen(1029, 1000, 1030), 1030);
    assert_eq!(chosen(1030, 1000, 1030), 1030, "past: the end is the deadline");
    assert_eq!(chosen(5000, 1000, 1030), 1030);
    assert_eq!(chosen(0, 0, 0), 0);
    assert_eq!(chosen(u64::MAX, 0, u64::MAX), u64::MAX);
    assert_eq!(chosen(0, 0, u64::MAX), 0xff << 56);
}

#[test]
fn an_empty_range_means_its_start() {
    assert_eq!(chosen(0, 20, 10), 20);
    assert_eq!(chosen(15, 20, 10), 20);
    assert_eq!(chosen(500, 20, 10), 20);
    assert_eq!(chosen(0, u64::MAX, 0), u64::MAX);
}

#[test]
fn rescheduling_keeps_a_deadline_within_the_range() {
    let mut wheel = TimingWheel::new(Tick(0));
    let idle = wheel.schedule_within(Tick(6000)..=Tick(6300), "idle");
    assert_eq!(wheel.deadline(idle), Some(Tick(6144)));
    for now in (0..=144).step_by(size(1, 12)) {
        assert_eq!(drain(&mut wheel, now), []);
        assert!(wheel.reschedule_within(idle, Tick(6000 + now)..=Tick(6300 + now)));
        assert_eq!(wheel.deadline(idle), Some(Tick(6144)), "at {now}");
    }
    assert!(wheel.reschedule_within(idle, Tick(6145)..=Tick(6445)));
    assert_eq!(wheel.deadline(idle), Some(Tick(6400)));
    assert!(wheel.reschedule_within(idle, Tick(1001)..=Tick(1010)));
    assert_eq!(wheel.deadline(idle), Some(Tick(1008)));
}

#[test]
fn timers_with_slack_expire_together() {
    let mut wheel = TimingWheel::new(Tick(0));
    let count = size(1000, 30);
    for due in (1000..).take(count) {
        wheel.schedule_within(Tick(due)..=Tick(due + 10), due);
    }
    let mut batches = 0;
    for now in 1000..1010 + count as u64 {
        let due = drain(&mut wheel, now);
        assert!(due.iter().all(|&(_, due)| due <= now && now <= due + 10));
        batches += usize::from(!due.is_empty());
    }
    assert!(batches <= count / 7, "{batches}");
}

#[test]
fn a_timer_on_a_boundary_expires_without_moving() {
    let mut wheel = TimingWheel::new(Tick(0));
    wheel.schedule_within(Tick(60_000)..=Tick(70_000), ());
    assert_eq!(wheel.occupancy()[2], 1);
    assert_eq!(wheel.next_wakeup(Tick::MAX), Some(Tick(65_536)));
    let mut work = WorkBudget::new(1);
    assert!(matches!(wheel.expire_next(Tick(65_536), &mut work), Expiry::Due(_)));
}
