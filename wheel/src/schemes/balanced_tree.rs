//! Scheme 3 as a balanced tree.
//!
//! ```text
//!                     [ 31 | 70 ]
//!                    /     |     \
//!   [ 12 | 12 | 20 ]  [ 45 | 52 ]  [ 81 | 90 | 97 ]     5 to 11 timers a node (here fewer),
//!       ^                                               all leaves equally deep
//!       |
//!   the earliest
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section IV-A, *Scheme 3: Tree-Based Algorithms*; B-trees: R. Bayer and E. McCreight, 1972 |
//! | start | O(log n) |
//! | stop | O(log n) |
//! | per tick | O(log n), and O(log n) for each timer due |
//! | memory | 16 bytes a timer and an `Option<T>`; in the tree 18 to 40, with random deadlines 29 |
//! | horizon | none |
//! | precision | exact |
//! | wakes | when a timer is due |
//! | bad when | most timers are stopped before they are due: they pay for an order that nobody asked for |

use alloc::collections::BTreeSet;

use super::arena::Node;
use super::timers::{Scheme, Step, Timers, timer_queue};
use crate::{Tick, Work};

/// Scheme 3 as a balanced tree: the B-tree of the standard library, in the order of deadlines, and of the timers' numbers in
/// memory where those are equal. nginx has a red-black tree in its place. [The module](self) has its picture, source, costs and limits.
pub struct BalancedTree<T>(pub(super) Timers<Tree, T>);

impl<T> BalancedTree<T> {
    /// An empty tree that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        BalancedTree(Timers::new(now, Tree { order: BTreeSet::new() }))
    }
}

timer_queue!(BalancedTree);

pub(super) struct Tree {
    order: BTreeSet<(Tick, u32)>,
}

impl Scheme for Tree {
    type Link = ();

    fn link(&mut self, nodes: &mut [Node<()>], _now: Tick, index: u32) {
        self.order.insert((nodes[index as usize].due, index));
    }

    fn unlink(&mut self, nodes: &mut [Node<()>], _now: Tick, index: u32) {
        self.order.remove(&(nodes[index as usize].due, index));
    }

    fn advance(&mut self, _nodes: &mut [Node<()>], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
        let Some(&(due, index)) = self.order.first().filter(|&&(due, _)| due <= until) else {
            return Step::UpToDate;
        };
        if !work.spend() {
            return Step::OutOfWork;
        }
        *now = due;
        self.order.pop_first();
        Step::Due(index)
    }

    fn next_wakeup(&self, _nodes: &[Node<()>], _now: Tick) -> Option<Tick> {
        self.order.first().map(|&(due, _)| due)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[Node<()>], now: Tick) -> alloc::vec::Vec<u32> {
        for &(due, index) in &self.order {
            assert!(now <= due && nodes[index as usize].due == due, "node {index}");
        }
        self.order.iter().map(|&(_, index)| index).collect()
    }
}
