//! Subscriptions of a session that moves to another server, whose logs of the same channels have other numbers.

use std::collections::HashMap;
use std::sync::Arc;

use encke_base::quota::QuotaOwner;
use encke_broker::channel::{ChannelGuard, ChannelName, SubscriberKey};
use encke_broker::engine::{EngineError, EngineResponse, join_responses};
use encke_core::dialect::Since;
use encke_core::session::outbox::SubscriptionSlot;
use encke_core::session::{Outbox, OutboxRecord};

use super::subscribe::Subscriptions;
use crate::session::channels::{Channel, SessionOutbox, SubscribedChannel};
use crate::session::session_ref::SessionRef;
use crate::session::table::{MovedLog, NotRestored, SessionCell, SessionState};

/// Logs of this server, by the numbers that they have on another server.
pub(crate) struct LocalLogs(HashMap<u64, LocalLog>);

struct LocalLog {
    guard: ChannelGuard<SessionRef>,
    /// Log that the restored outbox refers to: the log itself, or a stand-in if the log does not have the messages up to
    /// the session's position.
    log: Arc<Channel>,
    /// Offset up to which the two have the same messages.
    shared_up_to: Option<u64>,
}

impl Subscriptions {
    /// Returns the logs that the session's record refers to, and removes subscriptions to direct messages that the
    /// client has received: the logs of direct messages stay on this server.
    pub(crate) fn logs_to_move(&self, state: &SessionState, record: &mut OutboxRecord) -> Vec<MovedLog> {
        for view in state.machine.outbox().subscriptions() {
            let channel = &view.channel.channel;
            if channel.name().is_direct() && view.cursor == channel.last_offset() {
                record.forget_if_unused(view.slot);
            }
        }
        let channels = state.machine.outbox().channels().map(|it| &it.channel);
        let used = channels.filter(|channel| record.refers_to(channel.number()));
        let mut logs: Vec<_> = used
            .map(|channel| MovedLog {
                number: channel.number(),
                name: channel.name().as_str().to_owned(),
                epoch: channel.epoch().to_owned(),
            })
            .collect();
        logs.sort_by_key(|log| log.number);
        logs.dedup_by_key(|log| log.number);
        logs
    }

    /// Opens the logs of a session from another server.
    ///
    /// # Errors
    /// Returns [`EngineError`] if a log is not available.
    pub(crate) async fn open_moved(
        &self,
        logs: &[MovedLog],
        record: &OutboxRecord,
        owner: &QuotaOwner,
    ) -> Result<LocalLogs, EngineError> {
        let open = |log: &MovedLog| {
            let Ok(name) = ChannelName::from_log(&log.name) else {
                return EngineResponse::Ready(Err(EngineError::Unavailable));
            };
            if name.is_direct() {
                let guard = self.logs.channels.acquire(&name, &QuotaOwner::Operator);
                return EngineResponse::Ready(guard.map_err(EngineError::from));
            }
            let since = Since { epoch: log.epoch.as_str().into(), offset: record.position_in(log.number) };
            self.logs.engine.subscribe_after(&name, owner, &since)
        };
        let guards = join_responses(logs.iter().map(open).collect()).await;
        let local = logs.iter().zip(guards).map(|(log, guard)| {
            let guard = guard?;
            let channel = guard.channel();
            let (reached, last) = (record.position_in(log.number), channel.last_offset());
            let shared_up_to = channel.continued_up_to(&log.epoch).map(|cut| cut.min(last));
            let is_same = shared_up_to.is_some_and(|shared| reached <= shared);
            let own = Arc::clone(channel);
            let log_used = match is_same {
                true => own,
                false => self.logs.channels.stand_in(channel, log.epoch.as_str().into(), reached),
            };
            Ok((log.number, LocalLog { guard, log: log_used, shared_up_to }))
        });
        local.collect::<Result<_, EngineError>>().map(LocalLogs)
    }

    /// Restores the subscriptions of a session from another server. A client that may miss messages receives a gap.
    ///
    /// # Errors
    /// Returns [`NotRestored`] if the record is invalid. The session then has no subscriptions.
    pub(crate) fn restore_moved(
        &self,
        session: &SessionCell,
        record: &OutboxRecord,
        LocalLogs(logs): &LocalLogs,
    ) -> Result<SessionOutbox, NotRestored> {
        let mut record = record.clone();
        let unknown = NotRestored::Contradiction("an unknown log");
        if record.logs().any(|number| !logs.contains_key(&number)) {
            return Err(unknown);
        }
        record.renumber_logs(|number| logs.get(&number).map_or(number, |it| it.log.number()));
        let by_number: HashMap<u64, &LocalLog> = logs.values().map(|it| (it.log.number(), it)).collect();
        let mut joined: Vec<SubscribedChannel> = Vec::new();
        let mut replaced = Vec::new();
        let outbox = Outbox::restore(&record, self.limits.unacked, |number, slot, is_live| {
            let local = by_number.get(&number)?;
            let channel = Arc::clone(&local.log);
            let is_same = Arc::ptr_eq(&channel, local.guard.channel());
            if is_live && !is_same {
                replaced.push((slot, *local));
            }
            if !is_live || !is_same {
                return Some(SubscribedChannel { channel, key: SubscriberKey::NONE });
            }
            let key = channel.restore_subscriber(session.reference(), slot)?;
            joined.push(SubscribedChannel { channel: Arc::clone(&channel), key });
            Some(SubscribedChannel { channel, key })
        });
        let outbox = outbox.map_err(NotRestored::from).and_then(|mut outbox| {
            for (slot, local) in replaced {
                joined.push(replace_log(&mut outbox, session, slot, local).ok_or(unknown)?);
            }
            let slots: Vec<SubscriptionSlot> = outbox.subscriptions().map(|view| view.slot).collect();
            // Messages may have been published since the record was written.
            slots.into_iter().for_each(|slot| outbox.mark_ready(slot));
            Ok(outbox)
        });
        if outbox.is_err() {
            joined.iter().for_each(|subscription| self.complete_unsubscribe(subscription));
        }
        outbox
    }
}

/// Switches a subscription from the stand-in to the log itself.
fn replace_log(
    outbox: &mut SessionOutbox,
    session: &SessionCell,
    slot: SubscriptionSlot,
    local: &LocalLog,
) -> Option<SubscribedChannel> {
    let channel = local.guard.channel();
    let joined = channel.join(session.reference(), |log, add| {
        let mut key = SubscriberKey::NONE;
        let subscribe = |slot| {
            key = add(slot);
            SubscribedChannel { channel: Arc::clone(channel), key }
        };
        outbox.switch_log(slot, subscribe, local.shared_up_to, log);
        key
    });
    joined.ok().map(|key| SubscribedChannel { channel: Arc::clone(channel), key })
}
