use encke_wheel::schemes::{
    BalancedTree, BinaryHeap, CalendarQueue, HashedSortedWheel, HashedUnsortedWheel, HierarchicalWheel, Lawn,
    LogicSimulationWheel, NonCascadingWheel, OneMigrationWheel, OrderedList, SimpleWheel, UnorderedList,
};
use encke_wheel::{Expiry, Tick, TimerKey, TimerQueue, TimingWheel, WorkBudget};

use super::{ExpiredTimer, Limits, Structure};

/// A scheme with its parameters for benchmarks.
pub trait BenchScheme<T>: TimerQueue<T> {
    const NAME: &'static str;
    const LIMITS: Limits;

    /// Creates an empty queue at tick 0 for deadlines up to `reach` ticks ahead.
    fn with_reach(reach: u64) -> Self;
}

pub trait SchemeVisitor<T> {
    fn visit<Q: BenchScheme<T>>(&mut self);
}

/// Number of slots of a wheel that makes many revolutions.
pub(crate) const SLOTS: usize = 4_096;

/// Returns the number of slots of a wheel with a horizon of one revolution.
fn slots_for(reach: u64) -> usize {
    let slots = (reach + 1).next_power_of_two();
    usize::try_from(slots).expect("a benchmark's ticks fit into memory")
}

/// Lists each scheme with its type, its constructor, and its limits.
macro_rules! all_schemes {
    ($($scheme:ident: $new:expr, $limits:expr;)*) => {
        $(impl<T> BenchScheme<T> for $scheme<T> {
            const NAME: &'static str = stringify!($scheme);
            const LIMITS: Limits = $limits;

            fn with_reach(reach: u64) -> Self {
                let new: fn(u64) -> Self = $new;
                new(reach)
            }
        })*

        pub fn schemes<T>(visitor: &mut impl SchemeVisitor<T>) {
            $(visitor.visit::<$scheme<T>>();)*
        }
    };
}

all_schemes! {
    TimingWheel: |_| TimingWheel::new(Tick::ZERO), Limits::NONE;
    HierarchicalWheel: |_| HierarchicalWheel::new(Tick::ZERO), Limits::NONE;
    OneMigrationWheel: |_| OneMigrationWheel::new(Tick::ZERO), Limits::NONE;
    NonCascadingWheel: |_| NonCascadingWheel::new(Tick::ZERO), Limits::NONE;
    SimpleWheel: |reach| SimpleWheel::new(Tick::ZERO, slots_for(reach)), Limits::NONE;
    // Not limited: all timers are examined, but only once per revolution.
    HashedUnsortedWheel: |_| HashedUnsortedWheel::new(Tick::ZERO, SLOTS), Limits::NONE;
    // Limited, because setting a timer searches the sorted list of a slot.
    HashedSortedWheel: |_| HashedSortedWheel::new(Tick::ZERO, SLOTS),
        Limits { change: 1_000_000, expire: 1_000_000, sessions: 1_000_000 };
    LogicSimulationWheel: |_| LogicSimulationWheel::new(Tick::ZERO, SLOTS), Limits::NONE;
    CalendarQueue: |_| CalendarQueue::new(Tick::ZERO), Limits::NONE;
    // Limited, because with random deadlines, there are as many durations as timers, each with its own queue
    // to examine.
    Lawn: |_| Lawn::new(Tick::ZERO), Limits { expire: 10_000, ..Limits::NONE };
    BinaryHeap: |_| BinaryHeap::new(Tick::ZERO), Limits::NONE;
    BalancedTree: |_| BalancedTree::new(Tick::ZERO), Limits::NONE;
    // Limited, because setting a timer searches the list.
    OrderedList: |_| OrderedList::new(Tick::ZERO),
        Limits { change: 10_000, expire: 10_000, sessions: 100_000 };
    // Limited, because every tick examines all timers.
    UnorderedList: |_| UnorderedList::new(Tick::ZERO),
        Limits { change: u32::MAX, expire: 10_000, sessions: 100_000 };
}

#[derive(Debug)]
pub struct SchemeStructure<Q>(Q);

impl<Q: BenchScheme<u64>> Structure for SchemeStructure<Q> {
    const NAME: &'static str = Q::NAME;
    const LIMITS: Limits = Q::LIMITS;

    type Key = TimerKey;

    fn new(reach: u64) -> Self {
        SchemeStructure(Q::with_reach(reach))
    }

    fn schedule(&mut self, deadline: u64, value: u64) -> TimerKey {
        let Ok(key) = self.0.schedule(Tick(deadline), value) else { beyond(deadline) };
        key
    }

    fn reschedule(&mut self, key: TimerKey, deadline: u64) -> bool {
        let Ok(known) = self.0.reschedule(key, Tick(deadline)) else { beyond(deadline) };
        known
    }

    fn cancel(&mut self, key: TimerKey) -> bool {
        self.0.cancel(key).is_some()
    }

    fn expire_next(&mut self, tick: u64) -> Option<ExpiredTimer> {
        match self.0.expire_next(Tick(tick), &mut WorkBudget::unlimited()) {
            Expiry::Due(expired) => Some(ExpiredTimer { tick: expired.deadline.0, value: expired.value }),
            Expiry::UpToDate => None,
            Expiry::OutOfBudget => unreachable!("unlimited work does not run out"),
        }
    }

    fn precision(&self, ahead: u64) -> u64 {
        self.0.precision(ahead)
    }
}

#[cold]
fn beyond(deadline: u64) -> ! {
    panic!("the scheme was set up to reach tick {deadline}")
}
