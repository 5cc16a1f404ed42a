//! Reminders: what the backend wants done after a time, under a key by which it moves, replaces or deletes it. The interface is that of timers with keys
//! (Costello and Varghese, "Redesigning the BSD Callout and Timer Facilities", 1995), on the wheel that has all timeouts.
//!
//! A reminder fires once: whoever takes it out of the table, under the table's lock, does what it is for. So a later `put` or `delete` that is answered before that
//! keeps the old one from firing, and an expiry that was on its way meanwhile finds another instant, another reminder, or none.

mod firing;
mod record;
mod reminder;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{Notify, Semaphore};

use crate::engine::LogEngine;
use crate::executor::Executor;
use crate::metrics::Metrics;
use crate::session::SessionRef;
use crate::timeouts::{ArmAction, Owners, RequestedDeadline, Timeouts, TimerCell, TimerOwner};
use firing::MOST_PUBLISHING;
use table::{Entry, Table};

pub(crate) use record::ReminderRecord;
pub(crate) use reminder::{Action, BadReminder, LONGEST, ReminderKey, compact};

/// Webhooks, as far as reminders know them.
pub(crate) trait WebhookSink: fmt::Debug + Send + Sync + 'static {
    /// Whether there is one of this name.
    fn has(&self, webhook: &str) -> bool;
    /// The webhook of this name is told that the reminder is due.
    fn reminder_due(&self, webhook: &str, key: &ReminderKey, data: &Arc<RawValue>);
}

/// All reminders.
#[derive(Debug)]
pub(crate) struct Reminders {
    /// `limits.max_reminders`
    most: usize,
    /// Locked for one look-up.
    table: Mutex<Table>,
    owners: Owners<ReminderKey>,
    timeouts: Arc<Timeouts>,
    engine: Arc<dyn LogEngine<SessionRef>>,
    webhooks: Option<Arc<dyn WebhookSink>>,
    metrics: Arc<Metrics>,
    executor: Arc<dyn Executor>,
    /// Turns to publish, in the order in which reminders were due.
    publishing: Semaphore,
    /// No reminder is being carried out any more.
    settled: Notify,
}

/// One that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) due_in: Duration,
    pub(crate) action: Action,
}

/// Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotKept {
    #[error("reminder limit reached (limits.max_reminders = {0})")]
    TooMany(usize),
    #[error("the server is going away, and reminders go on in the next one: ask that")]
    Draining,
}

