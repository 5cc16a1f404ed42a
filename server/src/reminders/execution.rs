//! Execution of due reminders.

use std::sync::Arc;
use std::time::Duration;

use encke_base::metrics::ReminderOutcome;
use encke_base::quota::QuotaOwner;
use encke_broker::channel::ChannelName;
use encke_broker::engine::EngineError;
use encke_core::message::Content;
use encke_timeouts::{OwnerKey, RequestedDeadline};
use serde_json::value::RawValue;

use super::Reminders;
use super::reminder::{ReminderAction, ReminderKey, already_compact};
use super::table::ReminderEntry;

/// Pause before the next attempt if the engine is overloaded.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

impl Reminders {
    /// Handles an expired timer. Returns how late the reminder is; `None` if it was moved or deleted in the
    /// meantime.
    pub(crate) fn handle_timeout(self: &Arc<Self>, owner: OwnerKey) -> Option<Duration> {
        let key = self.owners.get(owner)?;
        let now = self.timeouts.clock().now();
        let (ReminderEntry { due, action, timer }, armed) = {
            let mut table = self.table.lock();
            let entry = table.take_due(&key, now)?;
            table.executing += 1;
            let armed = self.timeouts.request(&entry.timer, RequestedDeadline::NONE);
            (entry, armed)
        };
        self.end_timer(&timer, armed);
        match action {
            ReminderAction::Webhook { name, data } => {
                if let Some(webhooks) = &self.webhooks {
                    webhooks.reminder_due(&name, &key, &data);
                }
                self.finish(ReminderOutcome::SentToWebhook);
            }
            ReminderAction::Publish { channel, data } => {
                // The engine may not respond immediately, and a worker must not wait for it.
                let publish = Arc::clone(self).publish(key, channel, data);
                self.executor.spawn(Box::pin(publish));
            }
        }
        Some(now.since(due))
    }

    async fn publish(self: Arc<Self>, key: Arc<ReminderKey>, channel: ChannelName, data: Arc<RawValue>) {
        let outcome = match self.append(&channel, &data).await {
            Ok(_) => ReminderOutcome::Published,
            Err(EngineError::Draining) if self.put_back(&key, &channel, data) => ReminderOutcome::PutBack,
            Err(error) => {
                let key = key.as_str();
                tracing::error!(key, %channel, %error, "reminder could not be published; it is lost");
                ReminderOutcome::Failed
            }
        };
        self.finish(outcome);
    }

    /// Publishes a reminder when a permit is available. Retries while the engine is overloaded, in which case
    /// it has not appended anything.
    async fn append(&self, channel: &ChannelName, data: &RawValue) -> Result<(), EngineError> {
        loop {
            let turn = self.publishing.acquire().await.expect("the semaphore is never closed");
            let answer = {
                let content = Content::from(already_compact(data));
                self.engine.append(channel, &QuotaOwner::Operator, &content, None)
            };
            match answer.await {
                Err(EngineError::Overloaded) => {
                    drop(turn);
                    self.timeouts.sleep(RETRY_PAUSE).await;
                }
                answer => return answer.map(drop),
            }
        }
    }

    /// Puts a reminder back into the table if the channels were closed before it was published: the next
    /// process will publish it, unless its key has been reused.
    fn put_back(&self, key: &ReminderKey, channel: &ChannelName, data: Arc<RawValue>) -> bool {
        let now = self.timeouts.clock().now();
        let mut table = self.table.lock();
        if !table.is_closed || table.entries.contains_key(key) {
            return false;
        }
        let action = ReminderAction::Publish { channel: channel.clone(), data };
        // Do not request a deadline, because no reminder fires in this process from now on.
        self.insert(&mut table, key.clone(), now, action);
        true
    }

    /// Records that a reminder has been executed or put back.
    fn finish(&self, outcome: ReminderOutcome) {
        self.metrics.reminders.processed(outcome);
        let executing = {
            let mut table = self.table.lock();
            table.executing -= 1;
            table.executing
        };
        if executing == 0 {
            self.settled.notify_waiters();
        }
    }

    /// Waits until every due reminder has been executed or put back.
    pub(crate) async fn settled(&self) {
        loop {
            let settled = self.settled.notified();
            if self.table.lock().executing == 0 {
                return;
            }
            settled.await;
        }
    }
}
