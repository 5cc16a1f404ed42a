//! Leaving all sessions to the other servers when this one shuts down.

use std::time::Duration;

use encke_core::session::{Input, Phase};

use super::SharedSessions;
use crate::session::table::SessionHandle;

/// Number of sessions that are moved at a time.
const CHUNK: usize = 64;

impl SharedSessions {
    /// Moves all sessions to the other servers, and gives up the lease. The connections are closed over `spread`, so
    /// that their clients do not all reconnect at once. Completes once the directory has the final state of every
    /// session.
    pub(crate) async fn drain(&self, spread: Duration) {
        self.sessions.begin_moving();
        let sessions: Vec<SessionHandle> = self.sessions.table.registry().pages().flatten().collect();
        let chunks = u32::try_from(sessions.len().div_ceil(CHUNK)).unwrap_or(u32::MAX);
        for chunk in sessions.chunks(CHUNK) {
            chunk.iter().for_each(|session| self.move_away(session));
            if chunks > 1 {
                self.timeouts.sleep(spread / chunks).await;
            }
        }
        // A session that was being opened may have missed the loop.
        self.sessions.table.registry().pages().flatten().for_each(|session| self.move_away(&session));
        while self.sessions.table.registry().len() > 0 || self.writes.ended_len() > 0 {
            self.written.notified().await;
        }
        self.directory.end_lease().await;
    }

    fn move_away(&self, session: &SessionHandle) {
        self.sessions.lifecycle.handle(session, Input::Move);
        let mut state = session.lock();
        let is_moved = state.machine.phase() == Phase::Moved;
        if let Some(shared) = state.shared_mut().filter(|_| is_moved) {
            shared.ownership.release();
            shared.enqueue(session.reference(), true);
        }
    }
}
