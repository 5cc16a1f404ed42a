//! Parked connections. A parked connection has no task; the thread that holds the session's lock acts for it.
//!
//! Work that takes a few instructions and one system call is done in place: sending a ping, accepting its
//! answer, sending messages. Everything else unparks the connection, which means starting a new task and
//! passing the pending work to it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::Waker;

use encke_core::Timestamp;
use encke_core::close::CloseCode;
use encke_core::session::{ConnectionId, ConnectionInput, Input, Output, Phase, StepContext};

use super::cell::{SessionCell, SessionLookup, SessionRef, SessionState};
use super::delivery::SessionOutbox;
use super::mailbox::{Mailbox, ParkedMailbox, Posted, Signals};
use super::sessions::Sessions;
use super::step::signals_of;

/// A parked connection, implemented in `connection/parked.rs` for all transports. The session's lock is held
/// during all calls except [`ParkedConnection::unpark`], and none of them blocks.
pub(crate) trait ParkedConnection: fmt::Debug + Send {
    fn mailbox(&self) -> &ParkedMailbox;

    fn mailbox_mut(&mut self) -> &mut ParkedMailbox;

    fn sessions(&self) -> &Arc<Sessions>;

    /// Registers the socket with the poller, which reports when it becomes readable.
    fn watch(&mut self, session: &SessionCell) -> io::Result<()>;

    /// Whether, since the last ping, the kernel has seen evidence that the peer is alive.
    fn is_alive(&self) -> bool;

    /// Reads from the socket. Input proves that the peer is alive; the caller reports it to the session.
    fn read(&mut self, session: &SessionCell, now: Timestamp) -> ReadOutcome;

    /// Writes a ping and returns its seq. `sent` is the seq of the last message or gap that was sent.
    fn write_ping(&mut self, sent: u64) -> Result<u64, PendingWork>;

    /// Sends the messages in the outbox.
    fn deliver(&mut self, session: &SessionCell, outbox: &mut SessionOutbox) -> DeliveryOutcome;

    /// Starts the connection's task, or closes the connection if its session no longer needs it. Called
    /// without holding locks.
    fn unpark(self: Box<Self>, session: &SessionCell, mailbox: Arc<Mailbox>, work: PendingWork);
}

/// Work that a parked connection leaves to its next task.
#[derive(Debug, Default)]
pub(crate) struct PendingWork {
    /// Bytes that were read but not parsed.
    pub(crate) read: Vec<u8>,
    /// Bytes that the kernel did not accept.
    pub(crate) unwritten: Vec<u8>,
    /// Publish time of the sampled message in `unwritten`, or in messages that were taken and that the task
    /// will send; see [`DeliveryBatch::published_at`](super::DeliveryBatch).
    pub(crate) published_at: Option<Timestamp>,
    /// Seq of the ping at the end of `unwritten`, if there is one.
    pub(crate) ping: Option<u64>,
    /// Error that broke the connection. If there is one, the task sends nothing and only cleans up.
    pub(crate) lost: Option<io::Error>,
}

/// Result of reading a parked connection's socket.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    Nothing,
    /// The answer to a ping.
    Pong(ConnectionInput),
    /// Input that needs a task.
    NeedsTask(PendingWork),
    /// Nothing was read, because reading requires a task.
    Deferred,
    /// The peer is disconnected.
    Lost(io::Error),
}

/// Result of sending to a parked connection.
#[derive(Debug)]
pub(crate) enum DeliveryOutcome {
    Complete,
    /// Everything was sent, but the session's state machine must be notified.
    NeedsAcknowledgement,
    /// A task has to send the rest.
    Partial(PendingWork),
}

/// A connection that was just unparked and whose task has not started yet.
#[derive(Debug)]
#[must_use]
pub(super) struct Unparked {
    connection: Box<dyn ParkedConnection>,
    pub(super) mailbox: Arc<Mailbox>,
    work: PendingWork,
}

impl Unparked {
    /// Starts the connection's task, if a connection was unparked. Called without holding locks.
    pub(super) fn start(unparked: Option<Self>, session: &SessionCell) {
        if let Some(Self { connection, mailbox, work }) = unparked {
            connection.unpark(session, mailbox, work);
        }
    }
}

