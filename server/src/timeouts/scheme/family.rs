//! The schemes of a build with the feature `schemes`.

use encke_wheel::schemes::{
    BalancedTree, BinaryHeap, CalendarQueue, HashedSortedWheel, HashedUnsortedWheel, HierarchicalWheel, Lawn,
    LogicSimulationWheel, NonCascadingWheel, OneMigrationWheel, OrderedList, SimpleWheel, Standing,
    UnorderedList,
};
use encke_wheel::{Owners, Tick};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumCount, VariantArray};

use super::UseTimers;

/// The slots of wheels that stand alone. At 10 ms a tick one turn is 164 s, longer than what every session waits for by
/// default (25 s, 10 s, 120 s): of those a wheel that reaches one turn refuses none, and one that hashes looks at none in
/// vain. Only a lifetime, idleness or the age of a log lies further ahead. It is 66 KiB, and has a few timers a slot for as
/// many sessions as a process serves.
const SLOTS: usize = 1 << 14;

/// How the wheel thread keeps its timers: `timers.scheme`. It is displayed by its name there.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, Deserialize, EnumCount, Serialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Scheme {
    /// [`Owners`]
    Hierarchical,
    /// [`HierarchicalWheel`]
    HierarchicalLists,
    /// [`OneMigrationWheel`]
    OneMigration,
    /// [`NonCascadingWheel`]
    Coarse,
    /// [`SimpleWheel`]
    Simple,
    /// [`HashedSortedWheel`]
    HashedSorted,
    /// [`HashedUnsortedWheel`]
    HashedUnsorted,
    /// [`LogicSimulationWheel`]
    LogicSimulation,
    /// [`CalendarQueue`]
    CalendarQueue,
    /// [`BinaryHeap`]
    BinaryHeap,
    /// [`BalancedTree`]
    BalancedTree,
    /// [`OrderedList`]
    OrderedList,
    /// [`UnorderedList`]
    UnorderedList,
    /// [`Lawn`]
    Lawn,
}

impl Scheme {
    /// Makes timers that stand at `now`.
    pub(in crate::timeouts) fn timers<T: Send + 'static, U: UseTimers<T>>(
        self,
        now: Tick,
        user: U,
    ) -> U::Output {
        match self {
            Self::Hierarchical => user.with(Owners::new(now)),
            Self::HierarchicalLists => user.with(Standing::new(HierarchicalWheel::new(now))),
            Self::OneMigration => user.with(Standing::new(OneMigrationWheel::new(now))),
            Self::Coarse => user.with(Standing::new(NonCascadingWheel::new(now))),
            Self::Simple => user.with(Standing::new(SimpleWheel::new(now, SLOTS))),
            Self::HashedSorted => user.with(Standing::new(HashedSortedWheel::new(now, SLOTS))),
            Self::HashedUnsorted => user.with(Standing::new(HashedUnsortedWheel::new(now, SLOTS))),
            Self::LogicSimulation => user.with(Standing::new(LogicSimulationWheel::new(now, SLOTS))),
            Self::CalendarQueue => user.with(Standing::new(CalendarQueue::new(now))),
            Self::BinaryHeap => user.with(Standing::new(BinaryHeap::new(now))),
            Self::BalancedTree => user.with(Standing::new(BalancedTree::new(now))),
            Self::OrderedList => user.with(Standing::new(OrderedList::new(now))),
            Self::UnorderedList => user.with(Standing::new(UnorderedList::new(now))),
            Self::Lawn => user.with(Standing::new(Lawn::new(now))),
        }
    }
}
