//! Reminders: actions that the backend schedules with a key, and can move, replace or delete by that key. The
//! interface follows timers with keys (Costello and Varghese, "Redesigning the BSD Callout and Timer
//! Facilities", 1995). The timers are on the same wheel as all timeouts.
//!
//! A reminder fires exactly once: only the thread that removes it from the table, while holding the table's
//! lock, executes its action. Therefore, a `put` or `delete` that is acknowledged before the removal prevents
//! the old reminder from firing. An expiry that is in progress at that time finds another due time, another
//! reminder, or none.

mod execution;
mod record;
mod reminder;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use encke_base::executor::Executor;
use encke_base::locks::{Mutex, level};
use encke_base::metrics::Metrics;
use encke_broker::engine::LogEngine;
use encke_core::Timestamp;
use encke_timeouts::{ArmAction, RequestedDeadline, Timeouts, TimerCell, TimerOwner, TimerOwners};
use serde_json::value::RawValue;
use tokio::sync::{Notify, Semaphore};

use crate::session::SessionRef;
use table::{ReminderEntry, ReminderTable};

pub(crate) use record::ReminderRecord;
pub(crate) use reminder::{BadReminder, MAX_DELAY, PendingReminder, ReminderAction, ReminderKey, compact};

/// Maximum number of reminders being published to the engine simultaneously. The engine's own limit is
/// higher, because clients publish, too.
const MAX_PUBLISHING: usize = 256;

/// Size of the data after which a page of reminders ends. The last reminder may exceed it.
const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// Interface through which reminders use webhooks.
pub(crate) trait WebhookSink: fmt::Debug + Send + Sync + 'static {
    /// Returns whether a webhook has this name.
    fn has(&self, webhook: &str) -> bool;
    /// Sends a due reminder to the webhook with this name.
    fn reminder_due(&self, webhook: &str, key: &ReminderKey, data: &Arc<RawValue>);
}

/// All pending reminders.
#[derive(Debug)]
pub(crate) struct Reminders {
    /// Maximum number of pending reminders (`limits.max_reminders`).
    max: usize,
    table: Mutex<ReminderTable, level::Table>,
    owners: TimerOwners<ReminderKey>,
    timeouts: Arc<Timeouts>,
    engine: Arc<dyn LogEngine<SessionRef>>,
    webhooks: Option<Arc<dyn WebhookSink>>,
    metrics: Arc<Metrics>,
    executor: Arc<dyn Executor>,
    /// Permits to publish, granted in the order in which reminders became due.
    publishing: Semaphore,
    /// Notified when no more reminders are being executed.
    settled: Notify,
}

/// Why a request was rejected. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReminderRejected {
    #[error("reminder limit reached (limits.max_reminders = {0})")]
    TooMany(usize),
    #[error("the server is shutting down; send the request to the next one, which takes over the reminders")]
    Draining,
}

