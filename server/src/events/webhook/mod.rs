//! Webhooks: the backend of whoever runs the server is told what happens, by signed HTTP requests as Standard Webhooks names them.
//!
//! ```text
//!  a session's step ──▶ lane: queue ──▶ batch ──▶ POST, again and again ──▶ the next batch
//!  (under its lock)     (bounded)      (100 events, or what came in 50 ms)
//! ```
//!
//! Each webhook has a few lanes; the events of one session, of one channel, or of one reminder's key, are all in one. A lane has one request under way, so they arrive in order. They are
//! put into the lane under the lock of their session, which is what makes that order exact. At least once: the answer to a request may be lost. The
//! id of a request, and those of its events, are the same at every try.

mod batch;
mod event;
mod lane;
mod lanes;
mod settings;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use encke_core::session::LifecycleEvent;
use serde_json::value::RawValue;

use crate::channel::{ChannelName, OccupancySink};
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::Metrics;
use crate::reminders::{ReminderKey, WebhookSink};
use crate::session::SessionId;
use crate::timeouts::Timeouts;
use event::{Event, Subject};
use lanes::Webhook;

pub(crate) use event::EventName;
pub(crate) use lanes::LANES;
pub(crate) use settings::WebhookSettings;

/// Every webhook.
#[derive(Debug)]
pub(crate) struct Webhooks {
    webhooks: Vec<Arc<Webhook>>,
    timeouts: Arc<Timeouts>,
    /// Begins the ids of all events since the start, here and on no other server.
    run: Box<str>,
    /// Events so far.
    events: AtomicU64,
}

impl Webhooks {
    /// Their queues. Nothing is sent before [`Self::start`]; nothing, where there are no webhooks.
    pub(crate) fn new(
        settings: &[WebhookSettings],
        timeouts: &Arc<Timeouts>,
        entropy: &Entropy,
        metrics: &Metrics,
    ) -> Option<Arc<Self>> {
        let make = |settings: &WebhookSettings| {
            let counters = metrics.webhooks.of(&settings.name);
            Arc::new(Webhook::new(settings.clone(), counters, Arc::clone(timeouts), entropy.clone()))
        };
        let webhooks: Vec<_> = settings.iter().map(make).collect();
        let run = data_encoding::BASE64URL_NOPAD.encode(&entropy.bytes::<12>()).into();
        let timeouts = Arc::clone(timeouts);
        (!webhooks.is_empty()).then(|| Arc::new(Self { webhooks, timeouts, run, events: AtomicU64::new(0) }))
    }

    /// Begins to send.
    pub(crate) fn start(&self, executor: &dyn Executor) {
        self.webhooks.iter().for_each(|webhook| webhook.start(executor));
    }

    /// Whether any of them is told when the first follows a channel, or the last has left.
    pub(crate) fn want_channels(&self) -> bool {
        self.webhooks.iter().any(|webhook| webhook.wants(EventName::is_of_channel))
    }

    /// A session has gone through this transition. Its lock is held.
    pub(crate) fn session_event(&self, id: SessionId, user: Option<&Arc<str>>, event: LifecycleEvent) {
        let subject = Subject::Session {
            id,
            user: user.cloned(),
            number: event.number,
            reason: event.transition.reason(),
        };
        self.tell(EventName::of(event.transition), lane_of(&id.number()), subject);
    }

    /// What is queued is sent at once from here on.
    pub(crate) fn hurry(&self) {
        self.webhooks.iter().for_each(|webhook| webhook.pending.hurry());
    }

    /// Waits until everything was delivered or given up.
    pub(crate) async fn flushed(&self) {
        for webhook in &self.webhooks {
            webhook.pending.flushed().await;
        }
    }

    /// How many events wait, or are on their way.
    pub(crate) fn queued(&self) -> usize {
        self.webhooks.iter().map(|webhook| webhook.pending.len()).sum()
    }

    fn tell(&self, name: EventName, lane: u64, subject: Subject) {
        let mut interested = self.webhooks.iter().filter(|webhook| webhook.wants(|event| event == name));
        let Some(first) = interested.next() else { return };
        let event = self.event(name, subject);
        for webhook in interested {
            webhook.push(lane, event.clone());
        }
        first.push(lane, event);
    }

    fn event(&self, name: EventName, subject: Subject) -> Event {
        let number = self.events.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", self.run).into();
        Event { id, name, at: self.timeouts.clock().unix_now(), subject }
    }

    fn named(&self, name: &str) -> Option<&Arc<Webhook>> {
        self.webhooks.iter().find(|webhook| &*webhook.settings.name == name)
    }
}

impl OccupancySink for Webhooks {
    fn occupied(&self, channel: &ChannelName) {
        self.tell(EventName::ChannelOccupied, lane_of(channel), Subject::Channel(channel.clone()));
    }

    fn vacated(&self, channel: &ChannelName) {
        self.tell(EventName::ChannelVacated, lane_of(channel), Subject::Channel(channel.clone()));
    }
}

impl WebhookSink for Webhooks {
    fn has(&self, webhook: &str) -> bool {
        self.named(webhook).is_some()
    }

    fn reminder_due(&self, webhook: &str, key: &ReminderKey, data: &Arc<RawValue>) {
        let Some(webhook) = self.named(webhook) else { return };
        let subject = Subject::Reminder { key: key.as_str().into(), data: Arc::clone(data) };
        webhook.push(lane_of(key), self.event(EventName::ReminderDue, subject));
    }
}

fn lane_of(subject: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    subject.hash(&mut hasher);
    hasher.finish()
}
