//! The memory of all timers: nodes and values apart, found by index, in pages that go when nothing is in them.
//!
//! This is the one module of the crate with unsafe code. It rests on a single invariant, which nothing outside of it can
//! break: **the value at an index is initialized exactly while its node has a position.**

#![allow(unsafe_code, reason = "values without the discriminant of an Option, and prefetching")]

#[cfg(test)]
mod check;

use alloc::boxed::Box;
use core::mem::{MaybeUninit, needs_drop};
use core::num::NonZeroU32;

use super::chunk::Position;
use super::pool::{Page, Pool};
use crate::{Expired, Tick, TimerKey};

/// How many timers a page has. Tests do without the thousands it takes to fill usual ones.
pub(super) const PAGE: usize = if cfg!(any(test, miri)) { 16 } else { 1024 };

/// How many timers there may be: positions, which count by chunk, reach somewhat further.
pub(super) const LIMIT: u32 = 1 << 30;

/// What the wheel knows of a timer besides its value: 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// In a free node, the next free one of its page.
    deadline: Tick,
    /// Where its index stands; it may stand in other places too, and does not count there. `None` while it is free.
    position: Option<Position>,
    /// Which use of this index the node is in, or will be when it is free; 0 when there are no more. So the key of a timer
    /// that is gone never matches.
    generation: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Timers<T> {
    pool: Pool<Memory<T>>,
    len: usize,
}

#[derive(Debug)]
struct Memory<T> {
    nodes: [Node; PAGE],
    values: [MaybeUninit<T>; PAGE],
}

/// A scheduled timer, to be changed.
#[derive(Debug)]
pub(super) struct Scheduled<'a>(&'a mut Node);

impl Scheduled<'_> {
    pub(super) fn deadline(&self) -> Tick {
        self.0.deadline
    }

    pub(super) fn set_deadline(&mut self, deadline: Tick) {
        self.0.deadline = deadline;
    }

    pub(super) fn position(&self) -> Position {
        self.0.position.expect("it is scheduled")
    }

    pub(super) fn set_position(&mut self, position: Position) {
        *self.0.position.as_mut().expect("it is scheduled") = position;
    }
}

/// Why a timer does not expire.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotDue {
    /// It was put off.
    Ahead,
    /// It was cancelled, or moved.
    Gone,
}

impl<T> Memory<T> {
    /// Takes a timer out that is scheduled, if its node fits. Returns the node as it was.
    #[inline(always)]
    fn end(&mut self, place: usize, fits: impl FnOnce(&Node) -> bool) -> Option<(Node, T)> {
        let node = &mut self.nodes[place];
        // A key of another wheel can match what was never used.
        if node.position.is_none() || !fits(node) {
            return None;
        }
        let was = *node;
        node.position = None;
        node.generation = node.generation.wrapping_add(1);
        // SAFETY: The node had a position, so the value is initialized. It has none now: the value is not read again.
        Some((was, unsafe { self.values[place].assume_init_read() }))
    }
}

impl<T> Timers<T> {
    pub(super) const fn new() -> Self {
        Timers { pool: Pool::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many pages there are.
    pub(super) fn pages_held(&self) -> usize {
        self.pool.pages_held()
    }

    /// Makes a timer. `position` is told its index and says where that stands.
    ///
    /// # Panics
    /// If there are [`LIMIT`] timers.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        deadline: Tick,
        value: T,
        position: impl FnOnce(u32) -> Position,
    ) -> TimerKey {
        let (index, memory, place) = self.pool.take(LIMIT);
        let node = &mut memory.nodes[place];
        debug_assert!(node.position.is_none());
        let generation = NonZeroU32::new(node.generation).expect("an index is free while it has generations");
        node.position = Some(position(index));
        node.deadline = deadline;
        memory.values[place].write(value);
        self.len += 1;
        TimerKey { index, generation }
    }

    /// Ends the timer that `key` names, unless it is stale, and tells where its index stands.
    #[inline(always)]
    pub(super) fn cancel(&mut self, key: TimerKey) -> Option<(Position, T)> {
        let generation = key.generation.get();
        let ended = self.pool.give_back_if(key.index, |memory, place| {
            memory
                .end(place, |node| node.generation == generation)
                .map(|(node, value)| (node.position.expect("it was scheduled"), value))
        });
        self.len -= usize::from(ended.is_some());
        ended
    }

    /// Ends the timer of an index that was found at this position, if it is there still, and due.
    #[inline(always)]
    pub(super) fn expire(&mut self, index: u32, position: Position, now: Tick) -> Result<Expired<T>, NotDue> {
        let mut why = NotDue::Gone;
        let ended = self.pool.give_back_if(index, |memory, place| {
            memory.end(place, |node| {
                if node.position != Some(position) {
                    return false;
                }
                why = NotDue::Ahead;
                node.deadline <= now
            })
        });
        let Some((node, value)) = ended else { return Err(why) };
        self.len -= 1;
        let generation = NonZeroU32::new(node.generation).expect("it was scheduled");
        Ok(Expired { key: TimerKey { index, generation }, deadline: node.deadline, value })
    }

    /// The timer that `key` names, unless it is stale.
    #[inline(always)]
    pub(super) fn find(&mut self, key: TimerKey) -> Option<Scheduled<'_>> {
        let (memory, place) = self.pool.find_mut(key.index)?;
        let node = &mut memory.nodes[place];
        // A key of another wheel can match what was never used.
        (node.generation == key.generation.get() && node.position.is_some()).then_some(Scheduled(node))
    }

