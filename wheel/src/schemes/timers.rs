//! The parts common to all schemes: the memory of the timers, their keys, late timers, and the end of time.
//!
//! ```text
//!    schedule, cancel, ...                              expire_next
//!         |                                                  |
//!         v            key: index, generation                v
//!    [ arena: nodes and values ] <--------------------> [ scheme: lists, slots, a heap or a tree of nodes ]
//!         |
//!         v
//!    [ late: index -> requested deadline, if it was not in the future ]
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section II: the four routines of a timer module |
//! | costs | the scheme's costs; O(log l) for a late timer, with l timers that were late when scheduled |
//! | memory | the arena's and the scheme's memory; a tree entry per late timer |
//! | limits | the limits of the arena and of the scheme |

use alloc::collections::BTreeMap;
use core::fmt;
use core::ops::RangeInclusive;

use super::arena::{Arena, Node};
use crate::{BeyondHorizon, Expired, Expiry, SlotRing, Tick, TimerKey, WorkBudget, range};

/// Data structure that finds the timers that are due. It has access to the timers' nodes, but not to their
/// values or keys.
///
/// When a node is linked, its `due` tick is later than `now` and at most [`Tick::MAX`].
pub(super) trait TimerScheme {
    type Link: Default;

    fn horizon(&self, _now: Tick) -> Option<u64> {
        None
    }

    fn precision(&self, _ahead: u64) -> u64 {
        0
    }

    fn choose(&self, now: Tick, range: &RangeInclusive<Tick>) -> Tick {
        range::choose(now, range)
    }

    /// START_TIMER: adds a node.
    fn link(&mut self, nodes: &mut [Node<Self::Link>], now: Tick, index: u32);

    /// STOP_TIMER: removes a node.
    fn unlink(&mut self, nodes: &mut [Node<Self::Link>], now: Tick, index: u32);

    /// Performs PER_TICK_BOOKKEEPING for every tick up to `until`, or up to the first timer that expires.
    /// Advances `now`; but when the result is [`AdvanceStep::UpToDate`], the caller advances it to `until`.
    fn advance(
        &mut self,
        nodes: &mut [Node<Self::Link>],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep;

    fn next_wakeup(&self, nodes: &[Node<Self::Link>], now: Tick) -> Option<Tick>;

    fn levels(&self) -> usize {
        1
    }

    /// Returns the number of timers in a part of the structure, if it has more than one part.
    fn occupancy(&self, _level: usize) -> Option<usize> {
        None
    }

    fn ring(&self, _now: Tick, _ring: usize, _counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        None
    }

    /// Panics unless all invariants hold. Returns all linked nodes.
    #[cfg(test)]
    fn check(&self, nodes: &[Node<Self::Link>], now: Tick) -> alloc::vec::Vec<u32>;
}

/// Chooses a tick in `range` for a scheme whose timers expire at the beginnings of slots: `latest`, the last
/// beginning of a slot in the range, or the first tick of the range that is in the future.
pub(super) fn latest_or_first(now: Tick, range: &RangeInclusive<Tick>, latest: Tick) -> Tick {
    let first = now.saturating_add(1).max(*range.start());
    // For a range that is past or empty, the choice is the same in all schemes.
    if *range.end() < first { range::choose(now, range) } else { latest.max(first) }
}

pub(super) enum AdvanceStep {
    /// The timer of this node, which has been unlinked, expires now.
    Due(u32),
    OutOfBudget,
    UpToDate,
}

pub(super) struct SchemeTimers<S: TimerScheme, T> {
    pub(super) now: Tick,
    pub(super) scheme: S,
    pub(super) arena: Arena<S::Link, T>,
    /// Timers whose requested deadline was not in the future, keyed by the index of their node.
    pub(super) late: BTreeMap<u32, LateTimer>,
}

/// A timer that is due later than requested.
#[derive(Debug)]
pub(super) struct LateTimer {
    pub(super) deadline: Tick,
    /// Whether the timer was scheduled at the last tick. Such a timer can never expire, and is not linked
    /// into the scheme.
    pub(super) never_due: bool,
}

impl<S: TimerScheme, T> SchemeTimers<S, T> {
    pub(super) fn new(now: Tick, scheme: S) -> Self {
        SchemeTimers { now, scheme, arena: Arena::new(), late: BTreeMap::new() }
    }

    pub(super) fn schedule(&mut self, deadline: Tick, value: T) -> Result<TimerKey, BeyondHorizon<T>> {
        if let Some(last) = self.horizon_if_beyond(deadline) {
            return Err(BeyondHorizon { value, last });
        }
        let key = self.arena.insert(value);
        self.start(key.index, deadline);
        Ok(key)
    }

    pub(super) fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>> {
        let Some(index) = self.arena.find(key) else { return Ok(false) };
        if let Some(last) = self.horizon_if_beyond(deadline) {
            return Err(BeyondHorizon { value: (), last });
        }
        self.stop(index);
        self.start(index, deadline);
        Ok(true)
    }

    pub(super) fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let index = self.arena.find(key)?;
        self.stop(index);
        Some(self.arena.remove(index))
    }

    pub(super) fn deadline(&self, key: TimerKey) -> Option<Tick> {
        let index = self.arena.find(key)?;
        let late = if self.late.is_empty() { None } else { self.late.get(&index) };
        Some(late.map_or(self.arena.nodes[index as usize].due, |late| late.deadline))
    }

