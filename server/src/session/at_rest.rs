//! A session's connection while it is at rest: it has no task, and whoever has the session's lock acts for it.
//!
//! What a task would do in a few instructions and one call of the kernel is done here at once: a ping leaves, its answer is taken, messages
//! are sent. Everything else wakes the connection: its task begins anew, with what remains to be done.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::Waker;

use encke_core::Timestamp;
use encke_core::session::{ConnectionId, ConnectionInput, Input, Output, Phase, Step};

use super::cell::{SessionCell, SessionRef, SessionState, StateGuard};
use super::delivery::SessionOutbox;
use super::link::{Link, LinkAtRest, Notes, Posted};
use super::sessions::Sessions;
use super::step::notes_of;
use crate::trace::Receipts;

/// A connection at rest, as its transport keeps it. All but [`AtRest::wake`] is done with the session's lock, and blocks on nothing.
pub(crate) trait AtRest: fmt::Debug + Send {
    fn link(&self) -> &LinkAtRest;

    fn link_mut(&mut self) -> &mut LinkAtRest;

    fn sessions(&self) -> &Arc<Sessions>;

    /// From now on someone looks whether there is anything to read.
    fn begin(&mut self, session: &SessionCell) -> io::Result<()>;

    /// Whether its peer has shown that it is alive since the last ping, as far as the kernel knows.
    fn is_alive(&self) -> bool;

    /// Reads what there is. What comes is a sign of life, of which the caller tells the session.
    fn read(&mut self, session: &SessionCell, now: Timestamp) -> Heard;

    /// Writes a ping. `sent` is the last seq that anything was sent under. Returns the ping's.
    fn write_ping(&mut self, sent: u64) -> Result<u64, Remains>;

    /// Sends what there is.
    fn deliver(&mut self, session: &SessionCell, outbox: &mut SessionOutbox) -> Delivered;

    /// Begins its task, or ends it, if there is nobody left to serve. No lock is held.
    fn wake(self: Box<Self>, session: &SessionCell, link: Arc<Link>, remains: Remains);
}

/// What its task is to do first.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// Bytes that were read, and not looked at.
    pub(crate) read: Vec<u8>,
    /// Bytes that the kernel did not take.
    pub(crate) unwritten: Vec<u8>,
    /// For what is in these, or was taken and is to be sent by the task.
    pub(crate) receipts: Receipts,
    /// The seq of a ping at the end of these.
    pub(crate) ping: Option<u64>,
    /// Why its peer is gone: there is nothing to do, and nobody to say anything to.
    pub(crate) lost: Option<io::Error>,
}

/// What a look at its socket brought.
#[derive(Debug)]
pub(crate) enum Heard {
    Nothing,
    /// The answer to a ping. It may make room: then there is more to send.
    Pong {
        input: ConnectionInput,
        makes_room: bool,
    },
    /// Something for its task.
    Other(Remains),
    /// Nothing was read: its task does so later.
    Later,
    /// The peer is gone.
    Lost(io::Error),
}

/// What came of sending.
#[derive(Debug)]
pub(crate) enum Delivered {
    All,
    /// All, and the session's machine is to be told.
    NeedsAcknowledgement,
    /// The rest is for its task.
    InPart(Remains),
}

/// A connection that has just been woken.
#[derive(Debug)]
#[must_use]
pub(super) struct Woken {
    connection: Box<dyn AtRest>,
    pub(super) link: Arc<Link>,
    remains: Remains,
}

impl Woken {
    /// Begins its task, if there is one that was woken. No lock is held any more.
    pub(super) fn begin(woken: Option<Self>, session: &SessionCell) {
        if let Some(Self { connection, link, remains }) = woken {
            connection.wake(session, link, remains);
        }
    }
}

impl Sessions {
    /// A connection goes to rest. Not if its session has let go of it or has left it a note: then its task begins anew at once.
    pub(crate) fn rest(session: &SessionCell, link: Arc<Link>, mut connection: Box<dyn AtRest>) {
        let mut state = session.lock();
        if state.is_attached_to(link.id) && link.rest() {
            if connection.begin(session).is_ok() {
                // What the link knows goes with it.
                state.note_received();
                connection.link_mut().rests(&link);
                (state.link, state.resting) = (None, Some(connection));
                return;
            }
            link.go_on();
        }
        drop(state);
        Woken::begin(Some(Woken { connection, link, remains: Remains::default() }), session);
    }

    /// Tells this connection that a delay is over after which it rests, if its client was silent. Returns its task, which is to be woken; none, if
    /// it has ended meanwhile.
    pub(crate) fn tell_silent(&self, session: SessionRef, connection: ConnectionId) -> Option<Waker> {
        let session = self.get(session)?;
        let state = session.lock();
        state.link.as_ref().filter(|link| link.id == connection)?.post_to_task(Notes::SO_LONG)
    }

    /// There may be something to read for a session's connection. What the kernel tells may be old: then there is nothing, or nobody.
    /// `now` is when the kernel has told so.
    pub(crate) fn readable(&self, reference: SessionRef, now: Timestamp) {
        let Some(session) = &self.get(reference) else { return };
        let (mut woken, mut makes_room) = (None, false);
        self.step_at(session, now, |state, step| {
            let Some((id, connection)) = state.at_rest() else { return };
            match connection.read(session, step.now) {
                Heard::Nothing => {}
                Heard::Pong { input, makes_room: room } => {
                    state.machine.received(step.now);
                    state.machine.handle(step, Input::Connection(id, input));
                    makes_room = room;
                }
                Heard::Other(remains) => {
                    state.machine.received(step.now);
                    woken = state.wake(id, reference, Notes::NONE, remains);
                }
                Heard::Later => woken = state.wake(id, reference, Notes::NONE, Remains::default()),
                Heard::Lost(error) => {
                    let remains = Remains { lost: Some(error), ..Remains::default() };
                    woken = state.wake(id, reference, Notes::NONE, remains);
                }
            }
        });
        Woken::begin(woken, session);
        if makes_room {
            session.wake_to_read();
        }
    }

