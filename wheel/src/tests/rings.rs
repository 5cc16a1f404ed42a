//! Tests of the description of slots as rings.

use alloc::vec::Vec;

use super::{drain, size};
use crate::schemes::{CalendarQueue, Lawn, LogicSimulationWheel, NonCascadingWheel, Reusable, SimpleWheel};
use crate::{LEVELS, Owners, ReusableTimers, SlotRing, Tick, TimerQueue, TimingWheel, WorkBudget};

fn occupied_slots(queue: &impl TimerQueue<u64>, ring: usize) -> Vec<(usize, u32)> {
    let mut held = [0; SlotRing::MAX_SLOTS];
    queue.ring(ring, &mut held).expect("no such ring");
    held.into_iter().enumerate().filter(|(_, held)| *held > 0).collect()
}

/// Uses the example of the crate documentation.
#[test]
fn a_timer_is_seen_in_its_slot_until_it_moves() {
    let mut wheel = TimingWheel::new(Tick(1000));
    for deadline in [1001, 1255, 1255, 1256, 66_304] {
        wheel.schedule(Tick(deadline), deadline);
    }
    assert_eq!(occupied_slots(&wheel, 0), [(1255 % 256, 2), (1001 % 256, 1)]);
    assert_eq!(occupied_slots(&wheel, 1), [(1256 / 256, 1)]);
    assert_eq!(occupied_slots(&wheel, 2), [(1, 1)]);
    let mut held = [0; SlotRing::MAX_SLOTS];
    let rings: Vec<_> = (0..).map_while(|ring| TimerQueue::ring(&wheel, ring, &mut held)).collect();
    assert_eq!(rings.len(), LEVELS);
    assert_eq!(rings[0], SlotRing { slots: 256, slot_ticks: 1, hand: 1000 % 256, has_counts: true });
    assert_eq!(rings[7], SlotRing { slots: 256, slot_ticks: 1 << 56, hand: 0, has_counts: true });

    assert_eq!(drain(&mut wheel, 1023).len(), 1);
    assert_eq!(occupied_slots(&wheel, 1), [(1256 / 256, 1)]);
    assert_eq!(drain(&mut wheel, 1255).len(), 2);
    assert_eq!(
        (occupied_slots(&wheel, 0), occupied_slots(&wheel, 1)),
        ([(1256 % 256, 1)].into(), [].into()),
        "it moved at 1024"
    );
    drain(&mut wheel, 1256);
    assert!(occupied_slots(&wheel, 0).is_empty() && occupied_slots(&wheel, 1).is_empty());
    assert_eq!(occupied_slots(&wheel, 2), [(1, 1)]);
}

/// Uses more timers than fit into a slot's own line.
#[test]
fn all_timers_of_a_slot_are_counted() {
    let mut timers = Owners::<u64>::new(Tick(0));
    let keys: Vec<_> = (0..size(10_000, 100) as u64).map(|number| timers.insert(number)).collect();
    let mut held = [0; SlotRing::MAX_SLOTS];
    for (count, key) in (1..).zip(&keys) {
        timers.get_mut(*key).expect("still present").arm(0, Tick(300));
        if count % 7 == 0 {
            ReusableTimers::ring(&timers, 1, &mut held).expect("every level has a ring");
            assert_eq!((held[1], held.iter().sum::<u32>()), (count, count));
        }
    }
    for left in (0..keys.len()).rev() {
        let due = ReusableTimers::expire_next(&mut timers, Tick(300), &mut WorkBudget::unlimited());
        assert!(matches!(due, crate::Expiry::Due(_)));
        timers.ring(1, &mut held).expect("every level has a ring");
        let above = held[1];
        timers.ring(0, &mut held).expect("every level has a ring");
        assert_eq!((above + held[300 % 256]) as usize, left);
    }
}

#[test]
fn other_schemes_report_occupied_slots() {
    let mut wheel = Reusable::new(SimpleWheel::new(Tick(0), 1 << 14));
    for deadline in [70, 71, 16_000] {
        let key = wheel.register(());
        assert_eq!(wheel.arm(key, Tick(deadline)), Ok(true));
    }
    let mut held = [0; SlotRing::MAX_SLOTS];
    let ring = wheel.ring(0, &mut held);
    assert_eq!(ring, Some(SlotRing { slots: 256, slot_ticks: 64, hand: 0, has_counts: false }));
    assert_eq!((held[1], held[250], held.iter().sum::<u32>()), (1, 1, 2));
    assert_eq!(wheel.ring(1, &mut held), None);

    let mut coarse = NonCascadingWheel::new(Tick(0));
    coarse.schedule(Tick(100), 0).expect("no horizon");
    assert_eq!(occupied_slots(&coarse, 1), [(104 / 8, 1)]);
    let ring = coarse.ring(20, &mut held);
    assert_eq!(ring, Some(SlotRing { slots: 64, slot_ticks: 1 << 60, hand: 0, has_counts: false }));
    assert_eq!(coarse.ring(21, &mut held), None);

    // Test a scheme whose second part is a list and not a ring.
    let mut cycles = LogicSimulationWheel::new(Tick(0), 8);
    for deadline in [3, 9] {
        cycles.schedule(Tick(deadline), deadline).expect("no horizon");
    }
    assert_eq!((cycles.levels(), occupied_slots(&cycles, 0)), (2, [(3, 1)].into()));
    assert_eq!(cycles.ring(1, &mut held), None);
}

#[test]
fn schemes_without_slots_have_no_ring() {
    let mut held = [7; SlotRing::MAX_SLOTS];
    let rings = [
        TimerQueue::<u64>::ring(&Lawn::new(Tick(0)), 0, &mut held),
        TimerQueue::<u64>::ring(&CalendarQueue::new(Tick(0)), 0, &mut held),
    ];
    assert_eq!((rings, held), ([None; 2], [7; SlotRing::MAX_SLOTS]));
}
