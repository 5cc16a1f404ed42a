use std::sync::Arc;

use encke_base::quota::QuotaOwner;
use encke_broker::channel::{ChannelName, RestoredLogs, SubscriberKey};
use encke_core::session::outbox::SubscriptionSlot;
use encke_core::session::{Outbox, OutboxRecord};

use super::subscribe::Subscriptions;
use crate::session::channels::{SessionOutbox, SubscribedChannel};
use crate::session::session_ref::SessionRef;
use crate::session::table::{NotRestored, SessionCell};

impl Subscriptions {
    /// Announces the session in the channels whose presence did not list it, or holds its joins back again.
    pub(crate) fn restore_joins(&self, session: &SessionCell, owner: &QuotaOwner, unlisted: &[String]) {
        self.table.change(session, |state| {
            for name in unlisted.iter().filter_map(|name| ChannelName::new(name, usize::MAX).ok()) {
                self.join_leave().enqueue_join_of(session, state, || owner.clone(), &name);
            }
        });
    }

    /// Restores a session's subscriptions. Their channels must already have been restored.
    ///
    /// # Errors
    /// Returns [`NotRestored`] if the record is invalid. The session then has no subscriptions.
    pub(crate) fn restore(
        &self,
        session: &SessionCell,
        record: &OutboxRecord,
        logs: &mut RestoredLogs<SessionRef>,
    ) -> Result<SessionOutbox, NotRestored> {
        let mut joined: Vec<SubscribedChannel> = Vec::new();
        let restore = |number, slot, live: bool| {
            if !live {
                let channel = self.logs.channels.log_of_former_subscriber(number, logs)?;
                return Some(SubscribedChannel { channel, key: SubscriberKey::NONE });
            }
            let channel = Arc::clone(logs.get(number)?);
            let key = channel.restore_subscriber(session.reference(), slot)?;
            joined.push(SubscribedChannel { channel: Arc::clone(&channel), key });
            Some(SubscribedChannel { channel, key })
        };
        let outbox = Outbox::restore(record, self.limits.unacked, restore);
        let outbox = outbox.map_err(NotRestored::from).and_then(|mut outbox| {
            let ends: Vec<(SubscriptionSlot, u64, u64)> = outbox
                .subscriptions()
                .map(|view| (view.slot, view.cursor, view.channel.channel.last_offset()))
                .collect();
            for (slot, cursor, last) in ends {
                if cursor > last {
                    return Err(NotRestored::Contradiction("a cursor beyond the end of its log"));
                }
                // The subscription may not have been marked as ready when the snapshot was taken.
                if cursor < last {
                    outbox.mark_ready(slot);
                }
            }
            Ok(outbox)
        });
        if outbox.is_err() {
            joined.iter().for_each(|subscription| self.complete_unsubscribe(subscription));
        }
        outbox
    }
}