/// A reminder of another process does not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRestored {
    #[error(transparent)]
    Bad(#[from] BadReminder),
    #[error(transparent)]
    NotKept(#[from] NotKept),
    #[error("there is no webhook {0:?} any more")]
    NoWebhook(Box<str>),
}

impl Reminders {
    /// None yet.
    pub(crate) fn new(
        most: usize,
        timeouts: Arc<Timeouts>,
        engine: Arc<dyn LogEngine<SessionRef>>,
        webhooks: Option<Arc<dyn WebhookSink>>,
        metrics: Arc<Metrics>,
        executor: Arc<dyn Executor>,
    ) -> Self {
        Self {
            most,
            table: Mutex::default(),
            owners: Owners::new(TimerOwner::Reminder),
            timeouts,
            engine,
            webhooks,
            metrics,
            executor,
            publishing: Semaphore::new(MOST_PUBLISHING),
            settled: Notify::new(),
        }
    }

    /// Whether a reminder can be for this webhook.
    pub(crate) fn has_webhook(&self, name: &str) -> bool {
        self.webhooks.as_ref().is_some_and(|webhooks| webhooks.has(name))
    }

    /// Has something done after a time. One with the same key is replaced.
    ///
    /// # Errors
    /// [`NotKept`].
    pub(crate) fn put(&self, key: ReminderKey, after: Duration, action: Action) -> Result<(), NotKept> {
        let due = self.timeouts.clock().now() + after;
        let (timer, armed) = {
            let mut table = self.table.lock();
            if table.is_closed {
                return Err(NotKept::Draining);
            }
            self.check_room(&table, &key)?;
            let timer = self.place(&mut table, key, due, action);
            let armed = self.request(&timer, due);
            (timer, armed)
        };
        self.timeouts.carry_out(&timer, armed);
        Ok(())
    }

    /// The reminder of this key.
    pub(crate) fn get(&self, key: &ReminderKey) -> Option<Waiting> {
        let now = self.timeouts.clock().now();
        let table = self.table.lock();
        table.entries.get(key).map(|entry| entry.waiting(now))
    }

    /// Forgets the reminder of this key. Returns whether there was one.
    ///
    /// # Errors
    /// [`NotKept::Draining`].
    pub(crate) fn delete(&self, key: &ReminderKey) -> Result<bool, NotKept> {
        let (timer, armed) = {
            let mut table = self.table.lock();
            if table.is_closed {
                return Err(NotKept::Draining);
            }
            let Some(Entry { timer, .. }) = table.remove(key) else { return Ok(false) };
            let armed = self.timeouts.request(&timer, RequestedDeadline::NONE);
            (timer, armed)
        };
        self.end_timer(&timer, armed);
        Ok(true)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.table.lock().entries.len()
    }

    /// From here on nothing is due, and nothing changes: the process ends, and the next one goes on.
    pub(crate) fn close(&self) {
        self.table.lock().is_closed = true;
    }

    /// Writes down all that wait.
    pub(crate) fn records(&self) -> impl Iterator<Item = ReminderRecord> {
        let now = self.timeouts.clock().now();
        let table = self.table.lock();
        let waiting = table.entries.iter().map(|(key, entry)| (Arc::clone(key), entry.waiting(now)));
        // What they have to say is not copied before its turn.
        waiting.collect::<Vec<_>>().into_iter().map(|(key, waiting)| ReminderRecord::of(&key, &waiting))
    }

    /// Takes over one of another process. Nothing is due before [`Self::begin`]: should this process not start after all, another takes it over.
    ///
    /// # Errors
    /// [`NotRestored`].
    pub(crate) fn restore(&self, record: &ReminderRecord) -> Result<(), NotRestored> {
        let (key, Waiting { due_in, action }) = record.read()?;
        if let Action::Webhook { name, .. } = &action
            && !self.has_webhook(name)
        {
            return Err(NotRestored::NoWebhook(name.clone()));
        }
        let due = self.timeouts.clock().now() + due_in;
        let mut table = self.table.lock();
        self.check_room(&table, &key)?;
        self.place(&mut table, key, due, action);
        Ok(())
    }

    /// From here on those that were taken over are due in their time.
    pub(crate) fn begin(&self) {
        let armed: Vec<_> = {
            let table = self.table.lock();
            let arm = |entry: &Entry| (Arc::clone(&entry.timer), self.request(&entry.timer, entry.due));
            table.entries.values().map(arm).collect()
        };
        for (timer, armed) in armed {
            self.timeouts.carry_out(&timer, armed);
        }
    }

    fn check_room(&self, table: &Table, key: &ReminderKey) -> Result<(), NotKept> {
        let is_room = table.entries.len() < self.most || table.entries.contains_key(key);
        if is_room { Ok(()) } else { Err(NotKept::TooMany(self.most)) }
    }

    /// The table is locked. Returns what is to be done once it is unlocked.
    fn request(&self, timer: &Arc<TimerCell>, due: Timestamp) -> ArmAction {
        self.timeouts.request(timer, RequestedDeadline::exact(due.as_nanos()))
    }

    /// The table has this key's reminder: that which was there, or a new one. Its deadline is for the caller to request.
    fn place(&self, table: &mut Table, key: ReminderKey, due: Timestamp, action: Action) -> Arc<TimerCell> {
        if let Some(entry) = table.entries.get_mut(&key) {
            (entry.due, entry.action) = (due, action);
            return Arc::clone(&entry.timer);
        }
        let key = Arc::new(key);
        let timer = self.owners.new_timer(Arc::downgrade(&key));
        table.entries.insert(key, Entry { due, action, timer: Arc::clone(&timer) });
        timer
    }

    /// A reminder has left the table, which is unlocked again.
    fn end_timer(&self, timer: &Arc<TimerCell>, armed: ArmAction) {
        self.timeouts.carry_out(timer, armed);
        self.owners.remove(timer);
    }
}
