//! Sessions as subscribers of channels.

use std::sync::Arc;
use std::task::Waker;

use encke_broker::channel::{Member, Subscriber};
use encke_core::session::outbox::SubscriptionSlot;

use super::notification::{change_and_deliver, deliver_pending};
use crate::session::channels::{Channel, SubscribedChannel};
use crate::session::session_ref::SessionRef;
use crate::session::table::{SessionState, SessionTable};

impl Subscriber for SessionRef {
    type Registry = SessionTable;

    fn exists(&self, table: &SessionTable) -> bool {
        table.contains(*self)
    }

    fn notify_readable(&self, table: &SessionTable, slot: SubscriptionSlot) -> Option<Waker> {
        let session = table.get(*self)?;
        change_and_deliver(table, &session, |state| state.machine.outbox_mut().mark_ready(slot))
    }

    fn move_to(&self, table: &SessionTable, from: &Arc<Channel>, to: &Arc<Channel>, cut: Option<u64>) {
        let Some(session) = table.get(*self) else { return };
        let switch = |state: &mut SessionState| {
            let outbox = state.machine.outbox_mut();
            let found = outbox.subscriptions().find(|it| Arc::ptr_eq(&it.channel.channel, from));
            let (slot, key) = found.map(|it| (it.slot, it.channel.key))?;
            let moved = to.join(*self, |log, add| {
                let subscribe = |slot| SubscribedChannel { channel: Arc::clone(to), key: add(slot) };
                outbox.switch_log(slot, subscribe, cut, log);
            });
            moved.is_ok().then_some(key)
        };
        if let Some(key) = table.change(&session, switch).flatten() {
            from.remove_subscriber(key);
            deliver_pending(table, &session);
        }
    }

    fn member(&self, table: &SessionTable, channel: &Channel) -> Option<Member> {
        table.get(*self)?.member(channel)
    }
}
