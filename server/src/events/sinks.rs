use std::sync::Arc;

use encke_base::metrics::Metrics;
use encke_broker::channel::{Occupancy, OccupancySink};
use encke_broker::engine::UserEventSink;
use encke_core::session::LifecycleEvent;

use super::hooks::HookSink;
use super::webhook::Webhooks;
use crate::reminders::WebhookSink;
use crate::session::{EventSink, SessionId, UserSink};

/// Receivers of events, and the metrics that count them.
pub(crate) struct Sinks {
    pub(crate) metrics: Arc<Metrics>,
    /// Receives session events.
    pub(crate) sessions: Box<dyn EventSink>,
    /// Tracks which channels have subscribers, if a webhook subscribes to channel events.
    pub(crate) channels: Option<Arc<Occupancy>>,
    /// Receives changes between online and offline, if a webhook subscribes to user events.
    pub(crate) users: Option<Arc<dyn UserSink>>,
    /// Receives these changes if several servers share their users.
    pub(crate) shared_users: Option<Arc<dyn UserEventSink>>,
    /// Receives due reminders.
    pub(crate) reminders: Option<Arc<dyn WebhookSink>>,
}

impl Sinks {
    /// Combines the hooks with the webhooks, if any are configured.
    pub(crate) fn combine(hooks: HookSink, webhooks: Option<&Arc<Webhooks>>, metrics: Arc<Metrics>) -> Self {
        let Some(webhooks) = webhooks else {
            return Self { metrics, ..Self::from(Box::new(hooks)) };
        };
        let wants_users = webhooks.any_wants_user_events();
        let channels = || Arc::new(Occupancy::new(Arc::clone(webhooks) as Arc<dyn OccupancySink>));
        Self {
            metrics,
            users: wants_users.then(|| Arc::clone(webhooks) as Arc<dyn UserSink>),
            shared_users: wants_users.then(|| Arc::clone(webhooks) as Arc<dyn UserEventSink>),
            channels: webhooks.any_wants_channel_events().then(channels),
            reminders: Some(Arc::clone(webhooks) as Arc<dyn WebhookSink>),
            sessions: Box::new(HooksAndWebhooks(hooks, Arc::clone(webhooks))),
        }
    }
}

impl<S: EventSink> From<Box<S>> for Sinks {
    fn from(sessions: Box<S>) -> Self {
        Self {
            metrics: Arc::new(Metrics::new()),
            sessions,
            channels: None,
            users: None,
            shared_users: None,
            reminders: None,
        }
    }
}

struct HooksAndWebhooks(HookSink, Arc<Webhooks>);

impl EventSink for HooksAndWebhooks {
    fn wants_order(&self) -> bool {
        true
    }

    fn session_event_in_order(&self, session: SessionId, user: Option<&Arc<str>>, event: LifecycleEvent) {
        self.1.session_event(session, user, event);
    }

    fn session_event(&self, session: SessionId, user: Option<&str>, event: LifecycleEvent) {
        self.0.session_event(session, user, event);
    }

    fn service_message(&self, session: SessionId, user: Option<&str>, channel: &str, data: &str) -> bool {
        self.0.service_message(session, user, channel, data)
    }
}
