//! What all schemes have in common: the memory of the timers, their keys, and what is late or comes after the end of time.
//!
//! ```text
//!    schedule, cancel, ...                              expire_next
//!         |                                                  |
//!         v            key: index, generation                v
//!    [ arena: nodes and values ] <--------------------> [ scheme: lists, slots, a heap or a tree of nodes ]
//!         |
//!         v
//!    [ late: index -> the deadline that was asked for, where it was not ahead ]
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section II: the four routines of a timer module |
//! | costs | those of the scheme; O(log l) for one of l timers that were late when they were scheduled |
//! | memory | that of the arena and of the scheme; an entry in a tree for each that was late |
//! | limits | those of the arena and of the scheme |

use alloc::collections::BTreeMap;
use core::fmt;
use core::ops::RangeInclusive;

use super::arena::{Arena, Node};
use crate::{BeyondHorizon, Expire, Expired, Ring, Tick, TimerKey, Work, range};

/// One way to find the timers that are due. It sees the nodes of timers, never their values or keys.
///
/// A node's `due` is ahead of `now` when it is linked, and by then no later than [`Tick::MAX`].
pub(super) trait Scheme {
    /// What it keeps in each node.
    type Link: Default;

    /// How many ticks ahead of `now` it reaches.
    fn horizon(&self, _now: Tick) -> Option<u64> {
        None
    }

    /// See [`TimerQueue::precision`](crate::TimerQueue::precision).
    fn precision(&self, _ahead: u64) -> u64 {
        0
    }

    /// The tick in `range` that costs the least.
    fn choose(&self, now: Tick, range: &RangeInclusive<Tick>) -> Tick {
        range::choose(now, range)
    }

    /// START_TIMER: takes a node in.
    fn link(&mut self, nodes: &mut [Node<Self::Link>], now: Tick, index: u32);

    /// STOP_TIMER: lets go of a node.
    fn unlink(&mut self, nodes: &mut [Node<Self::Link>], now: Tick, index: u32);

    /// PER_TICK_BOOKKEEPING, for every tick up to `until`, or up to the first timer that comes out. It moves `now` along,
    /// except over what is left when it is [`Step::UpToDate`].
    fn advance(
        &mut self,
        nodes: &mut [Node<Self::Link>],
        now: &mut Tick,
        until: Tick,
        work: &mut Work,
    ) -> Step;

    /// See [`TimerQueue::next_wakeup`](crate::TimerQueue::next_wakeup).
    fn next_wakeup(&self, nodes: &[Node<Self::Link>], now: Tick) -> Option<Tick>;

    /// See [`TimerQueue::levels`](crate::TimerQueue::levels).
    fn levels(&self) -> usize {
        1
    }

    /// How many timers a part holds, if there is more than one.
    fn occupancy(&self, _level: usize) -> Option<usize> {
        None
    }

    /// See [`TimerQueue::ring`](crate::TimerQueue::ring).
    fn ring(&self, _now: Tick, _ring: usize, _held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        None
    }

    /// Panics unless everything that must hold between two calls does. Returns every node it holds.
    #[cfg(test)]
    fn check(&self, nodes: &[Node<Self::Link>], now: Tick) -> alloc::vec::Vec<u32>;
}

/// The tick in `range` to choose where timers come out at the beginnings of slots: `latest`, the last of those up to its
/// end, or the first tick that is ahead.
pub(super) fn latest_or_first(now: Tick, range: &RangeInclusive<Tick>, latest: Tick) -> Tick {
    let first = now.saturating_add(1).max(*range.start());
    // Of a range that is over, or empty, the choice is the same in all schemes.
    if *range.end() < first { range::choose(now, range) } else { latest.max(first) }
}

/// What an advance came to.
pub(super) enum Step {
    /// This node was let go of, and comes out now.
    Due(u32),
    OutOfWork,
    UpToDate,
}

/// A scheme, with the timers that it keeps.
pub(super) struct Timers<S: Scheme, T> {
    pub(super) now: Tick,
    pub(super) scheme: S,
    pub(super) arena: Arena<S::Link, T>,
    /// By node: what was scheduled for a tick that was not ahead.
    pub(super) late: BTreeMap<u32, Late>,
}

