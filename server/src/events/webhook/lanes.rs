use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::batch::{Batch, MOST_EVENTS, Queue};
use super::event::{Event, EventName};
use super::settings::WebhookSettings;
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::WebhookCounters;
use crate::outbound::{Client, Pending};
use crate::timeouts::Timeouts;

/// Each has one request under way at most.
pub(crate) const LANES: usize = 8;
/// Nobody wants to know more of an answer than its status. What is longer costs its connection.
const LONGEST_ANSWER: usize = 16 * 1024;

/// One webhook: its lanes, and what they share.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) settings: WebhookSettings,
    pub(super) client: Client,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) entropy: Entropy,
    pub(super) counters: WebhookCounters,
    lanes: [Arc<Lane>; LANES],
    /// Events.
    pub(super) pending: Pending,
    /// The last request that was answered or given up was not accepted.
    is_failing: AtomicBool,
}

/// Events that must arrive one after the other.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) queue: Queue,
    /// There is a first event, or a whole batch.
    pub(super) filled: Notify,
}

impl Webhook {
    pub(super) fn new(
        settings: WebhookSettings,
        counters: WebhookCounters,
        timeouts: Arc<Timeouts>,
        entropy: Entropy,
    ) -> Self {
        Self {
            client: Client::new(settings.trust.clone(), Arc::clone(&timeouts), LANES, LONGEST_ANSWER),
            settings,
            timeouts,
            entropy,
            counters,
            lanes: Default::default(),
            pending: Pending::default(),
            is_failing: AtomicBool::new(false),
        }
    }

    /// One task a lane, for as long as the runtime lives.
    pub(super) fn start(self: &Arc<Self>, executor: &dyn Executor) {
        for lane in &self.lanes {
            executor.spawn(Box::pin(Arc::clone(lane).run(Arc::clone(self))));
        }
    }

    /// Whether it is told of any such event.
    pub(super) fn wants(&self, is_such: impl Fn(EventName) -> bool) -> bool {
        self.settings.events.iter().any(|event| is_such(*event))
    }

    /// Has it told, unless too many wait.
    pub(super) fn push(&self, lane: u64, event: Event) {
        #[expect(clippy::cast_possible_truncation, reason = "it is less than the number of lanes")]
        let lane = &self.lanes[(lane % LANES as u64) as usize];
        if !self.pending.enter(self.settings.max_queued) {
            self.counters.overflowed();
            return lane.queue.dropped(1);
        }
        self.counters.queued();
        if matches!(lane.queue.push(event), 1 | MOST_EVENTS) {
            lane.filled.notify_one();
        }
    }

    /// The backend has these, or never will.
    pub(super) fn is_over(&self, batch: &Batch) {
        self.counters.no_longer_queued(batch.events);
        self.pending.leave(batch.events);
    }

    /// A request was accepted, unless there was a problem. The log is told when that changes.
    pub(super) fn went(&self, problem: Option<&dyn Display>) {
        let webhook = &*self.settings.name;
        self.counters.requested(problem.is_none());
        let was_failing = self.is_failing.swap(problem.is_some(), Ordering::Relaxed);
        match problem {
            None if was_failing => {
                tracing::info!(webhook, queued = self.pending.len(), "it accepts events again")
            }
            Some(problem) if !was_failing => {
                tracing::warn!(webhook, %problem, "it does not accept events: they wait, and are sent again");
            }
            Some(problem) => tracing::debug!(webhook, %problem, "it does not accept events"),
            None => {}
        }
    }
}
