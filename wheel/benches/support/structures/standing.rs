//! Timers that stay: owners, and `Standing` by every scheme.

use std::ops::RangeInclusive;

use encke_wheel::schemes::Standing;
use encke_wheel::{Expire, Lent, Owners, StandingTimers, Tick, TimerKey, Work};

use super::{Due, Limits, Scheme, SchemeVisitor, schemes};

/// Timers that stay, and carry a number, from tick 0 on.
pub(crate) trait Stays: Sized {
    /// Of [`Standing`] that of the scheme.
    const NAME: &'static str;
    const LIMITS: Limits = Limits::NONE;

    /// How many timers share a value.
    const TIMERS_EACH: u32 = 1;

    type Key: Copy;

    /// None, at tick 0. No deadline will be further ahead than `reach`.
    fn new(reach: u64) -> Self;

    /// Registers the timer of this number, the next after that of the last call, and arms it.
    fn register(&mut self, deadline: u64, number: u64) -> Self::Key;

    fn arm(&mut self, key: Self::Key, deadline: u64) -> bool;

    fn arm_within(&mut self, key: Self::Key, range: RangeInclusive<Tick>) -> bool;

    fn disarm(&mut self, key: Self::Key) -> bool;

    /// Drives time towards `tick`: the first timer that expires on the way.
    fn expire_next(&mut self, tick: u64) -> Option<Due>;

    fn unregister(&mut self, key: Self::Key) -> bool;

    /// How many ticks late a timer that far ahead may expire.
    fn precision(&self, _ahead: u64) -> u64 {
        0
    }
}

/// Does something with the type of each.
pub(crate) trait StandingVisitor {
    fn visit<S: Stays>(&mut self);
}

/// All timers that stay, ours first.
pub(crate) fn standing(visitor: &mut impl StandingVisitor) {
    struct Schemes<'a, V>(&'a mut V);
    impl<V: StandingVisitor> SchemeVisitor<u32> for Schemes<'_, V> {
        fn visit<Q: Scheme<u32>>(&mut self) {
            self.0.visit::<By<Standing<u64, Q>>>();
        }
    }
    visitor.visit::<By<Owners<u64>>>();
    visitor.visit::<Fours>();
    schemes(&mut Schemes(visitor));
}

/// What is set up by its name.
pub(crate) trait Named: StandingTimers<u64> {
    const NAME: &'static str;
    const LIMITS: Limits;

    fn with_reach(reach: u64) -> Self;
}

impl Named for Owners<u64> {
    const NAME: &'static str = "Owners";
    const LIMITS: Limits = Limits::NONE;

    fn with_reach(_reach: u64) -> Self {
        Owners::new(Tick::ZERO)
    }
}

impl<Q: Scheme<u32>> Named for Standing<u64, Q> {
    const NAME: &'static str = Q::NAME;
    const LIMITS: Limits = Q::LIMITS;

    fn with_reach(reach: u64) -> Self {
        Standing::new(Q::with_reach(reach))
    }
}

/// By the trait for timers that stay.
pub(crate) struct By<S>(S);

impl<S: Named> Stays for By<S> {
    const NAME: &'static str = S::NAME;
    const LIMITS: Limits = S::LIMITS;

    type Key = TimerKey;

    fn new(reach: u64) -> Self {
        By(S::with_reach(reach))
    }

    fn register(&mut self, deadline: u64, number: u64) -> TimerKey {
        let key = self.0.register(number);
        self.arm(key, deadline);
        key
    }

    fn arm(&mut self, key: TimerKey, deadline: u64) -> bool {
        self.0.arm(key, Tick(deadline)).expect("the scheme was set up to reach it")
    }

    fn arm_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> bool {
        self.0.arm_within(key, range).expect("the scheme was set up to reach it")
    }

    fn disarm(&mut self, key: TimerKey) -> bool {
        self.0.disarm(key)
    }

    fn expire_next(&mut self, tick: u64) -> Option<Due> {
        match self.0.expire_next(Tick(tick), &mut Work::unlimited()) {
            Expire::Due(expired) => Some(Due { tick: expired.deadline.0, value: *expired.value }),
            Expire::UpToDate => None,
            Expire::OutOfWork => unreachable!("unlimited work does not run out"),
        }
    }

    fn unregister(&mut self, key: TimerKey) -> bool {
        self.0.unregister(key).is_some()
    }

    fn precision(&self, ahead: u64) -> u64 {
        self.0.precision(ahead)
    }
}

/// How many timers an owner has.
const FOUR: usize = 4;

/// Owners of four timers each.
pub(crate) struct Fours {
    owners: Owners<u64, FOUR>,
    last: Option<TimerKey>,
}

impl Stays for Fours {
    const NAME: &'static str = "Owners (4 timers)";
    const TIMERS_EACH: u32 = 4;

    type Key = (TimerKey, usize);

    fn new(_reach: u64) -> Self {
        Fours { owners: Owners::new(Tick::ZERO), last: None }
    }

    fn register(&mut self, deadline: u64, number: u64) -> Self::Key {
        let which = usize::try_from(number).expect("a benchmark's numbers fit into memory") % FOUR;
        let owner = match self.last.filter(|_| which > 0) {
            Some(owner) => owner,
            None => *self.last.insert(self.owners.insert(number)),
        };
        self.arm((owner, which), deadline);
        (owner, which)
    }

    fn arm(&mut self, (owner, which): Self::Key, deadline: u64) -> bool {
        self.owners.get_mut(owner).map(|mut owner| owner.arm(which, Tick(deadline))).is_some()
    }

    fn arm_within(&mut self, (owner, which): Self::Key, range: RangeInclusive<Tick>) -> bool {
        self.owners.get_mut(owner).map(|mut owner| owner.arm_within(which, range)).is_some()
    }

    fn disarm(&mut self, (owner, which): Self::Key) -> bool {
        self.owners.get_mut(owner).is_some_and(|mut owner| owner.disarm(which))
    }

    fn expire_next(&mut self, tick: u64) -> Option<Due> {
        match self.owners.expire_next(Tick(tick), &mut Work::unlimited()) {
            Lent::Due(due) => Some(Due { tick: due.deadline.0, value: due.owner.value() + due.which as u64 }),
            Lent::UpToDate => None,
            Lent::OutOfWork => unreachable!("unlimited work does not run out"),
        }
    }

    /// With its first timer, the owner goes.
    fn unregister(&mut self, (owner, which): Self::Key) -> bool {
        which > 0 || self.owners.remove(owner).is_some()
    }
}
