//! The memory of all timers of a scheme: nodes and values, found by index, reused through a free list.
//!
//! ```text
//!    index         0              1              2              3              4
//!
//!    nodes    [ due        ] [ next free 4] [ due        ] [ due        ] [ next free  ]
//!             [ link       ] [            ] [ link       ] [ link       ] [       none ]
//!             [ generation ] [ generation ] [ generation ] [ generation ] [ generation ]
//!                                  ^
//!                             first free
//!
//!    values   [ T          ] [ None       ] [ T          ] [ T          ] [ None       ]
//! ```
//!
//! | | |
//! |---|---|
//! | source | the free list through the free nodes is as old as allocators; generations tell lives of a node apart |
//! | costs | O(1) to take a node and to free it; the arrays double when they are full |
//! | memory | 24 bytes a node with the link of a list, 16 with none or a position; an `Option<T>`; none is given back |
//! | limits | `u32::MAX` timers; 2^31 lives a node, after which it is not used again |

use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::{Tick, TimerKey};

/// Ends a list of nodes. No node has this index.
pub(super) const NIL: u32 = u32::MAX;

/// What a queue knows of a timer besides its value.
#[derive(Debug)]
pub(super) struct Node<L> {
    /// The tick from which it may come out. In a free node, the index of the next free one.
    pub(super) due: Tick,
    /// Where the scheme keeps it.
    pub(super) link: L,
    /// Which life of this memory the node is in: odd while it is in use, even while it is free.
    pub(super) generation: NonZeroU32,
}

/// Nodes and values lie apart: what walks the nodes never touches a value.
#[derive(Debug)]
pub(super) struct Arena<L, T> {
    pub(super) nodes: Vec<Node<L>>,
    pub(super) values: Vec<Option<T>>,
    pub(super) first_free: u32,
    pub(super) len: usize,
}

impl<L: Default, T> Arena<L, T> {
    pub(super) const fn new() -> Self {
        Arena { nodes: Vec::new(), values: Vec::new(), first_free: NIL, len: 0 }
    }

    /// Takes a node, which the caller hands to the scheme at once.
    pub(super) fn insert(&mut self, value: T) -> TimerKey {
        self.len += 1;
        if self.first_free == NIL {
            return self.push(value);
        }
        let index = self.first_free;
        let node = &mut self.nodes[index as usize];
        self.first_free = u32::try_from(node.due.0).expect("a free node holds an index");
        node.generation = node.generation.saturating_add(1);
        self.values[index as usize] = Some(value);
        TimerKey { index, generation: node.generation }
    }

    fn push(&mut self, value: T) -> TimerKey {
        let index = u32::try_from(self.nodes.len())
            .ok()
            .filter(|&index| index != NIL)
            .expect("a queue holds at most u32::MAX timers");
        let generation = NonZeroU32::MIN;
        self.nodes.push(Node { due: Tick::ZERO, link: L::default(), generation });
        self.values.push(Some(value));
        TimerKey { index, generation }
    }

    /// Frees a node that the scheme has let go of.
    pub(super) fn remove(&mut self, index: u32) -> T {
        let node = &mut self.nodes[index as usize];
        match node.generation.checked_add(1) {
            Some(generation) => {
                node.generation = generation;
                node.due = Tick(u64::from(self.first_free));
                self.first_free = index;
            }
            // Out of generations: the node is retired. No key is even, so none names it, and it is never used again.
            None => node.generation = RETIRED,
        }
        self.len -= 1;
        self.values[index as usize].take().expect("a node in use has a value")
    }

    /// The index that `key` names, unless it is stale: every key is odd, so none fits a free node.
    pub(super) fn find(&self, key: TimerKey) -> Option<u32> {
        let node = self.nodes.get(key.index as usize)?;
        (node.generation == key.generation).then_some(key.index)
    }

    pub(super) fn key(&self, index: u32) -> TimerKey {
        TimerKey { index, generation: self.nodes[index as usize].generation }
    }
}

/// The generation of a node that has had its last timer.
pub(super) const RETIRED: NonZeroU32 = NonZeroU32::new(2).expect("two is not zero");
