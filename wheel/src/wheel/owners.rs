use core::fmt;

use super::memory::Interleaved;
use super::owner::{OwnerExpiry, OwnerMut};
use super::slot_id::LEVELS;
use super::wheel_core::WheelCore;
use crate::{SlotRing, Tick, TimerKey, WorkBudget};

/// A collection of owners, each with a value, `K` timers and one key.
///
/// An owner is a session, a connection or a request: an object that lives for a while and has a handful of
/// timers that are armed, postponed and disarmed all the time. The owner stays in the wheel for its whole
/// life, together with its timers. Arming a timer is almost free, and when a timer expires, the wheel passes
/// the owner to the caller, who need not look it up elsewhere.
///
/// ```
/// use encke_wheel::{OwnerExpiry, Owners, Tick, WorkBudget};
///
/// const PING: usize = 0;
/// const EXPIRY: usize = 1;
///
/// let mut sessions: Owners<&str, 2> = Owners::new(Tick(0));
/// let key = sessions.insert("comet");
/// let mut session = sessions.get_mut(key).expect("just inserted");
/// session.arm(PING, Tick(25));
/// session.arm(EXPIRY, Tick(600));
///
/// let mut work = WorkBudget::unlimited();
/// let OwnerExpiry::Due(mut due) = sessions.expire_next(Tick(25), &mut work) else { panic!("not due") };
/// assert_eq!((due.timer, *due.owner.value()), (PING, "comet"));
/// due.owner.arm(PING, Tick(50));
///
/// assert!(matches!(sessions.expire_next(Tick(49), &mut work), OwnerExpiry::UpToDate));
/// assert_eq!(sessions.remove(key), Some("comet"));
/// assert!(sessions.get_mut(key).is_none(), "the key is stale");
/// ```
///
/// An owner with one timer, `Owners<T>`, acts as a single reusable timer: it is registered once and armed as
/// often as needed.
///
/// The guarantees of [`TimingWheel`](crate::TimingWheel) about deadlines, order, budgets and wake-ups apply
/// to owners as well.
///
/// An owner takes 12 bytes per timer plus 4, rounded up to a multiple of 8, plus its value. An armed timer
/// takes 4 to 5 bytes more, and the slots of a wheel take 136 KiB. Owners are stored in pages of 256: the
/// lowest page with free space is filled first, and empty pages are freed except for a few spares. The
/// capacity is 2^30 timers, where `K` counts as the next power of two.
pub struct Owners<T, const K: usize = 1> {
    pub(super) wheel: WheelCore<T, K, Interleaved>,
}

impl<T, const K: usize> Owners<T, K> {
    /// Creates an empty wheel at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        Owners { wheel: WheelCore::new(now) }
    }

    /// Returns the current tick of the wheel: the latest tick it was driven to, or the tick at which it
    /// stopped because the [`WorkBudget`] ran out.
    #[must_use]
    #[inline(always)]
    pub fn now(&self) -> Tick {
        self.wheel.slots.now
    }

    /// Returns the number of owners, whether or not their timers are armed.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Returns `true` if there are no owners.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of timers on each level, starting with the lowest. Includes entries left behind by
    /// disarmed timers, moved timers and removed owners until a sweep removes them. Visits all occupied
    /// slots.
    #[must_use]
    pub fn occupancy(&self) -> [usize; LEVELS] {
        core::array::from_fn(|level| self.wheel.slots.len(level))
    }

    /// Describes a level as a ring of slots with the contents of each slot: see
    /// [`TimerQueue::ring`](crate::TimerQueue::ring).
    pub fn ring(&self, level: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.wheel.slots.ring(level, counts)
    }

    pub(super) fn occupancy_of(&self, level: usize) -> usize {
        self.wheel.slots.len(level)
    }

    /// Inserts an owner. None of its timers is armed.
    ///
    /// # Panics
    ///
    /// Panics if there are already 2^30 timers.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> TimerKey {
        self.wheel.insert(value).key()
    }

    /// Removes an owner with all its timers and returns its value, or `None` if the key is stale.
    #[inline(always)]
    pub fn remove(&mut self, key: TimerKey) -> Option<T> {
        self.wheel.remove(key)
    }

    /// Returns a reference to an owner's value, or `None` if the key is stale.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.wheel.get(key)
    }

    /// Returns an owner, for arming its timers, or `None` if the key is stale.
    #[must_use]
    #[inline(always)]
    pub fn get_mut(&mut self, key: TimerKey) -> Option<OwnerMut<'_, T, K>> {
        self.wheel.get_mut(key)
    }

    /// Returns the deadline with which a timer was armed, even if the deadline had already passed then, or
    /// `None` if the timer is not armed or the key is stale.
    ///
    /// # Panics
    ///
    /// Panics if `timer` is not below `K`.
    #[must_use]
    #[inline(always)]
    pub fn deadline(&self, key: TimerKey, timer: usize) -> Option<Tick> {
        self.wheel.deadline(key, timer)
    }

    /// Drives the wheel towards `now`. Returns the first timer that expires on the way together with its
    /// owner, or why the drive ended without one.
    ///
    /// Called until it returns [`OwnerExpiry::UpToDate`], it returns every timer with a deadline up to `now`,
    /// and all timers of one tick before any of the next. Within a tick the order is unspecified. The expired
    /// timer is no longer armed. The wheel may be changed freely between calls. Time does not go backwards: a
    /// `now` before the current tick is treated as [`now()`](Self::now).
    ///
    /// There is no counterpart to [`TimingWheel::expire_batch`](crate::TimingWheel::expire_batch): no owner
    /// is removed, callers arm the owners' timers between calls, and this method is inlined into the caller's
    /// loop.
    #[inline(always)]
    pub fn expire_next(&mut self, now: Tick, work: &mut WorkBudget) -> OwnerExpiry<'_, T, K> {
        self.wheel.drive(now, work)
    }

    /// Returns the next tick at which [`expire_next`](Self::expire_next) has work to do, if that is no later
    /// than `at_most`.
    ///
    /// The work may consist of moving timers down a level, so the tick may be earlier than the earliest
    /// deadline, but never later. While due timers remain because the [`WorkBudget`] ran out, the result is
    /// the current tick. `None` means that nothing happens up to and including `at_most`, so the caller can
    /// sleep until then. The previous deadline of a disarmed or postponed timer may be returned until the
    /// wheel reaches it.
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
