//! Doubly linked lists through the nodes.
//!
//! ```text
//!               +----------------- previous -----------------+
//!               |                                            |
//!               v                                            |
//!    first --> [ 12 ] --- next ---> [ 31 ] --- next ---> [ 70 ] --> NIL
//!                     <- previous --       <- previous --
//!
//!    so the last is found without being stored, and a list is 4 bytes
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section III-B: doubly linked, so that STOP_TIMER need not search |
//! | costs | O(1) at both ends and to take a node out; O(n) to put one in order, searched from the rear |
//! | memory | 4 bytes a list, 12 in each node |
//! | limits | none of its own; emptying one waits for one node after the other |

use super::arena::{NIL, Node};
use super::timers::Step;
use crate::{Tick, Work};

/// A node's neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// [`NIL`] in the last node.
    pub(super) next: u32,
    /// In the first node, the last one: so a list has an end without storing it.
    pub(super) previous: u32,
    /// Which list the node is in, where a scheme has several.
    pub(super) list: u32,
}

impl Default for Link {
    fn default() -> Self {
        Link { next: NIL, previous: NIL, list: 0 }
    }
}

const _: () = assert!(size_of::<Node<Link>>() == 24);

pub(super) type ListNode = Node<Link>;

/// Where a list begins. The rest of it is in the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    /// [`NIL`] if the list is empty.
    pub(super) first: u32,
}

impl List {
    pub(super) const EMPTY: List = List { first: NIL };

    pub(super) fn is_empty(self) -> bool {
        self.first == NIL
    }

    /// When the first of the list is due.
    pub(super) fn first_due(self, nodes: &[ListNode]) -> Option<crate::Tick> {
        (self.first != NIL).then(|| nodes[self.first as usize].due)
    }

    pub(super) fn push_front(&mut self, nodes: &mut [ListNode], index: u32) {
        let second = self.first;
        let last = if second == NIL {
            index
        } else {
            core::mem::replace(&mut nodes[second as usize].link.previous, index)
        };
        let link = &mut nodes[index as usize].link;
        (link.next, link.previous) = (second, last);
        self.first = index;
    }

    pub(super) fn push_back(&mut self, nodes: &mut [ListNode], index: u32) {
        if self.first == NIL {
            return self.push_front(nodes, index);
        }
        let last = core::mem::replace(&mut nodes[self.first as usize].link.previous, index);
        nodes[last as usize].link.next = index;
        let link = &mut nodes[index as usize].link;
        (link.next, link.previous) = (NIL, last);
    }

    /// Puts a node behind the last that is not due later, searching from the rear.
    pub(super) fn insert_sorted(&mut self, nodes: &mut [ListNode], index: u32) {
        let due = nodes[index as usize].due;
        if self.first == NIL || nodes[self.first as usize].due > due {
            return self.push_front(nodes, index);
        }
        let mut before = nodes[self.first as usize].link.previous;
        while nodes[before as usize].due > due {
            before = nodes[before as usize].link.previous;
        }
        let after = nodes[before as usize].link.next;
        if after == NIL {
            return self.push_back(nodes, index);
        }
        nodes[before as usize].link.next = index;
        nodes[after as usize].link.previous = index;
        let link = &mut nodes[index as usize].link;
        (link.next, link.previous) = (after, before);
    }

    /// Takes out a node of this list.
    pub(super) fn unlink(&mut self, nodes: &mut [ListNode], index: u32) {
        let Link { next, previous, .. } = nodes[index as usize].link;
        if self.first == index {
            self.first = next;
        } else {
            nodes[previous as usize].link.next = next;
        }
        if next != NIL {
            nodes[next as usize].link.previous = previous;
        } else if self.first != NIL {
            nodes[self.first as usize].link.previous = previous;
        }
    }
}

/// Goes on with a pass over a list, up to a timer that is due at `now`: the caller takes it out. The due ticks of all others are
/// told. `None` at the end of the list.
pub(super) fn pass(
    nodes: &[ListNode],
    cursor: &mut u32,
    now: Tick,
    work: &mut Work,
    mut not_due: impl FnMut(Tick),
) -> Option<Step> {
    while *cursor != NIL {
        if !work.spend() {
            return Some(Step::OutOfWork);
        }
        let index = *cursor;
        let node = &nodes[index as usize];
        *cursor = node.link.next;
        if node.due <= now {
            return Some(Step::Due(index));
        }
        not_due(node.due);
    }
    None
}
