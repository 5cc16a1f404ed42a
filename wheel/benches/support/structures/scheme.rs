//! The schemes of this crate.

use encke_wheel::schemes::{
    BalancedTree, BinaryHeap, CalendarQueue, HashedSortedWheel, HashedUnsortedWheel, HierarchicalWheel, Lawn,
    LogicSimulationWheel, NonCascadingWheel, OneMigrationWheel, OrderedList, SimpleWheel, UnorderedList,
};
use encke_wheel::{Expire, Tick, TimerKey, TimerQueue, TimingWheel, Work};

use super::{Due, Limits, Structure};

/// A scheme, and how it is set up.
pub(crate) trait Scheme<T>: TimerQueue<T> {
    const NAME: &'static str;
    const LIMITS: Limits;

    /// Empty, at tick 0, for deadlines up to `reach` ahead.
    fn with_reach(reach: u64) -> Self;
}

/// Does something with the type of each scheme.
pub(crate) trait SchemeVisitor<T> {
    fn visit<Q: Scheme<T>>(&mut self);
}

/// How many slots a wheel has that goes around many times.
pub(crate) const SLOTS: usize = 4_096;

/// How many slots a wheel needs that cannot go around.
fn slots_for(reach: u64) -> usize {
    let slots = (reach + 1).next_power_of_two();
    usize::try_from(slots).expect("a benchmark's ticks fit into memory")
}

/// Names each scheme once: its type, how it is set up, and its limits.
macro_rules! all_schemes {
    ($($scheme:ident: $new:expr, $limits:expr;)*) => {
        $(impl<T> Scheme<T> for $scheme<T> {
            const NAME: &'static str = stringify!($scheme);
            const LIMITS: Limits = $limits;

            fn with_reach(reach: u64) -> Self {
                let new: fn(u64) -> Self = $new;
                new(reach)
            }
        })*

        /// All schemes, ours first.
        pub(crate) fn schemes<T>(visitor: &mut impl SchemeVisitor<T>) {
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
    // Every turn looks at all timers.
    HashedUnsortedWheel: |_| HashedUnsortedWheel::new(Tick::ZERO, SLOTS), Limits::NONE;
    // Setting one searches a slot.
    HashedSortedWheel: |_| HashedSortedWheel::new(Tick::ZERO, SLOTS),
        Limits { change: 1_000_000, expire: 1_000_000, sessions: 1_000_000 };
    LogicSimulationWheel: |_| LogicSimulationWheel::new(Tick::ZERO, SLOTS), Limits::NONE;
    CalendarQueue: |_| CalendarQueue::new(Tick::ZERO), Limits::NONE;
    // As many lengths of time as there are random deadlines, and each has a queue to look at.
    Lawn: |_| Lawn::new(Tick::ZERO), Limits { expire: 10_000, ..Limits::NONE };
    BinaryHeap: |_| BinaryHeap::new(Tick::ZERO), Limits::NONE;
    BalancedTree: |_| BalancedTree::new(Tick::ZERO), Limits::NONE;
    // Setting one searches the list.
    OrderedList: |_| OrderedList::new(Tick::ZERO),
        Limits { change: 10_000, expire: 10_000, sessions: 100_000 };
    // Every tick looks at all timers.
    UnorderedList: |_| UnorderedList::new(Tick::ZERO),
        Limits { change: u32::MAX, expire: 10_000, sessions: 100_000 };
}

/// A scheme as one of all structures.
#[derive(Debug)]
pub(crate) struct Own<Q>(Q);

impl<Q: Scheme<u64>> Structure for Own<Q> {
    const NAME: &'static str = Q::NAME;
    const LIMITS: Limits = Q::LIMITS;

    type Key = TimerKey;

    fn new(reach: u64) -> Self {
        Own(Q::with_reach(reach))
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

    fn expire_next(&mut self, tick: u64) -> Option<Due> {
        match self.0.expire_next(Tick(tick), &mut Work::unlimited()) {
            Expire::Due(expired) => Some(Due { tick: expired.deadline.0, value: expired.value }),
            Expire::UpToDate => None,
            Expire::OutOfWork => unreachable!("unlimited work does not run out"),
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
