//! The memory of all timers of a scheme: nodes and values, addressed by index and reused through a free list.
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
//! | source | a free list threaded through the free nodes, as in any allocator; a generation per node invalidates old keys |
//! | costs | O(1) to allocate a node and to free it; the arrays double when they are full |
//! | memory | per node 24 bytes with a list link, 16 with a position or no link, and an `Option<T>`; never shrinks |
//! | limits | `u32::MAX` timers; a node is retired after 2^31 uses |

use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::{Tick, TimerKey};

/// End of a list of nodes. No node has this index.
pub(super) const NIL: u32 = u32::MAX;

/// A timer without its value.
#[derive(Debug)]
pub(super) struct Node<L> {
    /// Earliest tick at which the timer may expire. In a free node, the index of the next free node.
    pub(super) due: Tick,
    /// Position of the node in the scheme's structure.
    pub(super) link: L,
    /// Number that changes with each use of the node: odd while it is in use, even while it is free.
    pub(super) generation: NonZeroU32,
}

/// Nodes and values in separate arrays, so that traversing the nodes does not load the values.
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

    /// Allocates a node. The caller must link it into the scheme.
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

    /// Frees a node that has been unlinked from the scheme.
    pub(super) fn remove(&mut self, index: u32) -> T {
        let node = &mut self.nodes[index as usize];
        match node.generation.checked_add(1) {
            Some(generation) => {
                node.generation = generation;
                node.due = Tick(u64::from(self.first_free));
                self.first_free = index;
            }
            // The node has run out of generations and is retired. It is never reused, and its generation is
            // even, so no key matches it.
            None => node.generation = RETIRED,
        }
        self.len -= 1;
        self.values[index as usize].take().expect("a node in use has a value")
    }

    /// Returns the index of the node with this key, or `None` if the key is stale. Keys have odd generations,
    /// so no key matches a free node.
    pub(super) fn find(&self, key: TimerKey) -> Option<u32> {
        let node = self.nodes.get(key.index as usize)?;
        (node.generation == key.generation).then_some(key.index)
    }

    pub(super) fn key(&self, index: u32) -> TimerKey {
        TimerKey { index, generation: self.nodes[index as usize].generation }
    }
}

pub(super) const RETIRED: NonZeroU32 = NonZeroU32::new(2).expect("two is not zero");
