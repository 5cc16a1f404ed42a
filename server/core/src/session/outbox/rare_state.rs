use std::collections::VecDeque;

use super::subscription::Subscription;

/// State that few sessions need.
#[derive(Debug)]
pub(super) struct RareState<C> {
    /// The subscriptions in slot 1 and above.
    pub(super) subscriptions: Vec<Option<Subscription<C>>>,
    /// `None` if all queues are empty.
    pub(super) queues: Option<Box<Queues>>,
    /// Last seq to leave the ring that belonged to an ended subscription.
    pub(super) last_orphan_evicted: u64,
    /// Whether any subscription has a notice, pending or sent.
    pub(super) has_notices: bool,
}

/// Queues that are rarely in use for more than a moment.
#[derive(Debug, Default)]
pub(super) struct Queues {
    /// Ready subscriptions behind `next_ready`, in the order of their turns.
    pub(super) waiting: VecDeque<u32>,
    /// Subscriptions whose gaps are sent before anything is resent, in the order of the gaps' seqs.
    pub(super) pending_gaps: VecDeque<u32>,
    /// Subscriptions with pending notices, in the order in which these are sent.
    pub(super) notices: VecDeque<u32>,
}

/// The size matters because every session with more than one subscription has a `RareState`. The server's
/// channel handle takes 16 bytes.
const _: () = assert!(size_of::<RareState<[u64; 2]>>() <= 48);

impl<C> Default for RareState<C> {
    fn default() -> Self {
        Self { subscriptions: Vec::new(), queues: None, last_orphan_evicted: 0, has_notices: false }
    }
}

impl<C> RareState<C> {
    pub(super) fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
            && self.queues.is_none()
            && self.last_orphan_evicted == 0
            && !self.has_notices
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> {
        self.queues.iter().flat_map(|queues| queues.waiting.iter().copied())
    }

    pub(super) fn pending_gaps(&self) -> impl Iterator<Item = u32> {
        self.queues.iter().flat_map(|queues| queues.pending_gaps.iter().copied())
    }

    pub(super) fn next_notice(&self) -> Option<u32> {
        self.queues.as_ref()?.notices.front().copied()
    }
}

impl Queues {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.pending_gaps.is_empty() && self.notices.is_empty()
    }
}
