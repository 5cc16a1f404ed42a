//! Sessions as subscribers of channels: when a channel has new messages, the session's connection sends them.

use std::sync::Arc;
use std::task::Waker;

use encke_broker::channel::{Member, Subscriber, SubscriberKey};
use encke_core::session::outbox::SubscriptionSlot;
use encke_core::session::{ConnectionId, Phase};

use crate::session::channels::{Channel, SubscribedChannel};
use crate::session::session_ref::SessionRef;
use crate::session::table::{
    DeliveryOutcome, Mailbox, PendingWork, Posted, SessionCell, SessionState, SessionTable, Signals, Unparked,
};

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
                let mut new_key = SubscriberKey::NONE;
                let subscribe = |slot| {
                    new_key = add(slot);
                    SubscribedChannel { channel: Arc::clone(to), key: new_key }
                };
                outbox.switch_log(slot, subscribe, cut, log);
                new_key
            });
            to.set_listed(moved.ok()?, from.is_listed(key));
            state.note_change(*self);
            Some(key)
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

/// Changes the session, then makes its connection send pending messages. A parked connection sends them
/// immediately. Otherwise the connection's task is signalled, and its waker is returned if the task must be
/// woken.
pub(super) fn change_and_deliver(
    table: &SessionTable,
    session: &SessionCell,
    change: impl FnOnce(&mut SessionState),
) -> Option<Waker> {
    let deliver = |state: &mut SessionState| {
        change(state);
        deliver_or_signal(state, session)
    };
    table.change(session, deliver)?.finish(table, session)
}

/// Makes the session's connection, if there is one, send pending messages.
pub(crate) fn deliver_pending(table: &SessionTable, session: &SessionCell) {
    change_and_deliver(table, session, |_| {}).into_iter().for_each(Waker::wake);
}

/// Signals a connection that has just been parked: unparks it, or signals its new mailbox if it has already
/// been unparked. Returns the waker of its task if the task must be woken.
#[cold]
pub(crate) fn signal_parked(
    table: &SessionTable,
    session: &SessionCell,
    connection: ConnectionId,
    signals: Signals,
) -> Option<Waker> {
    let signal = |state: &mut SessionState| {
        if let Some(mailbox) = state.mailbox.as_ref().filter(|mailbox| mailbox.id == connection) {
            return Notified::post(mailbox, signals);
        }
        let is_this = state.parked_connection().is_some_and(|(id, _)| id == connection);
        let unparked =
            is_this.then(|| state.unpark(connection, session.reference(), signals, PendingWork::default()));
        Notified::Unparked(unparked.flatten().map(Box::new))
    };
    table.change(session, signal)?.finish(table, session)
}

/// How a connection was made to send, and what remains to be done once the session's lock is released.
enum Notified {
    /// The task has a signal, and must be woken if there is a waker.
    Signalled(Option<Waker>),
    /// Nothing remains to be done.
    Sent,
    NeedsAcknowledgement(ConnectionId),
    /// Boxed because few notifications unpark a connection but each one moves this.
    Unparked(Option<Box<Unparked>>),
}

impl Notified {
    fn post(mailbox: &Mailbox, signals: Signals) -> Self {
        Self::Signalled(match mailbox.post(signals) {
            Posted::Task(waker) => waker,
            // The connection is parked, but the state does not contain it, because all parked connections
            // have been closed.
            Posted::Parked => None,
        })
    }

    #[inline]
    fn finish(self, table: &SessionTable, session: &SessionCell) -> Option<Waker> {
        match self {
            Self::Signalled(waker) => return waker,
            Self::Sent => {}
            Self::NeedsAcknowledgement(connection) => {
                if let Some(lifecycle) = table.lifecycle() {
                    lifecycle.messages_sent(session, connection);
                }
            }
            Self::Unparked(unparked) => Unparked::start(unparked.map(|unparked| *unparked), session),
        }
        None
    }
}

/// Sends pending messages on the session's parked connection, or signals the connection's task to do so.
fn deliver_or_signal(state: &mut SessionState, session: &SessionCell) -> Notified {
    let SessionState { machine, parked, mailbox, .. } = state;
    let (Phase::Attached(id), Some(connection)) = (machine.phase(), parked) else {
        let mailbox = mailbox.as_ref();
        return mailbox.map_or(Notified::Sent, |mailbox| Notified::post(mailbox, Signals::READ));
    };
    // Send the messages before releasing the lock, so that no other thread can take and send later ones
    // first.
    match connection.deliver(session, machine.outbox_mut()) {
        DeliveryOutcome::Complete => Notified::Sent,
        DeliveryOutcome::NeedsAcknowledgement => Notified::NeedsAcknowledgement(id),
        DeliveryOutcome::Partial(work) => {
            Notified::Unparked(state.unpark(id, session.reference(), Signals::NONE, work).map(Box::new))
        }
    }
}
