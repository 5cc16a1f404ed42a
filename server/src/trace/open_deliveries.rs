//! Deliveries in progress.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::delivery::Delivery;
use crate::timeouts::Timeouts;

/// Maximum number of open deliveries. Beyond it, publish spans are still exported, but no delivery spans.
pub(super) const MAX_OPEN: usize = 1024;

/// Time limit of a delivery. A delivery that exceeds it is reported as incomplete.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Open deliveries by number, so that the first entry is the oldest and the first to reach its time limit.
#[derive(Debug, Default)]
pub(super) struct OpenDeliveries {
    /// Locked after a delivery's own lock.
    table: Mutex<OpenTable>,
    /// Notified when the table gets its first entry.
    began: Notify,
}

#[derive(Debug, Default)]
struct OpenTable {
    next: u64,
    open: BTreeMap<u64, (Timestamp, Arc<Delivery>)>,
}

impl OpenDeliveries {
    /// Adds a delivery and returns its number, unless the table is full.
    pub(super) fn enter(&self, delivery: &Arc<Delivery>, now: Timestamp) -> Option<u64> {
        let mut table = self.table.lock();
        if table.open.len() >= MAX_OPEN {
            return None;
        }
        let number = table.next;
        table.next += 1;
        table.open.insert(number, (now + TIME_LIMIT, Arc::clone(delivery)));
        if table.open.len() == 1 {
            self.began.notify_one();
        }
        Some(number)
    }

    pub(super) fn leave(&self, number: u64) {
        self.table.lock().open.remove(&number);
    }

    /// Ends deliveries at their time limit. Never returns.
    pub(super) async fn end_overdue(&self, timeouts: &Arc<Timeouts>) {
        loop {
            let began = self.began.notified();
            match self.oldest() {
                None => began.await,
                Some((until, delivery)) if until <= timeouts.clock().now() => delivery.give_up(),
                // If it completes first, this wakes up early: later deliveries are due later.
                Some((until, _)) => timeouts.sleep_until(until).await,
            }
        }
    }

    /// Ends all deliveries at shutdown.
    pub(super) fn give_up_all(&self) {
        while let Some((_, delivery)) = self.oldest() {
            delivery.give_up();
        }
    }

    fn oldest(&self) -> Option<(Timestamp, Arc<Delivery>)> {
        let table = self.table.lock();
        table.open.first_key_value().map(|(_, (until, delivery))| (*until, Arc::clone(delivery)))
    }
}