/// Why a reminder from a previous process cannot be restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreReminderError {
    #[error(transparent)]
    Bad(#[from] BadReminder),
    #[error(transparent)]
    NotKept(#[from] ReminderRejected),
    #[error("webhook {0:?} is not configured any more")]
    NoWebhook(Box<str>),
}

impl Reminders {
    pub(crate) fn new(
        most: usize,
        timeouts: Arc<Timeouts>,
        engine: Arc<dyn LogEngine<SessionRef>>,
        webhooks: Option<Arc<dyn WebhookSink>>,
        metrics: Arc<Metrics>,
        executor: Arc<dyn Executor>,
    ) -> Self {
        Self {
            max: most,
            table: Mutex::default(),
            owners: TimerOwners::new(TimerOwner::Reminder),
            timeouts,
            engine,
            webhooks,
            metrics,
            executor,
            publishing: Semaphore::new(MAX_PUBLISHING),
            settled: Notify::new(),
        }
    }

    /// Returns whether a webhook with this name is configured.
    pub(crate) fn has_webhook(&self, name: &str) -> bool {
        self.webhooks.as_ref().is_some_and(|webhooks| webhooks.has(name))
    }

    /// Schedules an action, replacing any reminder with the same key.
    ///
    /// # Errors
    /// [`ReminderRejected`].
    pub(crate) fn put(
        &self,
        key: ReminderKey,
        after: Duration,
        action: ReminderAction,
    ) -> Result<(), ReminderRejected> {
        let due = self.timeouts.clock().now() + after;
        let (timer, armed) = {
            let mut table = self.table.lock();
            if table.is_closed {
                return Err(ReminderRejected::Draining);
            }
            self.check_room(&table, &key)?;
            let timer = self.insert(&mut table, key, due, action);
            let armed = self.request(&timer, due);
            (timer, armed)
        };
        self.timeouts.carry_out(&timer, armed);
        Ok(())
    }

    /// Returns the reminder with this key.
    pub(crate) fn get(&self, key: &ReminderKey) -> Option<PendingReminder> {
        let now = self.timeouts.clock().now();
        let table = self.table.lock();
        table.entries.get(key).map(|entry| entry.to_pending(now))
    }

    /// Returns up to `limit` reminders whose keys follow `after`, in the order of keys. The page is shorter if the
    /// data of its reminders exceeds [`MAX_PAGE_BYTES`].
    pub(crate) fn page(
        &self,
        after: Option<&ReminderKey>,
        limit: usize,
    ) -> Vec<(Arc<ReminderKey>, PendingReminder)> {
        let now = self.timeouts.clock().now();
        let mut bytes = 0;
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        let table = self.table.lock();
        let entries = table.entries.range::<ReminderKey, _>((first, Bound::Unbounded)).take(limit);
        let page = entries.take_while(|(_, entry)| {
            let fits = bytes < MAX_PAGE_BYTES;
            bytes += entry.action.data().get().len();
            fits
        });
        page.map(|(key, entry)| (Arc::clone(key), entry.to_pending(now))).collect()
    }

    /// Deletes the reminder with this key. Returns whether it existed.
    ///
    /// # Errors
    /// [`ReminderRejected::Draining`].
    pub(crate) fn delete(&self, key: &ReminderKey) -> Result<bool, ReminderRejected> {
        let (timer, armed) = {
            let mut table = self.table.lock();
            if table.is_closed {
                return Err(ReminderRejected::Draining);
            }
            let Some(ReminderEntry { timer, .. }) = table.entries.remove(key) else { return Ok(false) };
            let armed = self.timeouts.request(&timer, RequestedDeadline::NONE);
            (timer, armed)
        };
        self.end_timer(&timer, armed);
        Ok(true)
    }

    /// Number of pending reminders.
    pub(crate) fn len(&self) -> usize {
        self.table.lock().entries.len()
    }

    /// Stops firing and accepting changes: this process is shutting down, and the next one takes over.
    pub(crate) fn close(&self) {
        self.table.lock().is_closed = true;
    }

    /// Returns the records of all pending reminders, for the snapshot.
    pub(crate) fn records(&self) -> impl Iterator<Item = ReminderRecord> {
        let now = self.timeouts.clock().now();
        let table = self.table.lock();
        let waiting = table.entries.iter().map(|(key, entry)| (Arc::clone(key), entry.to_pending(now)));
        // Copy the data record by record, to save memory.
        waiting.collect::<Vec<_>>().into_iter().map(|(key, waiting)| ReminderRecord::new(&key, &waiting))
    }

    /// Restores a reminder from a previous process. It does not fire before [`Self::arm_restored`]: if this
    /// process fails to start, another one can restore it.
    ///
    /// # Errors
    /// [`RestoreReminderError`].
    pub(crate) fn restore(&self, record: &ReminderRecord) -> Result<(), RestoreReminderError> {
        let (key, PendingReminder { due_in, action }) = record.parse()?;
        if let ReminderAction::Webhook { name, .. } = &action
            && !self.has_webhook(name)
        {
            return Err(RestoreReminderError::NoWebhook(name.clone()));
        }
        let due = self.timeouts.clock().now() + due_in;
        let mut table = self.table.lock();
        self.check_room(&table, &key)?;
        self.insert(&mut table, key, due, action);
        Ok(())
    }

    /// Arms the timers of the restored reminders.
    pub(crate) fn arm_restored(&self) {
        let armed: Vec<_> = {
            let table = self.table.lock();
            let arm =
                |entry: &ReminderEntry| (Arc::clone(&entry.timer), self.request(&entry.timer, entry.due));
            table.entries.values().map(arm).collect()
        };
        for (timer, armed) in armed {
            self.timeouts.carry_out(&timer, armed);
        }
    }

    fn check_room(&self, table: &ReminderTable, key: &ReminderKey) -> Result<(), ReminderRejected> {
        let is_room = table.entries.len() < self.max || table.entries.contains_key(key);
        if is_room { Ok(()) } else { Err(ReminderRejected::TooMany(self.max)) }
    }

    /// Requests the deadline. The caller holds the table's lock, and carries out the returned action after
    /// unlocking it.
    fn request(&self, timer: &Arc<TimerCell>, due: Timestamp) -> ArmAction {
        self.timeouts.request(timer, RequestedDeadline::exact(due.as_nanos()))
    }

    /// Inserts or replaces the reminder with this key. The caller requests its deadline.
    fn insert(
        &self,
        table: &mut ReminderTable,
        key: ReminderKey,
        due: Timestamp,
        action: ReminderAction,
    ) -> Arc<TimerCell> {
        if let Some(entry) = table.entries.get_mut(&key) {
            (entry.due, entry.action) = (due, action);
            return Arc::clone(&entry.timer);
        }
        let key = Arc::new(key);
        let timer = self.owners.new_timer(Arc::downgrade(&key));
        table.entries.insert(key, ReminderEntry { due, action, timer: Arc::clone(&timer) });
        timer
    }

    /// Removes the timer of a reminder that has left the table. The table must be unlocked.
    fn end_timer(&self, timer: &Arc<TimerCell>, armed: ArmAction) {
        self.timeouts.carry_out(timer, armed);
        self.owners.remove(timer);
    }
}
