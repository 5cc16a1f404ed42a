//! Releasing a session whose client has connected to another server.

use encke_broker::engine::ServerMessage;
use encke_core::close::SuspendReason;
use encke_core::session::{Input, Phase};

use super::SharedSessions;
use crate::session::id::SessionId;
use crate::session::table::SessionCell;

impl SharedSessions {
    /// Releases a session, because its client has connected to the server `to`, which receives an answer once the
    /// directory has the session's final state.
    pub(super) fn release(&self, id: SessionId, to: &str) {
        if self.claims.lock().contains_key(&id) {
            // This server has claimed the session itself, and does not know the outcome yet.
            return;
        }
        if let Some(session) = self.writes.ending(id) {
            // The end decides. Without it, the other server would continue a session that has ended.
            if let Some(shared) = session.lock().shared_mut() {
                shared.asked_by.push(to.to_owned());
            }
            return;
        }
        let Some(session) = self.sessions.table.registry().get(id) else { return self.answer(to, id) };
        self.sessions.lifecycle.handle(&session, Input::HandOver);
        let mut state = session.lock();
        let is_moved = state.machine.phase() == Phase::Moved;
        let released = state.shared_mut().filter(|shared| is_moved && shared.ownership.loss().is_none());
        let Some(shared) = released else {
            drop(state);
            return self.answer(to, id);
        };
        shared.ownership.release();
        shared.asked_by.push(to.to_owned());
        shared.enqueue(session.reference(), true);
    }

    /// Records that the client of a restored session has not connected to this server.
    pub(super) fn detach(&self, session: &SessionCell, reason: SuspendReason) {
        self.sessions.lifecycle.handle(session, Input::Detach(reason));
        let mut state = session.lock();
        // The step has done this if the session counted as attached.
        if let Some(shared) = state.shared_mut().filter(|shared| shared.ownership.is_attached()) {
            shared.detach(session.reference());
        }
    }

    pub(super) fn answer(&self, server: &str, session: SessionId) {
        self.directory.send(server, ServerMessage::Released(session.bytes()));
    }
}