impl Sessions {
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
        let changed = session.change(park, |state| self.end_half_changed(session, state));
        if let Some(connection) = unparked {
            if changed.is_none() {
                mailbox.cancel_park();
                _ = mailbox.post(Signals::close(CloseCode::Internal));
            }
            let work = PendingWork::default();
            Unparked::start(Some(Unparked { connection, mailbox, work }), session);
        }
    }

    /// Signals a connection that its idle delay has elapsed, so that it parks if its client was silent.
    /// Returns the waker of its task, or `None` if the connection has ended.
    pub(crate) fn signal_idle(&self, session: SessionRef, connection: ConnectionId) -> Option<Waker> {
        let session = self.get(session)?;
        let state = session.lock();
        state.mailbox.as_ref().filter(|mailbox| mailbox.id == connection)?.post_to_task(Signals::IDLE_ELAPSED)
    }

    /// Handles a readiness event for a session's connection. The event may be stale: there may be nothing to
    /// read, or no session. `now` is when the kernel reported the event.
    pub(crate) fn handle_readable(&self, reference: SessionRef, now: Timestamp) {
        let Some(session) = &self.get(reference) else { return };
        let (mut unparked, mut makes_room) = (None, false);
        self.step_at(session, now, |state, step| {
            let Some((id, connection)) = state.parked_connection() else { return };
            match connection.read(session, step.now) {
                ReadOutcome::Nothing => {}
                ReadOutcome::Pong(input) => {
                    // The answer may make room in a full replay ring, and then there may be more to send.
                    makes_room = state.machine.outbox().is_stopped();
                    state.machine.received(step.now);
                    state.machine.handle(step, Input::Connection(id, input));
                }
                ReadOutcome::NeedsTask(work) => {
                    state.machine.received(step.now);
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
            self.deliver_pending(session);
        }
    }

    /// Closes the sockets of all parked connections. Used when there is no runtime left for their tasks.
    pub(crate) fn close_parked(&self) {
        for session in self.cells.iter_from(0) {
            let connection = session.lock().parked.take();
            drop(connection);
        }
    }
}

impl SessionState {
    /// Returns the parked connection that the session is attached to. A step that releases the connection
    /// also unparks it.
    fn parked_connection(&mut self) -> Option<(ConnectionId, &mut Box<dyn ParkedConnection>)> {
        let Phase::Attached(id) = self.machine.phase() else { return None };
        Some((id, self.parked.as_mut()?))
    }

    /// Unparks connection `id`. Its task starts with `signals` pending.
    fn unpark(
        &mut self,
        id: ConnectionId,
        session: SessionRef,
        signals: Signals,
        work: PendingWork,
    ) -> Option<Unparked> {
        let mut connection = self.parked.take()?;
        let received_at = self.machine.last_received_at();
        let mailbox =
            Arc::new(Mailbox::unparked(id, connection.mailbox_mut(), session, received_at, signals));
        // Skip this if the session has released the connection, or another connection has taken over the
        // session.
        if self.mailbox.is_none() && matches!(self.machine.phase(), Phase::Attached(_) | Phase::BetweenPolls)
        {
            self.mailbox = Some(Arc::clone(&mailbox));
        }
        Some(Unparked { connection, mailbox, work })
    }

    /// Carries out a step's outputs for the parked connection, until none is left or the connection is
    /// unparked. Outputs for other connections are kept. `before` is the phase before the step.
    pub(super) fn act_for_parked(
        &mut self,
        session: &SessionCell,
        before: Phase,
        step: &mut StepContext<'_>,
    ) -> Option<Unparked> {
        let Phase::Attached(id) = before else { return None };
        while let Some(connection) = &mut self.parked {
            let signals = |output: &Output| signals_of(*output).filter(|(of, _)| *of == id);
            let (at, (_, signals)) =
                step.outputs.iter().enumerate().find_map(|(at, output)| Some((at, signals(output)?)))?;
            match step.outputs.remove(at) {
                Output::Ping(_) => match connection.write_ping(self.machine.outbox().sent()) {
                    Ok(seq) => {
                        self.machine.handle_without_timeouts(
                            step,
                            Input::Connection(id, ConnectionInput::PingSent { seq }),
                        );
                    }
                    Err(work) => return self.unpark(id, session.reference(), Signals::NONE, work),
                },
                // Evidence that only the kernel has seen counts as well. Without it, the connection's task
                // decides what to do.
                Output::Probe(_) if connection.is_alive() => {
                    self.machine.received(step.now);
                    self.machine
                        .handle_without_timeouts(step, Input::Connection(id, ConnectionInput::Probed));
                }
                _ => return self.unpark(id, session.reference(), signals, PendingWork::default()),
            }
        }
        None
    }
}

impl SessionCell {
    /// Changes the session, then makes its connection send what is pending. A parked connection sends
    /// immediately; otherwise its task is signalled, and its waker is returned if the task must be woken.
    pub(super) fn deliver(
        &self,
        lookup: &SessionLookup,
        change: impl FnOnce(&mut SessionState),
    ) -> Option<Waker> {
        let deliver = |state: &mut SessionState| {
            change(state);
            state.deliver_or_signal(self)
        };
        self.change(deliver, |state| lookup.end_half_changed(self, state))?.finish(self)
    }
}

/// How a connection was made to send, and what remains to be done once the session's lock is released.
enum Notified {
    /// The task has a signal, and must be woken if there is a waker.
    Signalled(Option<Waker>),
    /// Nothing remains to be done.
    Sent,
    NeedsAcknowledgement(Arc<Sessions>, ConnectionId),
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
    fn finish(self, session: &SessionCell) -> Option<Waker> {
        match self {
            Self::Signalled(waker) => return waker,
            Self::Sent => {}
            Self::NeedsAcknowledgement(sessions, id) => {
                sessions.handle_connection(session, id, ConnectionInput::Sent);
            }
            Self::Unparked(unparked) => Unparked::start(unparked.map(|unparked| *unparked), session),
        }
        None
    }
}

impl SessionState {
    fn deliver_or_signal(&mut self, session: &SessionCell) -> Notified {
        let Self { machine, parked, mailbox, .. } = self;
        let (Phase::Attached(id), Some(connection)) = (machine.phase(), parked) else {
            let mailbox = mailbox.as_ref();
            return mailbox.map_or(Notified::Sent, |mailbox| Notified::post(mailbox, Signals::READ));
        };
        // Send the messages before releasing the lock, so that no other thread can take and send later ones
        // first.
        match connection.deliver(session, machine.outbox_mut()) {
            DeliveryOutcome::Complete => Notified::Sent,
            DeliveryOutcome::NeedsAcknowledgement => {
                Notified::NeedsAcknowledgement(Arc::clone(connection.sessions()), id)
            }
            DeliveryOutcome::Partial(work) => {
                Notified::Unparked(self.unpark(id, session.reference(), Signals::NONE, work).map(Box::new))
            }
        }
    }
}

impl Sessions {
    /// Makes the session's connection, if there is one, send what is pending.
    pub(super) fn deliver_pending(&self, session: &SessionCell) {
        session.deliver(self.logs.channels.registry(), |_| {}).into_iter().for_each(Waker::wake);
    }

    /// Signals a connection that has just been parked: unparks it, or signals its new mailbox if it has
    /// already been unparked. Returns the waker of its task if the task must be woken.
    #[cold]
    pub(super) fn signal_parked(
        &self,
        session: &SessionCell,
        connection: ConnectionId,
        signals: Signals,
    ) -> Option<Waker> {
        let signal = |state: &mut SessionState| {
            if let Some(mailbox) = state.mailbox.as_ref().filter(|mailbox| mailbox.id == connection) {
                return Notified::post(mailbox, signals);
            }
            let is_this = state.parked_connection().is_some_and(|(id, _)| id == connection);
            let unparked = is_this
                .then(|| state.unpark(connection, session.reference(), signals, PendingWork::default()));
            Notified::Unparked(unparked.flatten().map(Box::new))
        };
        session.change(signal, |state| self.end_half_changed(session, state))?.finish(session)
    }
}
