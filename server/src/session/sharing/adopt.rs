//! Adopting the sessions of servers that have died or shut down.

use std::sync::Arc;
use std::time::Duration;

use encke_broker::engine::{DirectoryReply, DirectoryRequest, GrantedSession, LeaseRenewal, SessionKey};
use encke_core::close::SuspendReason;
use futures_util::StreamExt;
use futures_util::stream::iter;

use super::SharedSessions;
use crate::session::id::SessionId;

/// How often a renewal of the lease is checked for sessions to adopt.
const INTERVAL: Duration = Duration::from_secs(1);

/// Number of sessions whose channels are opened at the same time.
const CONCURRENCY: usize = 64;

impl SharedSessions {
    /// Adopts sessions until the server shuts down.
    pub(super) async fn adopt_sessions(self: Arc<Self>) {
        let mut may_have_unknown = false;
        loop {
            self.timeouts.sleep(INTERVAL).await;
            let Some(renewal) = self.renewal.lock().take() else { continue };
            let LeaseRenewal { alive, dead, unowned, owned, .. } = renewal;
            let is_adopter = |session: &SessionKey| self.is_adopter(session, &alive);
            for server in &dead {
                self.adopt_from(Some(server), is_adopter).await;
            }
            if unowned > 0 {
                self.adopt_from(None, is_adopter).await;
            }
            // Sessions may be opened or end between the two counts.
            let known = self.sessions.table.registry().len() + self.writes.ended_len();
            let has_unknown = owned > known as u64;
            if has_unknown && may_have_unknown {
                self.adopt_from(Some(self.directory.server()), |session| self.is_unknown(session)).await;
            }
            may_have_unknown = has_unknown;
        }
    }

    fn may_adopt(&self) -> bool {
        !self.sessions.is_draining() && self.lease.lock().may_adopt(self.boot_time())
    }

    /// Whether this server does not have a session that it owns, because it has received no reply to a claim.
    fn is_unknown(&self, session: &SessionKey) -> bool {
        let id = SessionId::from_bytes(*session);
        let is_known = self.sessions.table.registry().get(id).is_some() || self.writes.ending(id).is_some();
        !is_known && !self.claims.lock().contains_key(&id)
    }

    /// Adopts those sessions of a server, or (`None`) of the sessions that were released and have not been claimed, that
    /// this server has to adopt.
    async fn adopt_from(&self, server: Option<&str>, is_adopter: impl Fn(&SessionKey) -> bool) {
        let is_own = server == Some(self.directory.server());
        let mut cursor = 0;
        while self.may_adopt() {
            let Some((sessions, next)) = self.directory.sessions_of(server, cursor).await else { return };
            self.adopt(sessions.into_iter().filter(&is_adopter).collect(), is_own).await;
            cursor = next;
            if cursor == 0 {
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

    async fn adopt(&self, sessions: Vec<SessionKey>, is_own: bool) {
        let sent_at = self.boot_time();
        // A client may have just reached this server.
        let begin = |session| Some((session, self.begin_claim(SessionId::from_bytes(session)).ok()?));
        let (sessions, claims): (Vec<SessionKey>, Vec<_>) = sessions.into_iter().filter_map(begin).unzip();
        let requests: Vec<_> =
            sessions.iter().map(|session| DirectoryRequest::Adopt { session: *session, is_own }).collect();
        let replies = self.directory.execute(&requests).await;
        let adoptions = sessions.into_iter().zip(claims).zip(replies);
        let adoptions = adoptions.map(async |((session, claim), reply)| {
            let session = SessionId::from_bytes(session);
            if let Some(DirectoryReply::Granted(granted)) = reply {
                self.continue_adopted(session, granted, sent_at).await;
            }
            self.end_claim(session, &claim);
        });
        iter(adoptions).buffer_unordered(CONCURRENCY).for_each(async |()| ()).await;
    }

    async fn continue_adopted(&self, session: SessionId, granted: GrantedSession, sent_at: Duration) {
        if let Ok(true) = self.accept(session, None, granted, sent_at).await
            && let Some(session) = self.sessions.table.registry().get(session)
        {
            self.detach(&session, SuspendReason::ServerLost);
            self.metrics.sharing.adopted();
        }
    }
}
