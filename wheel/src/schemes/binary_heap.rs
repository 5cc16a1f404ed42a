//! Scheme 3 as a binary heap.
//!
//! ```text
//!   position 0                 [ 12 ]                   the earliest
//!                             /      \
//!            1, 2        [ 31 ]      [ 12 ]
//!                        /    \      /                  below p are 2p + 1 and 2p + 2,
//!            3, 4, 5  [ 70 ] [ 31 ] [ 45 ]              neither of them due before p
//!                                ^
//!                                |
//!   node         [ due | position 4 | generation ]      so that STOP need not search
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section IV-A, *Scheme 3: Tree-Based Algorithms*; heaps: J. Williams, 1964 |
//! | start | O(log n); O(1) on average if deadlines are random |
//! | stop | O(log n) |
//! | per tick | O(1), and O(log n) for each timer due |
//! | memory | 32 bytes a timer and an `Option<T>` |
//! | horizon | none |
//! | precision | exact |
//! | wakes | when a timer is due |
//! | bad when | very many timers expire: each way down the heap is log n steps through all of the memory |

use alloc::vec::Vec;

use super::arena::Node;
use super::timers::{Scheme, Step, Timers, timer_queue};
use crate::{Tick, Work};

/// Scheme 3 as a binary heap, the most common timer queue of all: libevent, Java and Asio have it. [The module](self) has its picture, source, costs and
/// limits.
///
/// The heap holds deadlines, so that a comparison needs no second look-up, and each timer knows its position in the heap,
/// so that STOP needs no search.
pub struct BinaryHeap<T>(pub(super) Timers<Heap, T>);

impl<T> BinaryHeap<T> {
    /// An empty heap that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        BinaryHeap(Timers::new(now, Heap { entries: Vec::new() }))
    }
}

timer_queue!(BinaryHeap);

/// No entry is due before the one at half its position.
pub(super) struct Heap {
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    due: Tick,
    index: u32,
}

/// A node's position in the heap.
type HeapNode = Node<u32>;

const _: () = assert!(size_of::<HeapNode>() == 16 && size_of::<Entry>() == 16);

impl Heap {
    /// Moves `entry` up from `position`, which is vacant.
    fn sift_up(&mut self, nodes: &mut [HeapNode], mut position: usize, entry: Entry) {
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

    /// Moves `entry` down from `position`, which is vacant.
    fn sift_down(&mut self, nodes: &mut [HeapNode], mut position: usize, entry: Entry) {
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

    fn put(&mut self, nodes: &mut [HeapNode], position: usize, entry: Entry) {
        self.entries[position] = entry;
        nodes[entry.index as usize].link = u32::try_from(position).expect("at most u32::MAX timers");
    }
}

impl Scheme for Heap {
    type Link = u32;

    fn link(&mut self, nodes: &mut [HeapNode], _now: Tick, index: u32) {
        let entry = Entry { due: nodes[index as usize].due, index };
        self.entries.push(entry);
        self.sift_up(nodes, self.entries.len() - 1, entry);
    }

    fn unlink(&mut self, nodes: &mut [HeapNode], _now: Tick, index: u32) {
        let position = nodes[index as usize].link as usize;
        let last = self.entries.pop().expect("it holds the node");
        if position == self.entries.len() {
            return;
        }
        if last.due < self.entries[position].due {
            self.sift_up(nodes, position, last);
        } else {
            self.sift_down(nodes, position, last);
        }
    }

    fn advance(&mut self, nodes: &mut [HeapNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
        let Some(&first) = self.entries.first().filter(|first| first.due <= until) else {
            return Step::UpToDate;
        };
        if !work.spend() {
            return Step::OutOfWork;
        }
        *now = first.due;
        self.unlink(nodes, first.due, first.index);
        Step::Due(first.index)
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
