//! Scheme 3 as a binary heap.
//!
//! ```text
//!   position 0                 [ 12 ]                   the earliest
//!                             /      \
//!            1, 2        [ 31 ]      [ 12 ]
//!                        /    \      /                  the children of p are 2p + 1 and 2p + 2,
//!            3, 4, 5  [ 70 ] [ 31 ] [ 45 ]              neither of them due before p
//!                                ^
//!                                |
//!   node         [ due | position 4 | generation ]      so that STOP needs no search
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section IV-A, *Scheme 3: Tree-Based Algorithms*; heaps: J. Williams, 1964 |
//! | start | O(log n); O(1) on average for random deadlines |
//! | stop | O(log n) |
//! | per tick | O(1), plus O(log n) per due timer |
//! | memory | 32 bytes and an `Option<T>` per timer |
//! | horizon | none |
//! | precision | exact |
//! | wakes | when a timer is due |
//! | bad when | very many timers expire: each sift-down takes log n steps across the whole memory |

use alloc::vec::Vec;

use super::arena::Node;
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{Tick, WorkBudget};

/// Scheme 3 as a binary heap, the most common timer queue, used by libevent, Java and Asio. See the [module
/// documentation](self).
///
/// The heap stores deadlines, so that comparisons need no second look-up, and each timer knows its position
/// in the heap, so that STOP needs no search.
pub struct BinaryHeap<T>(pub(super) SchemeTimers<Heap, T>);

impl<T> BinaryHeap<T> {
    /// Creates an empty heap at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        BinaryHeap(SchemeTimers::new(now, Heap { entries: Vec::new() }))
    }
}

timer_queue!(BinaryHeap);

/// Array in heap order: no entry is due before its parent.
pub(super) struct Heap {
    entries: Vec<HeapEntry>,
}

#[derive(Clone, Copy)]
struct HeapEntry {
    due: Tick,
    index: u32,
}

/// The link is the node's position in the heap.
type HeapNode = Node<u32>;

const _: () = assert!(size_of::<HeapNode>() == 16 && size_of::<HeapEntry>() == 16);

impl Heap {
    fn sift_up(&mut self, nodes: &mut [HeapNode], mut position: usize, entry: HeapEntry) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.entries[parent].due <= entry.due {
                break;
            }
            self.put(nodes, position, self.entries[parent]);
            position = parent;
        }
        self.put(nodes, position, entry);
    }

    fn sift_down(&mut self, nodes: &mut [HeapNode], mut position: usize, entry: HeapEntry) {
        loop {
            let mut child = 2 * position + 1;
            if child >= self.entries.len() {
                break;
            }
            if child + 1 < self.entries.len() && self.entries[child + 1].due < self.entries[child].due {
                child += 1;
            }
            if entry.due <= self.entries[child].due {
                break;
            }
            self.put(nodes, position, self.entries[child]);
            position = child;
        }
        self.put(nodes, position, entry);
    }

    fn put(&mut self, nodes: &mut [HeapNode], position: usize, entry: HeapEntry) {
        self.entries[position] = entry;
        nodes[entry.index as usize].link = u32::try_from(position).expect("at most u32::MAX timers");
    }
}

impl TimerScheme for Heap {
    type Link = u32;

    fn link(&mut self, nodes: &mut [HeapNode], _now: Tick, index: u32) {
        let entry = HeapEntry { due: nodes[index as usize].due, index };
        self.entries.push(entry);
        self.sift_up(nodes, self.entries.len() - 1, entry);
    }

    fn unlink(&mut self, nodes: &mut [HeapNode], _now: Tick, index: u32) {
        let position = nodes[index as usize].link as usize;
        let last = self.entries.pop().expect("the heap holds the node");
        if position == self.entries.len() {
            return;
        }
        if last.due < self.entries[position].due {
            self.sift_up(nodes, position, last);
        } else {
            self.sift_down(nodes, position, last);
        }
    }

    fn advance(
        &mut self,
        nodes: &mut [HeapNode],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep {
        let Some(&first) = self.entries.first().filter(|first| first.due <= until) else {
            return AdvanceStep::UpToDate;
        };
        if !work.spend() {
            return AdvanceStep::OutOfBudget;
        }
        *now = first.due;
        self.unlink(nodes, first.due, first.index);
        AdvanceStep::Due(first.index)
    }

    fn next_wakeup(&self, _nodes: &[HeapNode], _now: Tick) -> Option<Tick> {
        self.entries.first().map(|first| first.due)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[HeapNode], now: Tick) -> Vec<u32> {
        for (position, entry) in self.entries.iter().enumerate() {
            let node = &nodes[entry.index as usize];
            assert_eq!((node.link as usize, node.due), (position, entry.due), "node {}", entry.index);
            let parent = &self.entries[position.saturating_sub(1) / 2];
            assert!(parent.due <= entry.due && now <= entry.due, "{} below {}", entry.due, parent.due);
        }
        self.entries.iter().map(|entry| entry.index).collect()
    }
}
