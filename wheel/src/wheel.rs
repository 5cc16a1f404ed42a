//! The wheel itself.

use alloc::boxed::Box;
use core::fmt;
use core::ops::RangeInclusive;

use crate::arena::Arena;
use crate::level::Level;
use crate::place::{LEVELS, Place};
use crate::{BeyondHorizon, Expire, Expired, Tick, TimerKey, TimerQueue, Work, range};

/// Timers that each carry a `T`, ordered by deadline. The [crate documentation](crate) tells how to use it.
///
/// The wheel holds at most `u32::MAX` timers at a time and panics when asked for one more. It keeps the
/// memory of the largest number of timers it ever held: 24 bytes a timer, and an `Option<T>`.
pub struct TimingWheel<T> {
    /// The tick the wheel stands at. Everything due earlier has come out; what is due now is coming out.
    pub(crate) now: Tick,
    pub(crate) levels: Box<[Level; LEVELS]>,
    pub(crate) arena: Arena<T>,
}

impl<T> TimingWheel<T> {
    /// An empty wheel that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        TimingWheel { now, levels: Box::new([Level::EMPTY; LEVELS]), arena: Arena::new() }
    }

    /// The tick the wheel stands at: the latest it was driven to or, when [`Work`] ran out on the way there,
    /// the one at which it stopped.
    #[must_use]
    pub fn now(&self) -> Tick {
        self.now
    }

    /// How many timers are scheduled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arena.len
    }

    /// Whether no timer is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many timers each level holds, the nearest level first.
    #[must_use]
    pub fn occupancy(&self) -> [usize; LEVELS] {
        core::array::from_fn(|level| self.levels[level].len)
    }

    /// Schedules a timer that is due at `deadline`, in constant time.
    ///
    /// A deadline that is not ahead of [`now`](Self::now) is due at the next tick. At [`Tick::MAX`] there is
    /// no next tick: what is scheduled then never expires, and stays until it is cancelled.
    ///
    /// # Panics
    ///
    /// If the wheel holds `u32::MAX` timers already.
    pub fn schedule(&mut self, deadline: Tick, value: T) -> TimerKey {
        let key = self.arena.insert(deadline, value);
        self.link(key.index);
        key
    }

    /// Schedules a timer that may come out at any tick in `range`, so that the wheel can choose the cheapest.
    ///
    /// That is the first tick of a slot, of the highest level that has one in the range; of several the
    /// latest. If the range lies between two multiples of 256, it is the tick divisible by the highest power
    /// of two. Either way timers with overlapping ranges tend to come out together.
    ///
    /// Of a range that is over, the end is the deadline. Of an empty range it is the start.
    ///
    /// # Panics
    ///
    /// If the wheel holds `u32::MAX` timers already.
    pub fn schedule_within(&mut self, range: RangeInclusive<Tick>, value: T) -> TimerKey {
        self.schedule(range::choose(self.now, &range), value)
    }

    /// Gives a timer another deadline, in constant time. Returns `false` if the key is stale.
    ///
    /// A timer that is due but has not come out yet is postponed like any other.
    pub fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> bool {
        let Some(index) = self.arena.find(key) else { return false };
        self.unlink(index);
        self.arena.nodes[index as usize].deadline = deadline;
        self.link(index);
        true
    }

    /// Like [`reschedule`](Self::reschedule) with a deadline chosen as in
    /// [`schedule_within`](Self::schedule_within), but does nothing if the present deadline lies in `range`.
    /// Returns `false` if the key is stale.
    pub fn reschedule_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> bool {
        match self.deadline(key) {
            Some(deadline) if range.contains(&deadline) => true,
            _ => self.reschedule(key, range::choose(self.now, &range)),
        }
    }

    /// Takes a timer out before it expires, in constant time. Returns `None` if the key is stale.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let index = self.arena.find(key)?;
        self.unlink(index);
        Some(self.arena.remove(index))
    }

    /// The deadline that a timer was scheduled for, even if it lies in the past.
    #[must_use]
    pub fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.arena.find(key).map(|index| self.arena.nodes[index as usize].deadline)
    }

    /// The value of a timer.
    #[must_use]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.arena.values[self.arena.find(key)? as usize].as_ref()
    }

    /// Drives the wheel towards `now` and returns the first timer that comes out on the way, or why none
    /// does.
    ///
    /// Called until it says [`Expire::UpToDate`], it returns every timer with a deadline up to `now`, all of
    /// one tick before any of the next; within a tick the order is arbitrary. Between the calls the wheel may
    /// be changed at will. A `now` before that of an earlier call counts as [`now()`](Self::now): time does
    /// not go backwards.
    ///
    /// Stretches without timers are skipped, not stepped through, however long.
    pub fn expire_next(&mut self, now: Tick, work: &mut Work) -> Expire<T> {
        let now = now.max(self.now);
        while let Some((tick, place)) = self.next_event().filter(|&(tick, _)| tick <= now) {
            if !work.spend() {
                return Expire::OutOfWork;
            }
            self.now = tick;
            let index = self.levels[usize::from(place.level)].first[usize::from(place.slot)];
            let deadline = self.arena.nodes[index as usize].deadline;
            self.unlink(index);
            if deadline <= tick {
                let key = self.arena.key(index);
                return Expire::Due(Expired { key, deadline, value: self.arena.remove(index) });
            }
            self.link(index);
        }
        self.now = now;
        Expire::UpToDate
    }

    /// The next tick at which [`expire_next`](Self::expire_next) has something to do, if that is no later
    /// than `at_most`.
    ///
    /// What it has to do may be moving timers down a level, so this may be earlier than the earliest
    /// deadline, but never later. While due timers are still waiting (because [`Work`] ran out), it is the
    /// tick the wheel stands at. `None` means that nothing happens up to and including `at_most`, so one can
    /// sleep until then.
    #[must_use]
    pub fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        let at_most = at_most.max(self.now);
        self.next_event().map(|(tick, _)| tick).filter(|&tick| tick <= at_most)
    }

    /// The first slot with timers that the wheel comes to, and when. It is the slot where the wheel stands
    /// until that is empty.
    fn next_event(&self) -> Option<(Tick, Place)> {
        let mut earliest: Option<(Tick, Place)> = None;
        for (number, level) in (0..).zip(self.levels.iter()) {
            if level.len == 0 {
                continue;
            }
            let current = Place::current(self.now, number);
            let Some(slot) = level.next_occupied(current.slot) else { continue };
            let place = Place { slot, ..current };
            let Some(tick) = place.start(self.now) else { continue };
            if earliest.is_none_or(|(earliest, _)| tick < earliest) {
                earliest = Some((tick, place));
            }
            if tick == self.now {
                break;
            }
        }
        earliest
    }

    fn link(&mut self, index: u32) {
        let place = Place::of(self.now, self.arena.nodes[index as usize].deadline);
        self.levels[usize::from(place.level)].link(&mut self.arena.nodes, index, place);
    }

    fn unlink(&mut self, index: u32) {
        let place = self.arena.nodes[index as usize].place.expect("a node in use is in a slot");
        self.levels[usize::from(place.level)].unlink(&mut self.arena.nodes, index, place.slot);
    }
}

/// A wheel without a horizon refuses nothing.
impl<T> TimerQueue<T> for TimingWheel<T> {
    fn now(&self) -> Tick {
        self.now()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn schedule(&mut self, deadline: Tick, value: T) -> Result<TimerKey, BeyondHorizon<T>> {
        Ok(self.schedule(deadline, value))
    }

    fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>> {
        Ok(self.reschedule(key, deadline))
    }

    fn cancel(&mut self, key: TimerKey) -> Option<T> {
        self.cancel(key)
    }

    fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.deadline(key)
    }

    fn get(&self, key: TimerKey) -> Option<&T> {
        self.get(key)
    }

    fn expire_next(&mut self, now: Tick, work: &mut Work) -> Expire<T> {
        self.expire_next(now, work)
    }

    fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.next_wakeup(at_most)
    }

    fn levels(&self) -> usize {
        LEVELS
    }

    fn occupancy(&self, level: usize) -> usize {
        self.levels[level].len
    }
}

impl<T> fmt::Debug for TimingWheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimingWheel")
            .field("now", &self.now)
            .field("len", &self.len())
            .field("occupancy", &self.occupancy())
            .finish_non_exhaustive()
    }
}
