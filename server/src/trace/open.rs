//! The deliveries that are not over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::delivery::Delivery;
use crate::timeouts::Timeouts;

/// The most that are open. Of one more, the way to its readers is not told.
pub(super) const MOST_OPEN: usize = 1024;

/// How long one is open. Then it is told without those that have not got its message.
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// By number: the oldest first, and so that whose time is over first.
#[derive(Debug, Default)]
pub(super) struct OpenDeliveries {
    /// Locked after that of a delivery.
    table: Mutex<Table>,
    /// There is a first one.
    began: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, (Timestamp, Arc<Delivery>)>,
}

impl OpenDeliveries {
    /// Returns its number, if there is room.
    pub(super) fn enter(&self, delivery: &Arc<Delivery>, now: Timestamp) -> Option<u64> {
        let mut table = self.table.lock();
        if table.open.len() >= MOST_OPEN {
            return None;
        }
        let number = table.next;
        table.next += 1;
        table.open.insert(number, (now + LONGEST, Arc::clone(delivery)));
        if table.open.len() == 1 {
            self.began.notify_one();
        }
        Some(number)
    }

    pub(super) fn leave(&self, number: u64) {
        self.table.lock().open.remove(&number);
    }

    /// Gives up those whose time is over, one after the other, for ever.
    pub(super) async fn give_up_in_time(&self, timeouts: &Arc<Timeouts>) {
        loop {
            let began = self.began.notified();
            match self.oldest() {
                None => began.await,
                Some((until, delivery)) if until <= timeouts.clock().now() => delivery.give_up(),
                // If it is over before, the next one is looked at a little late.
                Some((until, _)) => timeouts.sleep_until(until).await,
            }
        }
    }

    /// Gives up all: the server ends.
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
