//! The memory of all timers: nodes and values apart, found by index, in pages that go when nothing is in them.
//!
//! This is the one module of the crate with unsafe code. It rests on a single invariant, which nothing outside of it can
//! break: **the value at an index is initialized exactly while its node has a position.**

#![allow(unsafe_code, reason = "values without the discriminant of an Option, and prefetching")]

#[cfg(test)]
mod check;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::{MaybeUninit, needs_drop};
use core::num::NonZeroU32;

use super::numbers::Numbers;
use super::slots::Position;
use crate::{Tick, TimerKey};

/// A page has 64 times as many timers.
const WORDS: usize = 16;
const PAGE: usize = Numbers::<WORDS>::PAGE;

/// How many timers there may be: positions, which count by chunk, reach somewhat further.
pub(super) const LIMIT: u32 = 1 << 31;

/// What the wheel knows of a timer besides its value: 16 bytes.
#[derive(Debug)]
struct Node {
    deadline: Tick,
    /// Where its index stands; `None` while it is free.
    position: Option<Position>,
    /// Which use of this index the node is in, or will be when it is free; 0 when there are no more. So the key of a timer
    /// that is gone never matches.
    generation: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Timers<T> {
    numbers: Numbers<WORDS>,
    pages: Vec<Page<T>>,
    len: usize,
}

#[derive(Debug)]
struct Page<T> {
    /// Both are there, or neither.
    nodes: Option<Box<[Node; PAGE]>>,
    values: Option<Box<[MaybeUninit<T>; PAGE]>>,
    /// While they are not: the first generation that none of its timers has had.
    generation: u32,
}

impl<T> Timers<T> {
    pub(super) const fn new() -> Self {
        Timers { numbers: Numbers::new(), pages: Vec::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes a timer. `position` is told its index and says where that stands.
    ///
    /// # Panics
    /// If there are [`LIMIT`] timers.
    pub(super) fn insert(
        &mut self,
        deadline: Tick,
        value: T,
        position: impl FnOnce(u32) -> Position,
    ) -> TimerKey {
        let taken = self.numbers.take(LIMIT);
        let (at, place) = split(taken.number);
        if taken.needs_page {
            self.bring(at);
        }
        let page = &mut self.pages[at];
        let (Some(nodes), Some(values)) = (&mut page.nodes, &mut page.values) else { no_page() };
        let node = &mut nodes[place];
        debug_assert!(node.position.is_none());
        let key = TimerKey {
            index: taken.number,
            generation: NonZeroU32::new(node.generation).expect("an index is free while it has generations"),
        };
        node.position = Some(position(taken.number));
        node.deadline = deadline;
        values[place].write(value);
        self.len += 1;
        key
    }

    /// Ends a timer whose index does not stand anywhere any more.
    pub(super) fn remove(&mut self, index: u32) -> T {
        let (at, place) = split(index);
        let page = &mut self.pages[at];
        let (Some(nodes), Some(values)) = (&mut page.nodes, &mut page.values) else { no_page() };
        let node = &mut nodes[place];
        node.position.take().expect("only what is scheduled is removed");
        // SAFETY: The node had a position, so the value is initialized. It has none now: the value is not read again.
        let value = unsafe { values[place].assume_init_read() };
        self.len -= 1;
        node.generation = node.generation.wrapping_add(1);
        // An index without generations is retired, so that none of its keys can ever name another timer.
        if node.generation != 0
            && let Some(empty) = self.numbers.give_back(index)
        {
            self.pages[empty].give_up();
        }
        value
    }

    #[cold]
    fn bring(&mut self, at: usize) {
        if at == self.pages.len() {
            self.pages.push(Page { nodes: None, values: None, generation: 1 });
        }
        let page = &mut self.pages[at];
        let generation = page.generation;
        let nodes: Box<[Node]> =
            (0..PAGE).map(|_| Node { deadline: Tick::ZERO, position: None, generation }).collect();
        page.nodes = Some(nodes.try_into().expect("as many as a page has"));
        page.values = Some(Box::new_uninit_slice(PAGE).try_into().expect("as many as a page has"));
    }

    /// The index that `key` names, unless it is stale.
    pub(super) fn find(&self, key: TimerKey) -> Option<u32> {
        let (at, place) = split(key.index);
        let node = &self.pages.get(at)?.nodes.as_deref()?[place];
        (node.generation == key.generation.get() && node.position.is_some()).then_some(key.index)
    }

    pub(super) fn key(&self, index: u32) -> TimerKey {
        let generation = NonZeroU32::new(self.node(index).generation).expect("it is scheduled");
        TimerKey { index, generation }
    }

    pub(super) fn deadline(&self, index: u32) -> Tick {
        self.node(index).deadline
    }

    pub(super) fn set_deadline(&mut self, index: u32, deadline: Tick) {
        self.node_mut(index).deadline = deadline;
    }

    pub(super) fn position(&self, index: u32) -> Position {
        self.node(index).position.expect("it is scheduled")
    }

    pub(super) fn set_position(&mut self, index: u32, position: Position) {
        let old = self.node_mut(index).position.replace(position);
        debug_assert!(old.is_some());
    }

    pub(super) fn value(&self, index: u32) -> &T {
        let (at, place) = split(index);
        let page = &self.pages[at];
        let (Some(nodes), Some(values)) = (&page.nodes, &page.values) else { no_page() };
        assert!(nodes[place].position.is_some());
        // SAFETY: The node has a position, so the value is initialized.
        unsafe { values[place].assume_init_ref() }
    }

    fn node(&self, index: u32) -> &Node {
        let (at, place) = split(index);
        let Some(nodes) = &self.pages[at].nodes else { no_page() };
        &nodes[place]
    }

    fn node_mut(&mut self, index: u32) -> &mut Node {
        let (at, place) = split(index);
        let Some(nodes) = &mut self.pages[at].nodes else { no_page() };
        &mut nodes[place]
    }

    /// Fetches a node that will soon be moved.
    pub(super) fn prefetch_node(&self, index: u32) {
        prefetch(self.node(index));
    }

    /// Fetches a timer that will soon expire.
    pub(super) fn prefetch(&self, index: u32) {
        let (at, place) = split(index);
        if let Page { nodes: Some(nodes), values: Some(values), .. } = &self.pages[at] {
            prefetch(&nodes[place]);
            prefetch(&values[place]);
        }
    }
}

impl<T> Page<T> {
    /// Gives the memory back. Nothing in it is scheduled.
    fn give_up(&mut self) {
        let generations = self.nodes.iter().flat_map(|nodes| nodes.iter().map(|node| node.generation));
        self.generation = generations.max().unwrap_or(self.generation);
        self.nodes = None;
        self.values = None;
    }
}

impl<T> Drop for Timers<T> {
    fn drop(&mut self) {
        if !needs_drop::<T>() {
            return;
        }
        for page in &mut self.pages {
            let (Some(nodes), Some(values)) = (&mut page.nodes, &mut page.values) else { continue };
            for (node, value) in nodes.iter_mut().zip(values.iter_mut()) {
                if node.position.take().is_some() {
                    // SAFETY: The node had a position, so the value is initialized, and it has none now.
                    unsafe { value.assume_init_drop() };
                }
            }
        }
    }
}

fn split(index: u32) -> (usize, usize) {
    (index as usize / PAGE, index as usize % PAGE)
}

#[cold]
fn no_page() -> ! {
    unreachable!("what is scheduled has its page")
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
