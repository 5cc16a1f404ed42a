//! The memory of all timers: nodes and values, found by index, reused through a free list.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::place::Place;
use crate::{Tick, TimerKey};

/// Ends a list of nodes. No node has this index.
pub(crate) const NIL: u32 = u32::MAX;

/// What the wheel knows of a timer besides its value.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) deadline: Tick,
    /// The neighbours in the slot's list. In a free node, `next` is the next free one.
    pub(crate) next: u32,
    pub(crate) previous: u32,
    /// Which use of this index the node is in. Grows when the node is freed.
    pub(crate) generation: NonZeroU32,
    /// The slot whose list the node is in; `None` while it is free.
    pub(crate) place: Option<Place>,
}

/// Nodes and values lie apart: what walks the lists never touches a value.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    pub(crate) nodes: Vec<Node>,
    pub(crate) values: Vec<Option<T>>,
    pub(crate) first_free: u32,
    pub(crate) len: usize,
}

impl<T> Arena<T> {
    pub(crate) const fn new() -> Self {
        Arena { nodes: Vec::new(), values: Vec::new(), first_free: NIL, len: 0 }
    }

    /// Takes a node, which the caller links into a slot at once.
    pub(crate) fn insert(&mut self, deadline: Tick, value: T) -> TimerKey {
        self.len += 1;
        if self.first_free == NIL {
            return self.push(deadline, value);
        }
        let index = self.first_free;
        let node = &mut self.nodes[index as usize];
        self.first_free = node.next;
        node.deadline = deadline;
        self.values[index as usize] = Some(value);
        TimerKey { index, generation: node.generation }
    }

    fn push(&mut self, deadline: Tick, value: T) -> TimerKey {
        let index = u32::try_from(self.nodes.len())
            .ok()
            .filter(|&index| index != NIL)
            .expect("a wheel holds at most u32::MAX timers");
        let generation = NonZeroU32::MIN;
        self.nodes.push(Node { deadline, next: NIL, previous: NIL, generation, place: None });
        self.values.push(Some(value));
        TimerKey { index, generation }
    }

    /// Frees a node that was taken out of its slot before.
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let node = &mut self.nodes[index as usize];
        debug_assert!(node.place.is_none(), "a node is unlinked before it is freed");
        match node.generation.checked_add(1) {
            Some(generation) => {
                node.generation = generation;
                node.next = self.first_free;
                self.first_free = index;
            }
            // Out of generations: the node is retired, so that none of its keys can ever name another timer.
            None => node.next = NIL,
        }
        self.len -= 1;
        self.values[index as usize].take().expect("a node in use has a value")
    }

    /// The index that `key` names, unless it is stale.
    pub(crate) fn find(&self, key: TimerKey) -> Option<u32> {
        let node = self.nodes.get(key.index as usize)?;
        (node.generation == key.generation && node.place.is_some()).then_some(key.index)
    }

    pub(crate) fn key(&self, index: u32) -> TimerKey {
        TimerKey { index, generation: self.nodes[index as usize].generation }
    }
}
