//! Timer schemes in a build with the feature `schemes`.

use encke_wheel::schemes::{
    BalancedTree, BinaryHeap, CalendarQueue, HashedSortedWheel, HashedUnsortedWheel, HierarchicalWheel, Lawn,
    LogicSimulationWheel, NonCascadingWheel, OneMigrationWheel, OrderedList, Reusable, SimpleWheel,
    UnorderedList,
};
use encke_wheel::{Owners, Tick};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumCount, VariantArray};

use super::TimersVisitor;

/// Number of slots of single-level wheels. With a tick of 10 ms, one revolution takes 164 s, longer than all
/// default session timeouts (25 s, 10 s, 120 s). Therefore, a wheel limited to one revolution rejects none of
/// them, and a hashed wheel never visits such a timer before it is due. Only lifetimes, idle timeouts, and
/// the ages of logs are longer. A wheel takes 66 KiB. With as many sessions as one process serves, it has a
/// few timers per slot.
const SLOTS: usize = 1 << 14;

/// Timer scheme of the wheel thread (`timers.scheme`), displayed by its name in the configuration.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, Deserialize, EnumCount, Serialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum TimerScheme {
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

impl TimerScheme {
    /// Creates timers that start at tick `now`, and passes them to `user`.
    pub(crate) fn timers<T: Send + 'static, U: TimersVisitor<T>>(self, now: Tick, user: U) -> U::Output {
        match self {
            Self::Hierarchical => user.visit(Owners::new(now)),
            Self::HierarchicalLists => user.visit(Reusable::new(HierarchicalWheel::new(now))),
            Self::OneMigration => user.visit(Reusable::new(OneMigrationWheel::new(now))),
            Self::Coarse => user.visit(Reusable::new(NonCascadingWheel::new(now))),
            Self::Simple => user.visit(Reusable::new(SimpleWheel::new(now, SLOTS))),
            Self::HashedSorted => user.visit(Reusable::new(HashedSortedWheel::new(now, SLOTS))),
            Self::HashedUnsorted => user.visit(Reusable::new(HashedUnsortedWheel::new(now, SLOTS))),
            Self::LogicSimulation => user.visit(Reusable::new(LogicSimulationWheel::new(now, SLOTS))),
            Self::CalendarQueue => user.visit(Reusable::new(CalendarQueue::new(now))),
            Self::BinaryHeap => user.visit(Reusable::new(BinaryHeap::new(now))),
            Self::BalancedTree => user.visit(Reusable::new(BalancedTree::new(now))),
            Self::OrderedList => user.visit(Reusable::new(OrderedList::new(now))),
            Self::UnorderedList => user.visit(Reusable::new(UnorderedList::new(now))),
            Self::Lawn => user.visit(Reusable::new(Lawn::new(now))),
        }
    }
}
