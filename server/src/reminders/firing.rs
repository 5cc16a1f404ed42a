//! What is done when a reminder is due.

use std::sync::Arc;
use std::time::Duration;

use encke_core::message::Content;
use serde_json::value::RawValue;

use super::Reminders;
use super::reminder::{Action, ReminderKey, already_compact};
use super::table::Entry;
use crate::admission::Holder;
use crate::channel::ChannelName;
use crate::engine::EngineError;
use crate::metrics::ReminderOutcome;
use crate::timeouts::{OwnerKey, RequestedDeadline};

/// Reminders that an engine is asked to publish at once. It has room for more, for clients publish, too.
pub(super) const MOST_PUBLISHING: usize = 256;
/// How long an engine that has too much to do is left alone.
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

impl Reminders {
    /// A timer has expired: a reminder may be due. Returns whether it was.
    pub(crate) fn handle_timeout(self: &Arc<Self>, owner: OwnerKey) -> bool {
        let Some(key) = self.owners.get(owner) else { return false };
        let now = self.timeouts.clock().now();
        let (Entry { action, timer, .. }, armed) = {
            let mut table = self.table.lock();
            let Some(entry) = table.take_due(&key, now) else { return false };
            table.under_way += 1;
            let armed = self.timeouts.request(&entry.timer, RequestedDeadline::NONE);
            (entry, armed)
        };
        self.end_timer(&timer, armed);
        match action {
            Action::Webhook { name, data } => {
                if let Some(webhooks) = &self.webhooks {
                    webhooks.reminder_due(&name, &key, &data);
                }
                self.is_over(ReminderOutcome::Told);
            }
            Action::Publish { channel, data } => {
                // An engine may answer later, and a worker does not wait.
                let publish = Arc::clone(self).publish(key, channel, data);
                self.executor.spawn(Box::pin(publish));
            }
        }
        true
    }

    async fn publish(self: Arc<Self>, key: Arc<ReminderKey>, channel: ChannelName, data: Arc<RawValue>) {
        let outcome = match self.append(&channel, &data).await {
            Ok(_) => ReminderOutcome::Published,
            Err(EngineError::Draining) if self.put_back(&key, &channel, data) => ReminderOutcome::PutBack,
            Err(error) => {
                let key = key.as_str();
                tracing::error!(key, %channel, %error, "a reminder was not published");
                ReminderOutcome::Failed
            }
        };
        self.is_over(outcome);
    }

    /// Publishes it, once it is its turn. An engine that has too much to do has done nothing, and is asked again.
    async fn append(&self, channel: &ChannelName, data: &RawValue) -> Result<(), EngineError> {
        loop {
            let turn = self.publishing.acquire().await.expect("it is never closed");
            let answer = {
                let content = Content::from(already_compact(data));
                self.engine.append(channel, &Holder::Operator, &content, None)
            };
            match answer.await {
                Err(EngineError::Overloaded) => {
                    drop(turn);
                    self.timeouts.sleep(BETWEEN_TRIES).await;
                }
                answer => return answer.map(drop),
            }
        }
    }

    /// The channels were closed before it was published: it is for the next process, unless another has its key.
    fn put_back(&self, key: &ReminderKey, channel: &ChannelName, data: Arc<RawValue>) -> bool {
        let now = self.timeouts.clock().now();
        let mut table = self.table.lock();
        if !table.is_closed || table.entries.contains_key(key) {
            return false;
        }
        let action = Action::Publish { channel: channel.clone(), data };
        // No deadline is requested: nothing is due in this process any more.
        self.place(&mut table, key.clone(), now, action);
        true
    }

    /// One fewer is being carried out.
    fn is_over(&self, outcome: ReminderOutcome) {
        self.metrics.reminders.fired(outcome);
        let under_way = {
            let mut table = self.table.lock();
            table.under_way -= 1;
            table.under_way
        };
        if under_way == 0 {
            self.settled.notify_waiters();
        }
    }

    /// Waits until those that were due have been carried out, or wait again.
    pub(crate) async fn settled(&self) {
        loop {
            let settled = self.settled.notified();
            if self.table.lock().under_way == 0 {
                return;
            }
            settled.await;
        }
    }
}