    /// The deadline and the value of the timer that `key` names, unless it is stale.
    #[inline]
    pub(super) fn get(&self, key: TimerKey) -> Option<(Tick, &T)> {
        let (memory, place) = self.pool.find(key.index)?;
        let node = &memory.nodes[place];
        (node.generation == key.generation.get() && node.position.is_some()).then(|| {
            // SAFETY: The node has a position, so the value is initialized.
            (node.deadline, unsafe { memory.values[place].assume_init_ref() })
        })
    }

    /// The timer of an index that stands somewhere.
    #[inline(always)]
    pub(super) fn at(&mut self, index: u32) -> Scheduled<'_> {
        let (memory, place) = self.pool.at_mut(index);
        Scheduled(&mut memory.nodes[place])
    }

    /// The timer of an index that is found at this position, unless it is gone from there.
    #[inline(always)]
    pub(super) fn standing_at(&mut self, index: u32, position: Position) -> Option<Scheduled<'_>> {
        let (memory, place) = self.pool.find_mut(index)?;
        let node = &mut memory.nodes[place];
        (node.position == Some(position)).then_some(Scheduled(node))
    }

    /// Fetches a timer that will soon expire, if it is still there.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        let Some((memory, place)) = self.pool.find(index) else { return };
        prefetch(&memory.nodes[place]);
        prefetch(&memory.values[place]);
    }
}

impl<T> Page for Memory<T> {
    const LEN: usize = PAGE;

    fn bring(generation: u32) -> Box<Self> {
        let mut memory = Box::<Self>::new_uninit();
        let this = memory.as_mut_ptr();
        for place in 0..PAGE {
            let node = Node { deadline: Tick(place as u64 + 1), position: None, generation };
            // SAFETY: `this` is valid for writes, and `place` lies within the array.
            unsafe { (&raw mut (*this).nodes[place]).write(node) };
        }
        // SAFETY: Every node was written, and no value need be.
        unsafe { memory.assume_init() }
    }

    #[expect(clippy::cast_possible_truncation, reason = "what was stored was one")]
    fn next_free(&self, place: usize) -> u16 {
        self.nodes[place].deadline.0 as u16
    }

    fn set_next_free(&mut self, place: usize, next: u16) {
        self.nodes[place].deadline = Tick(next.into());
    }

    /// An index without generations is retired, so that none of its keys can ever name another timer.
    #[inline]
    fn is_retired(&self, place: usize) -> bool {
        self.nodes[place].generation == 0
    }

    fn generation(&self) -> u32 {
        self.nodes.iter().map(|node| node.generation).max().expect("a page is not empty")
    }
}

impl<T> Drop for Timers<T> {
    fn drop(&mut self) {
        if !needs_drop::<T>() {
            return;
        }
        for memory in self.pool.pages_mut() {
            for (node, value) in memory.nodes.iter_mut().zip(&mut memory.values) {
                if node.position.take().is_some() {
                    // SAFETY: The node had a position, so the value is initialized, and it has none now.
                    unsafe { value.assume_init_drop() };
                }
            }
        }
    }
}

/// Asks the processor to have this in its cache soon.
pub(super) fn prefetch<T>(what: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: The instruction has no effect but on the cache, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(what).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = what;
}
