use std::collections::HashMap;
use std::sync::Arc;

use encke_core::Timestamp;

use super::Waiting;
use super::reminder::{Action, ReminderKey};
use crate::timeouts::TimerCell;

/// Of so few, the table is not made smaller.
const FEW: usize = 64;

/// The reminders that wait, by their keys.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) entries: HashMap<Arc<ReminderKey>, Entry>,
    /// Those that have left it, and are being carried out.
    pub(super) under_way: usize,
    /// Nothing is due any more, and nothing changes.
    pub(super) is_closed: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) due: Timestamp,
    pub(super) action: Action,
    /// Its expiries find the key, and by that the entry.
    pub(super) timer: Arc<TimerCell>,
}

impl Table {
    pub(super) fn remove(&mut self, key: &ReminderKey) -> Option<Entry> {
        let entry = self.entries.remove(key);
        // A crowd that has left must not keep its memory.
        if self.entries.capacity() > FEW && self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
        entry
    }

    /// Takes the reminder whose timer has expired, if it is due: it may have moved, or another may have its key.
    pub(super) fn take_due(&mut self, key: &Arc<ReminderKey>, now: Timestamp) -> Option<Entry> {
        let (found, entry) = self.entries.get_key_value(key)?;
        let is_due = !self.is_closed && Arc::ptr_eq(found, key) && entry.due <= now;
        if is_due { self.remove(key) } else { None }
    }
}

impl Entry {
    pub(super) fn waiting(&self, now: Timestamp) -> Waiting {
        Waiting { due_in: self.due.since(now), action: self.action.clone() }
    }
}
