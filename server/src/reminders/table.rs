use std::collections::BTreeMap;
use std::sync::Arc;

use encke_core::Timestamp;
use encke_timeouts::TimerCell;

use super::reminder::{PendingReminder, ReminderAction, ReminderKey};

/// Pending reminders by key.
#[derive(Debug, Default)]
pub(super) struct ReminderTable {
    pub(super) entries: BTreeMap<Arc<ReminderKey>, ReminderEntry>,
    /// Number of reminders that have left the table and are being executed.
    pub(super) executing: usize,
    /// Whether the table is closed: nothing fires or changes from then on.
    pub(super) is_closed: bool,
}

#[derive(Debug)]
pub(super) struct ReminderEntry {
    pub(super) due: Timestamp,
    pub(super) action: ReminderAction,
    /// Timer of the reminder. Its expiries refer to the key, which identifies the entry.
    pub(super) timer: Arc<TimerCell>,
}

impl ReminderTable {
    /// Removes the reminder whose timer has expired, if it is due. It may have been moved, or its key may
    /// have been reused.
    pub(super) fn take_due(&mut self, key: &Arc<ReminderKey>, now: Timestamp) -> Option<ReminderEntry> {
        let (found, entry) = self.entries.get_key_value(key)?;
        let is_due = !self.is_closed && Arc::ptr_eq(found, key) && entry.due <= now;
        if is_due { self.entries.remove(key) } else { None }
    }
}

impl ReminderEntry {
    pub(super) fn to_pending(&self, now: Timestamp) -> PendingReminder {
        PendingReminder { due_in: self.due.since(now), action: self.action.clone() }
    }
}
