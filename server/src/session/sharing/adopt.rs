//! Adopting the sessions of servers that have died or shut down.

use std::sync::Arc;
use std::time::Duration;

use encke_broker::engine::{DirectoryReply, DirectoryRequest, GrantedSession, SessionKey};
use encke_core::close::SuspendReason;
use encke_core::ownership::Ownership;
use futures_util::StreamExt;
use futures_util::stream::iter;

use super::SharedSessions;
use crate::session::id::SessionId;
use crate::session::table::SharedState;

/// Pause between searches for sessions to adopt.
const INTERVAL: Duration = Duration::from_secs(1);

/// Number of sessions whose channels are opened at the same time.
const CONCURRENCY: usize = 64;

impl SharedSessions {
    /// Adopts sessions until the server shuts down.
    pub(super) async fn adopt_sessions(self: Arc<Self>) {
        loop {
            self.timeouts.sleep(INTERVAL).await;
            if self.may_adopt() {
                let (alive, dead) = self.servers.lock().clone();
                for server in dead.iter().map(|server| Some(server.as_str())).chain([None]) {
                    self.adopt_from(server, &alive).await;
                }
            }
        }
    }

    fn may_adopt(&self) -> bool {
        !self.sessions.is_draining() && self.lease.lock().may_adopt(self.boot_time())
    }

    /// Adopts this server's share of the sessions of a dead server, or (`None`) of the sessions that were released and
    /// have not been claimed.
    async fn adopt_from(&self, server: Option<&str>, alive: &[String]) {
        let mut cursor = 0;
        loop {
            let Some((sessions, next)) = self.directory.sessions_of(server, cursor).await else { return };
            let own = sessions.into_iter().filter(|session| self.is_adopter(session, alive));
            self.adopt(own.collect()).await;
            cursor = next;
            if cursor == 0 || !self.may_adopt() {
                return;
            }
        }
    }

    /// Whether this server adopts a session: of all living servers, it has the highest hash together with the session
    /// (rendezvous hashing).
    fn is_adopter(&self, session: &SessionKey, alive: &[String]) -> bool {
        let weight = |server: &String| {
            let digest = ring::digest::digest(&ring::digest::SHA256, &[server.as_bytes(), session].concat());
            digest.as_ref().to_vec()
        };
        alive
            .iter()
            .max_by_key(|server| weight(server))
            .is_none_or(|highest| highest == self.directory.server())
    }

    async fn adopt(&self, sessions: Vec<SessionKey>) {
        let sent_at = self.boot_time();
        let requests: Vec<_> =
            sessions.iter().map(|session| DirectoryRequest::Adopt { session: *session }).collect();
        let replies = self.directory.execute(&requests).await;
        let granted = sessions.into_iter().zip(replies).filter_map(|(session, reply)| match reply {
            Some(DirectoryReply::Granted(granted)) => Some((SessionId::from_bytes(session), granted)),
            _ => None,
        });
        let continued = granted.map(|(session, granted)| self.continue_adopted(session, granted, sent_at));
        iter(continued).buffer_unordered(CONCURRENCY).for_each(async |()| ()).await;
    }

    async fn continue_adopted(&self, session: SessionId, granted: GrantedSession, sent_at: Duration) {
        let GrantedSession { term, version, is_complete, .. } = granted;
        let mut ownership = Ownership::granted(term, version, false, self.writes.generation());
        if !self.lease.lock().is_valid_since(sent_at, self.boot_time()) {
            ownership.suspect();
        }
        let shared =
            |is_outdated| SharedState::granted(ownership, false, is_outdated || !is_complete, &self.writes);
        if let Err(error) = self.continue_session(&granted, None, shared).await {
            self.give_back(session, granted, &error).await;
        } else if let Some(session) = self.sessions.table.registry().get(session) {
            self.detach(&session, SuspendReason::ServerLost);
        }
    }
}
