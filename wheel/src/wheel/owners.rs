//! The wheel of owners, each with a few timers.

use core::fmt;

use super::engine::Wheel;
use super::memory::Beside;
use super::owner::{Lent, OwnerMut};
use super::place::LEVELS;
use crate::{Ring, Tick, TimerKey, Work};

/// Owners that each have a value and `K` timers of their own, under one key.
///
/// This is what sessions, connections or requests are: things that live for a while, of which each has a handful of timers that are armed, put
/// off and disarmed all the time. The owner stays in the wheel for as long as it lives, and its timers with it: arming one costs
/// next to nothing, and when one fires, the wheel lends the owner to the caller, who need not look it up elsewhere.
///
/// ```
/// use encke_wheel::{Lent, Owners, Tick, Work};
///
/// const PING: usize = 0;
/// const EXPIRY: usize = 1;
///
/// let mut sessions: Owners<&str, 2> = Owners::new(Tick(0));
/// let key = sessions.insert("comet");
/// let mut session = sessions.get_mut(key).expect("it was just put in");
/// session.arm(PING, Tick(25));
/// session.arm(EXPIRY, Tick(600));
///
/// let mut work = Work::unlimited();
/// let Lent::Due(mut due) = sessions.expire_next(Tick(25), &mut work) else { panic!("it is due") };
/// assert_eq!((due.which, *due.owner.value()), (PING, "comet"));
/// due.owner.arm(PING, Tick(50));
///
/// assert!(matches!(sessions.expire_next(Tick(49), &mut work), Lent::UpToDate));
/// assert_eq!(sessions.remove(key), Some("comet"));
/// assert!(sessions.get_mut(key).is_none(), "the key is stale by now");
/// ```
///
/// An owner with one timer, `Owners<T>`, is a timer that stands: it is registered once, and armed as often as needed.
///
/// All that [`TimingWheel`](crate::TimingWheel) says of deadlines, order, budgets and wake-ups holds here. An owner takes 12 bytes a timer
/// and 4, rounded up to a multiple of 8, and its value, in pages of 256 owners, of which the lowest is filled first and empty ones are
/// given back, but for a few to spare; an armed timer takes 4 to 5 bytes more, and every wheel 136 KiB. There may be 2^30 timers, where
/// the number that each owner has counts as the next power of two.
pub struct Owners<T, const K: usize = 1> {
    pub(super) wheel: Wheel<T, K, Beside>,
}

impl<T, const K: usize> Owners<T, K> {
    /// An empty wheel that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        Owners { wheel: Wheel::new(now) }
    }

    /// The tick the wheel stands at: the latest it was driven to or, when [`Work`] ran out on the way there,
    /// the one at which it stopped.
    #[must_use]
    #[inline(always)]
    pub fn now(&self) -> Tick {
        self.wheel.slots.now
    }

    /// How many owners there are, with timers that are armed or without.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Whether there is no owner.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many timers each level holds, the nearest level first. Some that were disarmed or moved, or whose owner is gone, are counted
    /// still. Looks at all slots that hold something.
    #[must_use]
    pub fn occupancy(&self) -> [usize; LEVELS] {
        core::array::from_fn(|level| self.wheel.slots.len(level))
    }

    /// What a level looks like as a ring of slots, and what each of them holds: see [`TimerQueue::ring`](crate::TimerQueue::ring).
    pub fn ring(&self, level: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        self.wheel.slots.ring(level, held)
    }

    pub(super) fn occupancy_of(&self, level: usize) -> usize {
        self.wheel.slots.len(level)
    }

    /// Puts an owner in. None of its timers is armed.
    ///
    /// # Panics
    ///
    /// If there are 2^30 timers already.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> TimerKey {
        self.wheel.insert(value).key()
    }

    /// Takes an owner out, and all its timers. Returns `None` if the key is stale.
    #[inline(always)]
    pub fn remove(&mut self, key: TimerKey) -> Option<T> {
        self.wheel.remove(key)
    }

    /// An owner's value. `None` if the key is stale.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.wheel.get(key)
    }

    /// An owner, to arm its timers. `None` if the key is stale.
    #[must_use]
    #[inline(always)]
    pub fn get_mut(&mut self, key: TimerKey) -> Option<OwnerMut<'_, T, K>> {
        self.wheel.get_mut(key)
    }

    /// The deadline that an owner's timer was armed with, even if it lies in the past. `None` if it is not armed, or the key is stale.
    ///
    /// # Panics
    ///
    /// If `which` is not below `K`.
    #[must_use]
    #[inline(always)]
    pub fn deadline(&self, key: TimerKey, which: usize) -> Option<Tick> {
        self.wheel.deadline(key, which)
    }

    /// Drives the wheel towards `now`, and lends the owner of the first timer that is due on the way, or says why none is.
    ///
    /// Called until it says [`Lent::UpToDate`], it lends the owner of every timer with a deadline up to `now`, all of one tick before
    /// any of the next; within a tick the order is arbitrary. The timer is not armed any more. Between the calls the
    /// wheel may be changed at will. A `now` before that of an earlier call counts as [`now()`](Self::now): time does not go
    /// backwards.
    ///
    /// There is no call for many at a time, as [`TimingWheel::expire_batch`](crate::TimingWheel::expire_batch) is: nothing is taken out
    /// here, owners are armed while they are lent, and this is compiled into the caller's loop.
    #[inline(always)]
    pub fn expire_next(&mut self, now: Tick, work: &mut Work) -> Lent<'_, T, K> {
        self.wheel.drive(now, work)
    }

    /// The next tick at which [`expire_next`](Self::expire_next) has something to do, if that is no later than `at_most`.
    ///
    /// What it has to do may be moving timers down a level, so this may be earlier than the earliest
    /// deadline, but never later. While due timers are still waiting (because [`Work`] ran out), it is the
    /// tick the wheel stands at. `None` means that nothing happens up to and including `at_most`, so one can
    /// sleep until then. What was disarmed or put off may be named once more, as long as the wheel has not come to it.
    #[must_use]
    #[inline(always)]
    pub fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.wheel.next_wakeup(at_most)
    }
}

impl<T, const K: usize> fmt::Debug for Owners<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owners")
            .field("now", &self.now())
            .field("len", &self.len())
            .field("occupancy", &self.occupancy())
            .finish_non_exhaustive()
    }
}