    /// Closes the sockets of all connections that are at rest: there is no more runtime for their tasks.
    pub(crate) fn cut_at_rest(&self) {
        for session in self.cells.from(0) {
            let connection = session.lock().resting.take();
            drop(connection);
        }
    }
}

impl SessionState {
    /// The connection that is at rest, to which the session is attached: a step that lets go of it wakes it, too.
    fn at_rest(&mut self) -> Option<(ConnectionId, &mut Box<dyn AtRest>)> {
        let Phase::Attached(id) = self.machine.phase() else { return None };
        Some((id, self.resting.as_mut()?))
    }

    /// The connection at rest, which is this one, gets a task, which finds these notes.
    fn wake(
        &mut self,
        id: ConnectionId,
        session: SessionRef,
        notes: Notes,
        remains: Remains,
    ) -> Option<Woken> {
        let mut connection = self.resting.take()?;
        let received_at = self.machine.last_received_at();
        let link = Arc::new(Link::awake(id, connection.link_mut(), session, received_at, notes));
        // Unless the session has let go of it, or another connection has taken it over.
        if self.link.is_none() && matches!(self.machine.phase(), Phase::Attached(_) | Phase::BetweenPolls) {
            self.link = Some(Arc::clone(&link));
        }
        Some(Woken { connection, link, remains })
    }

    /// Does what a step asks of the connection at rest, until there is no more of that, or it wakes. What is asked of others is left. `before` was the phase before
    /// the step.
    pub(super) fn act_at_rest(
        &mut self,
        session: &SessionCell,
        before: Phase,
        step: &mut Step<'_>,
    ) -> Option<Woken> {
        let Phase::Attached(id) = before else { return None };
        while let Some(connection) = &mut self.resting {
            let notes = |output: &Output| notes_of(*output).filter(|(of, _)| *of == id);
            let (at, (_, notes)) =
                step.outputs.iter().enumerate().find_map(|(at, output)| Some((at, notes(output)?)))?;
            match step.outputs.remove(at) {
                Output::Ping(_) => match connection.write_ping(self.machine.outbox().sent()) {
                    Ok(seq) => {
                        self.machine
                            .handle_next(step, Input::Connection(id, ConnectionInput::PingSent { seq }));
                    }
                    Err(remains) => return self.wake(id, session.reference(), Notes::NONE, remains),
                },
                // What the kernel knows of is life, whoever asks. Of silence its task makes what is to be made.
                Output::Probe(_) if connection.is_alive() => {
                    self.machine.received(step.now);
                    self.machine.handle_next(step, Input::Connection(id, ConnectionInput::Probed));
                }
                _ => return self.wake(id, session.reference(), notes, Remains::default()),
            }
        }
        None
    }
}

impl SessionCell {
    /// The session's connection is to read from the logs: its task, which is returned if it is to be woken; or, at rest, it does so here.
    pub(super) fn connection_reads(&self, mut state: StateGuard<'_>) -> Option<Waker> {
        let SessionState { machine, resting, link, .. } = &mut *state;
        let (Phase::Attached(id), Some(connection)) = (machine.phase(), resting) else {
            return match link.as_ref()?.post(Notes::READ) {
                Posted::Task(waker) => waker,
                // It was cut at rest.
                Posted::AtRest => None,
            };
        };
        // What is taken is sent before anybody else can take anything: otherwise two sweeps could swap what they send.
        match connection.deliver(self, machine.outbox_mut()) {
            Delivered::All => {}
            Delivered::NeedsAcknowledgement => {
                let sessions = Arc::clone(connection.sessions());
                drop(state);
                sessions.handle_connection(self, id, ConnectionInput::Sent);
            }
            Delivered::InPart(remains) => {
                let woken = state.wake(id, self.reference(), Notes::NONE, remains);
                drop(state);
                Woken::begin(woken, self);
            }
        }
        None
    }

    /// Leaves a note for a connection that has gone to rest just now: it wakes, or it has woken already, with another link. Returns its task, which is to be woken.
    #[cold]
    pub(super) fn post_at_rest(&self, connection: ConnectionId, notes: Notes) -> Option<Waker> {
        let mut state = self.lock();
        if let Some(link) = state.link.as_ref().filter(|link| link.id == connection) {
            return match link.post(notes) {
                Posted::Task(waker) => waker,
                Posted::AtRest => None,
            };
        }
        let is_this = state.at_rest().is_some_and(|(id, _)| id == connection);
        let woken =
            if is_this { state.wake(connection, self.reference(), notes, Remains::default()) } else { None };
        drop(state);
        Woken::begin(woken, self);
        None
    }

    /// Wakes the connection that is at rest.
    pub(crate) fn wake_at_rest(&self) {
        let mut state = self.lock();
        let Some((id, _)) = state.at_rest() else { return };
        let woken = state.wake(id, self.reference(), Notes::NONE, Remains::default());
        drop(state);
        Woken::begin(woken, self);
    }
}