/// A timer that is due later than it was scheduled for.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) deadline: Tick,
    /// It was scheduled at the last tick. There is none at which it could come out, and the scheme does not know it.
    pub(super) never: bool,
}

impl<S: Scheme, T> Timers<S, T> {
    pub(super) fn new(now: Tick, scheme: S) -> Self {
        Timers { now, scheme, arena: Arena::new(), late: BTreeMap::new() }
    }

    pub(super) fn schedule(&mut self, deadline: Tick, value: T) -> Result<TimerKey, BeyondHorizon<T>> {
        if let Some(last) = self.too_far(deadline) {
            return Err(BeyondHorizon { value, last });
        }
        let key = self.arena.insert(value);
        self.start(key.index, deadline);
        Ok(key)
    }

    pub(super) fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>> {
        let Some(index) = self.arena.find(key) else { return Ok(false) };
        if let Some(last) = self.too_far(deadline) {
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

    pub(super) fn expire_next(&mut self, now: Tick, work: &mut Work) -> Expire<T> {
        let until = now.max(self.now);
        match self.scheme.advance(&mut self.arena.nodes, &mut self.now, until, work) {
            Step::Due(index) => {
                let late = if self.late.is_empty() { None } else { self.late.remove(&index) };
                let deadline = late.map_or(self.arena.nodes[index as usize].due, |late| late.deadline);
                let key = self.arena.key(index);
                Expire::Due(Expired { key, deadline, value: self.arena.remove(index) })
            }
            Step::OutOfWork => Expire::OutOfWork,
            Step::UpToDate => {
                self.now = until;
                Expire::UpToDate
            }
        }
    }

    pub(super) fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        let at_most = at_most.max(self.now);
        self.scheme.next_wakeup(&self.arena.nodes, self.now).filter(|&tick| tick <= at_most)
    }

    /// The last tick that can be had, if `deadline` is after it.
    fn too_far(&self, deadline: Tick) -> Option<Tick> {
        let last = self.now.saturating_add(self.scheme.horizon(self.now)?);
        (deadline > last).then_some(last)
    }

    fn start(&mut self, index: u32, deadline: Tick) {
        let due = deadline.max(self.now.saturating_add(1));
        if deadline <= self.now {
            let never = self.now == Tick::MAX;
            self.late.insert(index, Late { deadline, never });
            if never {
                return;
            }
        }
        self.arena.nodes[index as usize].due = due;
        self.scheme.link(&mut self.arena.nodes, self.now, index);
    }

    fn stop(&mut self, index: u32) {
        let late = if self.late.is_empty() { None } else { self.late.remove(&index) };
        if !late.is_some_and(|late| late.never) {
            self.scheme.unlink(&mut self.arena.nodes, self.now, index);
        }
    }
}

impl<S: Scheme, T> fmt::Debug for Timers<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("now", &self.now).field("len", &self.arena.len).finish_non_exhaustive()
    }
}

/// Makes a [`TimerQueue`](crate::TimerQueue) of a type that is a [`Timers`].
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
                let deadline = self.0.scheme.choose(self.0.now, &self.within_reach(range));
                self.0.schedule(deadline, value)
            }

            fn reschedule_within(
                &mut self,
                key: crate::TimerKey,
                range: core::ops::RangeInclusive<crate::Tick>,
            ) -> Result<bool, crate::BeyondHorizon<()>> {
                match self.0.deadline(key) {
                    Some(deadline) if range.contains(&deadline) => Ok(true),
                    _ => self.0.reschedule(key, self.0.scheme.choose(self.0.now, &self.within_reach(range))),
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

            fn expire_next(&mut self, now: crate::Tick, work: &mut crate::Work) -> crate::Expire<T> {
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

            fn ring(&self, ring: usize, held: &mut [u32; crate::Ring::MOST_SLOTS]) -> Option<crate::Ring> {
                self.0.scheme.ring(self.0.now, ring, held)
            }
        }

        #[cfg(test)]
        impl<T> $name<T> {
            /// Panics unless everything that must hold between two calls does.
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
