//! Reusable timers: owners, and `Reusable` on top of every scheme.

use std::ops::RangeInclusive;

use encke_wheel::schemes::Reusable;
use encke_wheel::{Expiry, OwnerExpiry, Owners, ReusableTimers, Tick, TimerKey, WorkBudget};

use super::{BenchScheme, ExpiredTimer, Limits, SchemeVisitor, schemes};

/// Reusable timers that carry a number. Time starts at tick 0.
pub trait ReusableStructure: Sized {
    /// Name of the structure. For [`Reusable`], this is the name of the scheme.
    const NAME: &'static str;
    const LIMITS: Limits = Limits::NONE;

    /// Number of timers that share a value.
    const TIMERS_EACH: u32 = 1;

    type Key: Copy;

    /// Creates an empty structure at tick 0. No deadline will be more than `reach` ticks ahead.
    fn new(reach: u64) -> Self;

    /// Registers and arms timer `number`. Numbers are consecutive.
    fn register(&mut self, deadline: u64, number: u64) -> Self::Key;

    fn arm(&mut self, key: Self::Key, deadline: u64) -> bool;

    fn arm_within(&mut self, key: Self::Key, range: RangeInclusive<Tick>) -> bool;

    fn disarm(&mut self, key: Self::Key) -> bool;

    fn expire_next(&mut self, tick: u64) -> Option<ExpiredTimer>;

    fn unregister(&mut self, key: Self::Key) -> bool;

    /// Returns how many ticks late a timer may expire if it is armed `ahead` ticks ahead.
    fn precision(&self, _ahead: u64) -> u64 {
        0
    }
}

pub trait ReusableVisitor {
    fn visit<S: ReusableStructure>(&mut self);
}

pub fn reusable_structures(visitor: &mut impl ReusableVisitor) {
    struct Schemes<'a, V>(&'a mut V);
    impl<V: ReusableVisitor> SchemeVisitor<u32> for Schemes<'_, V> {
        fn visit<Q: BenchScheme<u32>>(&mut self) {
            self.0.visit::<TraitStructure<Reusable<u64, Q>>>();
        }
    }
    visitor.visit::<TraitStructure<Owners<u64>>>();
    visitor.visit::<OwnersOfFour>();
    schemes(&mut Schemes(visitor));
}

/// Reusable timers with a name, limits and a uniform constructor.
pub trait NamedTimers: ReusableTimers<u64> {
    const NAME: &'static str;
    const LIMITS: Limits;

    fn with_reach(reach: u64) -> Self;
}

impl NamedTimers for Owners<u64> {
    const NAME: &'static str = "Owners";
    const LIMITS: Limits = Limits::NONE;

    fn with_reach(_reach: u64) -> Self {
        Owners::new(Tick::ZERO)
    }
}

impl<Q: BenchScheme<u32>> NamedTimers for Reusable<u64, Q> {
    const NAME: &'static str = Q::NAME;
    const LIMITS: Limits = Q::LIMITS;

    fn with_reach(reach: u64) -> Self {
        Reusable::new(Q::with_reach(reach))
    }
}

/// Adapter for implementations of [`ReusableTimers`].
pub(crate) struct TraitStructure<S>(S);

impl<S: NamedTimers> ReusableStructure for TraitStructure<S> {
    const NAME: &'static str = S::NAME;
    const LIMITS: Limits = S::LIMITS;

    type Key = TimerKey;

    fn new(reach: u64) -> Self {
        TraitStructure(S::with_reach(reach))
    }

    fn register(&mut self, deadline: u64, number: u64) -> TimerKey {
        let key = self.0.register(number);
        self.arm(key, deadline);
        key
    }

    fn arm(&mut self, key: TimerKey, deadline: u64) -> bool {
        self.0.arm(key, Tick(deadline)).expect("within the requested horizon")
    }

    fn arm_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> bool {
        self.0.arm_within(key, range).expect("within the requested horizon")
    }

    fn disarm(&mut self, key: TimerKey) -> bool {
        self.0.disarm(key)
    }

    fn expire_next(&mut self, tick: u64) -> Option<ExpiredTimer> {
        match self.0.expire_next(Tick(tick), &mut WorkBudget::unlimited()) {
            Expiry::Due(expired) => Some(ExpiredTimer { tick: expired.deadline.0, value: *expired.value }),
            Expiry::UpToDate => None,
            Expiry::OutOfBudget => unreachable!("unlimited work does not run out"),
        }
    }

    fn unregister(&mut self, key: TimerKey) -> bool {
        self.0.unregister(key).is_some()
    }

    fn precision(&self, ahead: u64) -> u64 {
        self.0.precision(ahead)
    }
}

const TIMERS_PER_OWNER: usize = 4;

pub(crate) struct OwnersOfFour {
    owners: Owners<u64, TIMERS_PER_OWNER>,
    last: Option<TimerKey>,
}

impl ReusableStructure for OwnersOfFour {
    const NAME: &'static str = "Owners (4 timers)";
    const TIMERS_EACH: u32 = 4;

    type Key = (TimerKey, usize);

    fn new(_reach: u64) -> Self {
        OwnersOfFour { owners: Owners::new(Tick::ZERO), last: None }
    }

    fn register(&mut self, deadline: u64, number: u64) -> Self::Key {
        let timer =
            usize::try_from(number).expect("a benchmark's numbers fit into memory") % TIMERS_PER_OWNER;
        let owner = match self.last.filter(|_| timer > 0) {
            Some(owner) => owner,
            None => *self.last.insert(self.owners.insert(number)),
        };
        self.arm((owner, timer), deadline);
        (owner, timer)
    }

    fn arm(&mut self, (owner, timer): Self::Key, deadline: u64) -> bool {
        self.owners.get_mut(owner).map(|mut owner| owner.arm(timer, Tick(deadline))).is_some()
    }

    fn arm_within(&mut self, (owner, timer): Self::Key, range: RangeInclusive<Tick>) -> bool {
        self.owners.get_mut(owner).map(|mut owner| owner.arm_within(timer, range)).is_some()
    }

    fn disarm(&mut self, (owner, timer): Self::Key) -> bool {
        self.owners.get_mut(owner).is_some_and(|mut owner| owner.disarm(timer))
    }

    fn expire_next(&mut self, tick: u64) -> Option<ExpiredTimer> {
        match self.owners.expire_next(Tick(tick), &mut WorkBudget::unlimited()) {
            OwnerExpiry::Due(due) => {
                Some(ExpiredTimer { tick: due.deadline.0, value: due.owner.value() + due.timer as u64 })
            }
            OwnerExpiry::UpToDate => None,
            OwnerExpiry::OutOfBudget => unreachable!("unlimited work does not run out"),
        }
    }

    /// Removes the owner when its first timer is unregistered.
    fn unregister(&mut self, (owner, timer): Self::Key) -> bool {
        timer > 0 || self.owners.remove(owner).is_some()
    }
}