    pub(super) fn get(&self, key: TimerKey) -> Option<&T> {
        self.arena.values[self.arena.find(key)? as usize].as_ref()
    }

    pub(super) fn expire_next(&mut self, now: Tick, work: &mut WorkBudget) -> Expiry<T> {
        let until = now.max(self.now);
        match self.scheme.advance(&mut self.arena.nodes, &mut self.now, until, work) {
            AdvanceStep::Due(index) => {
                let late = if self.late.is_empty() { None } else { self.late.remove(&index) };
                let deadline = late.map_or(self.arena.nodes[index as usize].due, |late| late.deadline);
                let key = self.arena.key(index);
                Expiry::Due(Expired { key, deadline, value: self.arena.remove(index) })
            }
            AdvanceStep::OutOfBudget => Expiry::OutOfBudget,
            AdvanceStep::UpToDate => {
                self.now = until;
                Expiry::UpToDate
            }
        }
    }

    pub(super) fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        let at_most = at_most.max(self.now);
        self.scheme.next_wakeup(&self.arena.nodes, self.now).filter(|&tick| tick <= at_most)
    }

    fn horizon_if_beyond(&self, deadline: Tick) -> Option<Tick> {
        let last = self.now.saturating_add(self.scheme.horizon(self.now)?);
        (deadline > last).then_some(last)
    }

    fn start(&mut self, index: u32, deadline: Tick) {
        let due = deadline.max(self.now.saturating_add(1));
        if deadline <= self.now {
            let never_due = self.now == Tick::MAX;
            self.late.insert(index, LateTimer { deadline, never_due });
            if never_due {
                return;
            }
        }
        self.arena.nodes[index as usize].due = due;
        self.scheme.link(&mut self.arena.nodes, self.now, index);
    }

    fn stop(&mut self, index: u32) {
        let late = if self.late.is_empty() { None } else { self.late.remove(&index) };
        if !late.is_some_and(|late| late.never_due) {
            self.scheme.unlink(&mut self.arena.nodes, self.now, index);
        }
    }
}

impl<S: TimerScheme, T> fmt::Debug for SchemeTimers<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchemeTimers")
            .field("now", &self.now)
            .field("len", &self.arena.len)
            .finish_non_exhaustive()
    }
}

macro_rules! timer_queue {
    ($name:ident) => {
        impl<T> crate::TimerQueue<T> for $name<T> {
            fn now(&self) -> crate::Tick {
                self.0.now
            }

            fn len(&self) -> usize {
                self.0.arena.len
            }

            fn horizon(&self) -> Option<u64> {
                self.0.scheme.horizon(self.0.now)
            }

            fn precision(&self, ahead: u64) -> u64 {
                self.0.scheme.precision(ahead)
            }

            fn schedule(
                &mut self,
                deadline: crate::Tick,
                value: T,
            ) -> Result<crate::TimerKey, crate::BeyondHorizon<T>> {
                self.0.schedule(deadline, value)
            }

            fn schedule_within(
                &mut self,
                range: core::ops::RangeInclusive<crate::Tick>,
                value: T,
            ) -> Result<crate::TimerKey, crate::BeyondHorizon<T>> {
                let deadline = self.0.scheme.choose(self.0.now, &self.clamp_to_horizon(range));
                self.0.schedule(deadline, value)
            }

            fn reschedule_within(
                &mut self,
                key: crate::TimerKey,
                range: core::ops::RangeInclusive<crate::Tick>,
            ) -> Result<bool, crate::BeyondHorizon<()>> {
                match self.0.deadline(key) {
                    Some(deadline) if range.contains(&deadline) => Ok(true),
                    _ => self
                        .0
                        .reschedule(key, self.0.scheme.choose(self.0.now, &self.clamp_to_horizon(range))),
                }
            }

            fn reschedule(
                &mut self,
                key: crate::TimerKey,
                deadline: crate::Tick,
            ) -> Result<bool, crate::BeyondHorizon<()>> {
                self.0.reschedule(key, deadline)
            }

            fn cancel(&mut self, key: crate::TimerKey) -> Option<T> {
                self.0.cancel(key)
            }

            fn deadline(&self, key: crate::TimerKey) -> Option<crate::Tick> {
                self.0.deadline(key)
            }

            fn get(&self, key: crate::TimerKey) -> Option<&T> {
                self.0.get(key)
            }

            fn expire_next(&mut self, now: crate::Tick, work: &mut crate::WorkBudget) -> crate::Expiry<T> {
                self.0.expire_next(now, work)
            }

            fn next_wakeup(&self, at_most: crate::Tick) -> Option<crate::Tick> {
                self.0.next_wakeup(at_most)
            }

            fn levels(&self) -> usize {
                self.0.scheme.levels()
            }

            fn occupancy(&self, level: usize) -> usize {
                self.0.scheme.occupancy(level).unwrap_or(self.0.arena.len)
            }

            fn ring(
                &self,
                ring: usize,
                counts: &mut [u32; crate::SlotRing::MAX_SLOTS],
            ) -> Option<crate::SlotRing> {
                self.0.scheme.ring(self.0.now, ring, counts)
            }
        }

        #[cfg(test)]
        impl<T> $name<T> {
            pub(crate) fn check_invariants(&self) {
                self.0.check();
            }
        }

        impl<T> core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("now", &self.0.now)
                    .field("len", &self.0.arena.len)
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(super) use timer_queue;
