//! Webhooks: events for the operator's backend, as HTTP requests signed according to Standard Webhooks.
//!
//! ```text
//!  a session's step ──▶ lane: queue ──▶ batch ──▶ POST, with retries ──▶ the next batch
//!  (under its lock)     (bounded)      (100 events, or those of 50 ms)
//! ```
//!
//! Each webhook has several lanes. All events of one session, channel, user or reminder key use the same lane.
//! A lane has one request in flight at a time, so events arrive in order. Session events are queued
//! while the session is locked, so their order is exact. Delivery is at least once, because the response to a
//! request may be lost. The id of a request and the ids of its events stay the same in every attempt.

mod batch;
mod event;
mod lane;
mod lanes;
mod settings;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::metrics::Metrics;
use encke_broker::channel::{ChannelName, OccupancySink};
use encke_broker::engine::{UserEvent, UserEventSink};
use encke_core::session::LifecycleEvent;
use encke_timeouts::Timeouts;
use serde_json::value::RawValue;

use crate::reminders::{ReminderKey, WebhookSink};
use crate::session::{SessionId, UserSink};
use event::{EventSubject, WebhookEvent};
use lanes::Webhook;

pub use event::EventName;
pub(crate) use lanes::LANES;
pub(crate) use settings::WebhookSettings;

/// All configured webhooks.
#[derive(Debug)]
pub(crate) struct Webhooks {
    webhooks: Vec<Arc<Webhook>>,
    timeouts: Arc<Timeouts>,
    /// Random prefix of all event ids, unique to this run of this server.
    run_id: Box<str>,
    /// Number of events so far.
    event_count: AtomicU64,
}

impl Webhooks {
    /// Creates the queues, or returns `None` if no webhook is configured. Nothing is sent before
    /// [`Self::start`].
    pub(crate) fn new(
        settings: &[WebhookSettings],
        timeouts: &Arc<Timeouts>,
        entropy: &Entropy,
        metrics: &Metrics,
    ) -> Option<Arc<Self>> {
        let make = |settings: &WebhookSettings| {
            let counters = metrics.webhooks.counters_for(&settings.name);
            Arc::new(Webhook::new(settings.clone(), counters, Arc::clone(timeouts), entropy.clone()))
        };
        let webhooks: Vec<_> = settings.iter().map(make).collect();
        let run_id = data_encoding::BASE64URL_NOPAD.encode(&entropy.bytes::<12>()).into();
        let timeouts = Arc::clone(timeouts);
        (!webhooks.is_empty())
            .then(|| Arc::new(Self { webhooks, timeouts, run_id, event_count: AtomicU64::new(0) }))
    }

    /// Starts sending.
    pub(crate) fn start(&self, executor: &dyn Executor) {
        self.webhooks.iter().for_each(|webhook| webhook.start(executor));
    }

    /// Returns whether any webhook subscribes to channel events.
    pub(crate) fn any_wants_channel_events(&self) -> bool {
        self.webhooks.iter().any(|webhook| webhook.subscribes_to(EventName::is_channel_event))
    }

    /// Returns whether any webhook subscribes to user events.
    pub(crate) fn any_wants_user_events(&self) -> bool {
        self.webhooks.iter().any(|webhook| webhook.subscribes_to(EventName::is_user_event))
    }

    /// Queues a session's transition. The caller holds the session's lock.
    pub(crate) fn session_event(&self, id: SessionId, user: Option<&Arc<str>>, event: LifecycleEvent) {
        let subject = EventSubject::Session {
            id,
            user: user.cloned(),
            number: event.number,
            reason: event.transition.reason(),
        };
        self.enqueue(EventName::of(event.transition), lane_of(&id.number()), subject);
    }

    /// Sends queued events without delay from now on, because the server is shutting down.
    pub(crate) fn hurry(&self) {
        self.webhooks.iter().for_each(|webhook| webhook.pending.hurry());
    }

    /// Waits until every event has been delivered or dropped.
    pub(crate) async fn flushed(&self) {
        for webhook in &self.webhooks {
            webhook.pending.flushed().await;
        }
    }

    /// Number of events that are queued or in flight.
    pub(crate) fn queued(&self) -> usize {
        self.webhooks.iter().map(|webhook| webhook.pending.len()).sum()
    }

    fn enqueue(&self, name: EventName, lane: u64, subject: EventSubject) {
        self.push(name, lane, || self.event(name, subject));
    }

    fn push(&self, name: EventName, lane: u64, event: impl FnOnce() -> WebhookEvent) {
        let mut interested =
            self.webhooks.iter().filter(|webhook| webhook.subscribes_to(|event| event == name));
        let Some(first) = interested.next() else { return };
        let event = event();
        for webhook in interested {
            webhook.push(lane, event.clone());
        }
        first.push(lane, event);
    }

    fn event(&self, name: EventName, subject: EventSubject) -> WebhookEvent {
        let number = self.event_count.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", self.run_id).into();
        WebhookEvent { id, name, at: self.timeouts.clock().unix_now(), subject }
    }

    fn by_name(&self, name: &str) -> Option<&Arc<Webhook>> {
        self.webhooks.iter().find(|webhook| &*webhook.settings.name == name)
    }
}

impl OccupancySink for Webhooks {
    fn occupied(&self, channel: &ChannelName) {
        self.enqueue(EventName::ChannelOccupied, lane_of(channel), EventSubject::Channel(channel.clone()));
    }

    fn vacated(&self, channel: &ChannelName) {
        self.enqueue(EventName::ChannelVacated, lane_of(channel), EventSubject::Channel(channel.clone()));
    }
}

impl UserSink for Webhooks {
    fn online(&self, user: &Arc<str>) {
        self.enqueue(EventName::UserOnline, lane_of(user), EventSubject::User(Arc::clone(user)));
    }

    fn offline(&self, user: &Arc<str>) {
        self.enqueue(EventName::UserOffline, lane_of(user), EventSubject::User(Arc::clone(user)));
    }
}

impl UserEventSink for Webhooks {
    fn user_event(&self, event: UserEvent) {
        let UserEvent { id, at, user, is_online } = event;
        let name = if is_online { EventName::UserOnline } else { EventName::UserOffline };
        let lane = lane_of(&user);
        let subject = EventSubject::User(user.into());
        self.push(name, lane, || WebhookEvent { id, name, at, subject });
    }
}

impl WebhookSink for Webhooks {
    fn has(&self, webhook: &str) -> bool {
        self.by_name(webhook).is_some()
    }

    fn reminder_due(&self, webhook: &str, key: &ReminderKey, data: &Arc<RawValue>) {
        let Some(webhook) = self.by_name(webhook) else { return };
        let subject = EventSubject::Reminder { key: key.as_str().into(), data: Arc::clone(data) };
        webhook.push(lane_of(key), self.event(EventName::ReminderDue, subject));
    }
}

fn lane_of(subject: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    subject.hash(&mut hasher);
    hasher.finish()
}
