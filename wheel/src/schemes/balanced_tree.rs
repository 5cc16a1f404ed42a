//! Scheme 3 as a balanced tree.
//!
//! ```text
//!                     [ 31 | 70 ]
//!                    /     |     \
//!   [ 12 | 12 | 20 ]  [ 45 | 52 ]  [ 81 | 90 | 97 ]     5 to 11 timers per node (fewer in this picture),
//!       ^                                               all leaves at the same depth
//!       |
//!   the earliest
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section IV-A, *Scheme 3: Tree-Based Algorithms*; B-trees: R. Bayer and E. McCreight, 1972 |
//! | start | O(log n) |
//! | stop | O(log n) |
//! | per tick | O(log n), plus O(log n) per due timer |
//! | memory | 16 bytes and an `Option<T>` per timer; 18 to 40 bytes in the tree, 29 with random deadlines |
//! | horizon | none |
//! | precision | exact |
//! | wakes | when a timer is due |
//! | bad when | most timers are stopped before they are due, so that their order is never used |

use alloc::collections::BTreeSet;

use super::arena::Node;
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{Tick, WorkBudget};

/// Scheme 3 as a balanced tree: the B-tree of the standard library, ordered by deadline and then by the
/// timer's index. nginx uses a red-black tree. See the [module documentation](self).
pub struct BalancedTree<T>(pub(super) SchemeTimers<Tree, T>);

impl<T> BalancedTree<T> {
    /// Creates an empty tree at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        BalancedTree(SchemeTimers::new(now, Tree { order: BTreeSet::new() }))
    }
}

timer_queue!(BalancedTree);

pub(super) struct Tree {
    order: BTreeSet<(Tick, u32)>,
}

impl TimerScheme for Tree {
    type Link = ();

    fn link(&mut self, nodes: &mut [Node<()>], _now: Tick, index: u32) {
        self.order.insert((nodes[index as usize].due, index));
    }

    fn unlink(&mut self, nodes: &mut [Node<()>], _now: Tick, index: u32) {
        self.order.remove(&(nodes[index as usize].due, index));
    }

    fn advance(
        &mut self,
        _nodes: &mut [Node<()>],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep {
        let Some(&(due, index)) = self.order.first().filter(|&&(due, _)| due <= until) else {
            return AdvanceStep::UpToDate;
        };
        if !work.spend() {
            return AdvanceStep::OutOfBudget;
        }
        *now = due;
        self.order.pop_first();
        AdvanceStep::Due(index)
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
