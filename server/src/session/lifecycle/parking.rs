//! Parked connections. A parked connection has no task; the thread that holds the session's lock acts for it.
//!
//! Work that takes a few instructions and one system call is done in place: sending a ping, accepting its
//! answer, sending messages. Everything else unparks the connection, which means starting a new task and
//! passing the pending work to it.

use std::sync::Arc;
use std::task::Waker;

use encke_core::Timestamp;
use encke_core::close::CloseCode;
use encke_core::session::{ConnectionId, Input};

use super::step::Lifecycle;
use crate::session::session_ref::SessionRef;
use crate::session::subscriptions::deliver_pending;
use crate::session::table::{
    Mailbox, ParkedConnection, PendingWork, ReadOutcome, SessionCell, SessionState, Signals, Unparked,
};

impl Lifecycle {
    /// Parks a connection. If its session has released it, or has signals pending for it, a new task is
    /// started immediately instead.
    pub(crate) fn park(
        &self,
        session: &SessionCell,
        mailbox: Arc<Mailbox>,
        connection: Box<dyn ParkedConnection>,
    ) {
        let mut unparked = Some(connection);
        let park = |state: &mut SessionState| {
            if !state.is_attached_to(mailbox.id) || !mailbox.park() {
                return;
            }
            if let Some(connection) = &mut unparked
                && connection.watch(session).is_ok()
            {
                // Move the mailbox's contents to the parked connection.
                state.sync_last_received();
                connection.mailbox_mut().take_permit_from(&mailbox);
                (state.mailbox, state.parked) = (None, unparked.take());
            } else {
                mailbox.cancel_park();
            }
        };
        let changed = self.table.change(session, park);
        if let Some(connection) = unparked {
            if changed.is_none() {
                mailbox.cancel_park();
                _ = mailbox.post(Signals::close(CloseCode::Internal));
            }
            let work = PendingWork::default();
            connection.unpark(session, mailbox, work);
        }
    }

    /// Signals a connection that its idle delay has elapsed, so that it parks if its client was silent.
    /// Returns the waker of its task, or `None` if the connection has ended.
    pub(crate) fn signal_idle(&self, session: SessionRef, connection: ConnectionId) -> Option<Waker> {
        let session = self.table.get(session)?;
        let state = session.lock();
        state.mailbox.as_ref().filter(|mailbox| mailbox.id == connection)?.post_to_task(Signals::IDLE_ELAPSED)
    }

    /// Handles a readiness event for a session's connection. The event may be stale: there may be nothing to
    /// read, or no session. `now` is when the kernel reported the event.
    pub(crate) fn handle_readable(&self, reference: SessionRef, now: Timestamp) {
        let Some(session) = &self.table.get(reference) else { return };
        let (mut unparked, mut makes_room) = (None, false);
        self.step_at(session, now, |state, step| {
            let Some((id, connection)) = state.parked_connection() else { return };
            match connection.read(session, step.now) {
                ReadOutcome::Nothing => {}
                ReadOutcome::Pong(input) => {
                    // The answer may make room in a full replay ring, and then there may be more to send.
                    makes_room = state.machine.outbox().is_stopped();
                    state.machine.received_in_step(step.now);
                    state.machine.handle(step, Input::Connection(id, input));
                }
                ReadOutcome::NeedsTask(work) => {
                    state.machine.received_in_step(step.now);
                    unparked = state.unpark(id, reference, Signals::NONE, work);
                }
                ReadOutcome::Deferred => {
                    unparked = state.unpark(id, reference, Signals::NONE, PendingWork::default())
                }
                ReadOutcome::Lost(error) => {
                    let work = PendingWork { lost: Some(error), ..PendingWork::default() };
                    unparked = state.unpark(id, reference, Signals::NONE, work);
                }
            }
        });
        Unparked::start(unparked, session);
        if makes_room {
            deliver_pending(&self.table, session);
        }
    }

    /// Closes the sockets of all parked connections. Used when there is no runtime left for their tasks.
    pub(crate) fn close_parked(&self) {
        for session in self.table.iter() {
            let connection = session.lock().parked.take();
            drop(connection);
        }
    }
}
