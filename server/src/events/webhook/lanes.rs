use std::collections::HashSet;
use std::sync::Arc;

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::locks::Mutex;
use encke_base::metrics::WebhookCounters;
use encke_base::outbound::{OutboundClient, Pending};
use encke_timeouts::Timeouts;
use tokio::sync::Notify;

use super::batch::{EventBatch, LaneQueue, MAX_BATCH_EVENTS};
use super::event::{EventName, WebhookEvent};
use super::lane::DeliveryFailure;
use super::settings::WebhookSettings;

/// Number of lanes per webhook. Each has at most one request in flight.
pub(crate) const LANES: usize = 8;
/// Maximum size of a response body, in bytes. Only the status of a response is used; a connection that
/// delivers a longer body is closed.
const MAX_RESPONSE_BYTES: usize = 16 * 1024;

/// Maximum number of problems that are logged until a request succeeds.
const MAX_LOGGED: usize = 64;

/// A webhook with its lanes and their shared state.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) settings: WebhookSettings,
    pub(super) client: OutboundClient,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) entropy: Entropy,
    pub(super) counters: WebhookCounters,
    lanes: [Arc<Lane>; LANES],
    /// Counts the queued and in-flight events of all lanes.
    pub(super) pending: Pending,
    /// Problems that were logged since the latest success.
    logged: Mutex<HashSet<String>>,
}

/// Queue of events that must arrive in order.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) queue: LaneQueue,
    /// Notified when the queue gets its first event, and when it holds a full batch.
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
            client: OutboundClient::new(
                settings.trust.clone(),
                Arc::clone(&timeouts),
                LANES,
                MAX_RESPONSE_BYTES,
            ),
            settings,
            timeouts,
            entropy,
            counters,
            lanes: Default::default(),
            pending: Pending::default(),
            logged: Mutex::default(),
        }
    }

    /// Spawns one task per lane, which runs until the runtime shuts down.
    pub(super) fn start(self: &Arc<Self>, executor: &dyn Executor) {
        for lane in &self.lanes {
            executor.spawn(Box::pin(Arc::clone(lane).run(Arc::clone(self))));
        }
    }

    /// Returns whether the webhook subscribes to an event that matches the predicate.
    pub(super) fn subscribes_to(&self, matches: impl Fn(EventName) -> bool) -> bool {
        self.settings.events.iter().any(|event| matches(*event))
    }

    /// Queues an event, or drops it if the limit is reached.
    pub(super) fn push(&self, lane: u64, event: WebhookEvent) {
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is less than the number of lanes")]
        let lane = &self.lanes[(lane % LANES as u64) as usize];
        if !self.pending.enter(self.settings.max_queued) {
            self.counters.overflowed();
            return lane.queue.count_dropped(1);
        }
        self.counters.queued();
        if matches!(lane.queue.push(event), 1 | MAX_BATCH_EVENTS) {
            lane.filled.notify_one();
        }
    }

    /// Removes a finished batch, whether delivered or dropped, from the counts.
    pub(super) fn finish(&self, batch: &EventBatch) {
        self.counters.dequeued(batch.events);
        self.pending.leave(batch.events);
    }

    /// Records the result of a request. Logs each problem once until a request succeeds, and then the recovery.
    pub(super) fn record_result(&self, problem: Option<&DeliveryFailure>) {
        let webhook = &*self.settings.name;
        self.counters.requested(problem.is_none());
        let mut logged = self.logged.lock();
        match problem {
            None if !logged.is_empty() => {
                logged.clear();
                tracing::info!(webhook, queued = self.pending.len(), "webhook recovered")
            }
            Some(problem) if logged.len() < MAX_LOGGED && logged.insert(problem.to_string()) => {
                let (url, body) = (&self.settings.target, problem.body());
                tracing::warn!(webhook, %url, %problem, body, "webhook request failed: events are queued and retried");
            }
            Some(problem) => tracing::debug!(webhook, %problem, "webhook request failed"),
            None => {}
        }
    }
}
