//! Doubly linked lists of nodes.
//!
//! ```text
//!               +----------------- previous -----------------+
//!               |                                            |
//!               v                                            |
//!    first --> [ 12 ] --- next ---> [ 31 ] --- next ---> [ 70 ] --> NIL
//!                     <- previous --       <- previous --
//!
//!    the last node is found without storing it, so a list takes 4 bytes
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section III-B: doubly linked, so that STOP_TIMER needs no search |
//! | costs | O(1) to add at either end and to remove; O(n) to insert in order, searching from the rear |
//! | memory | 4 bytes per list, 12 per node |
//! | limits | none; emptying a list incurs one dependent memory access per node |

use super::arena::{NIL, Node};
use super::timers::AdvanceStep;
use crate::{Tick, WorkBudget};

#[derive(Clone, Copy, Debug)]
pub(super) struct ListLink {
    /// Index of the next node, or [`NIL`] in the last node.
    pub(super) next: u32,
    /// Index of the previous node. In the first node, the index of the last node, so that the list need not
    /// store its end.
    pub(super) previous: u32,
    /// List that contains the node, if the scheme has several lists.
    pub(super) list: u32,
}

impl Default for ListLink {
    fn default() -> Self {
        ListLink { next: NIL, previous: NIL, list: 0 }
    }
}

const _: () = assert!(size_of::<Node<ListLink>>() == 24);

pub(super) type ListNode = Node<ListLink>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    /// Index of the first node, or [`NIL`] if the list is empty.
    pub(super) first: u32,
}

impl List {
    pub(super) const EMPTY: List = List { first: NIL };

    pub(super) fn is_empty(self) -> bool {
        self.first == NIL
    }

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

    /// Inserts a node after the last node that is not due later, searching from the rear.
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

    pub(super) fn unlink(&mut self, nodes: &mut [ListNode], index: u32) {
        let ListLink { next, previous, .. } = nodes[index as usize].link;
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

/// Continues a pass over a list up to the next timer that is due at `now`, which the caller unlinks. Calls
/// `not_due` with the due tick of each timer that is not due. Returns `None` at the end of the list.
pub(super) fn pass(
    nodes: &[ListNode],
    cursor: &mut u32,
    now: Tick,
    work: &mut WorkBudget,
    mut not_due: impl FnMut(Tick),
) -> Option<AdvanceStep> {
    while *cursor != NIL {
        if !work.spend() {
            return Some(AdvanceStep::OutOfBudget);
        }
        let index = *cursor;
        let node = &nodes[index as usize];
        *cursor = node.link.next;
        if node.due <= now {
            return Some(AdvanceStep::Due(index));
        }
        not_due(node.due);
    }
    None
}
