//! Claiming a session whose client has connected to this server.

use std::time::Duration;

use encke_base::locks::Mutex;
use encke_broker::engine::{DirectoryReply, DirectoryRequest, GrantedSession, RecordUser, ServerMessage};
use encke_core::Timestamp;
use encke_core::close::CloseCode;
use encke_core::ownership::{Claim, ClaimOutcome, ClaimStep, GRANT_TIMEOUT, Ownership, Term};
use tokio::sync::Notify;

use super::SharedSessions;
use super::record::NotContinued;
use crate::session::id::{ResumeSecret, ResumeToken, SecretDigest, SessionId};
use crate::session::lifecycle::AttachRefusal;
use crate::session::table::SharedState;

/// Pause before a claim is sent again.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(100);

/// A claim or an adoption in progress. Connections that ask for the session wait for its end.
#[derive(Debug, Default)]
pub(super) struct PendingClaim {
    /// Server that was asked for the session.
    asked: Mutex<Option<String>>,
    released: Notify,
    pub(super) ended: Notify,
}

/// Outcome of a claim.
pub(super) enum Claimed {
    Granted,
    /// The session has a client on this server.
    OnServer(String),
    /// The session does not exist.
    Unknown,
}

impl PendingClaim {
    /// Handles the answer of a server. An answer of a server that was asked earlier has no effect.
    pub(super) fn released_by(&self, server: &str) {
        if self.asked.lock().as_deref() == Some(server) {
            self.released.notify_one();
        }
    }
}

impl SharedSessions {
    /// Claims a session for a client of this user. If it has a client on another server, it is only taken if `may_take` is set.
    pub(super) async fn claim(
        &self,
        (token, user): (&ResumeToken, &RecordUser),
        pending: &PendingClaim,
        may_take: bool,
        until: Timestamp,
    ) -> Result<Claimed, AttachRefusal> {
        let (session, secret) = (token.id.bytes(), token.secret.digest().bytes());
        let mut claim = Claim::<String>::begin();
        loop {
            if self.timeouts.clock().now() >= until || !self.has_lease() {
                return Err(AttachRefusal::Unavailable);
            }
            let from = match claim.step() {
                ClaimStep::Send { from } => from,
                ClaimStep::Ask { owner, until } => {
                    self.ask(&owner, token.id, pending, until).await;
                    claim.released();
                    continue;
                }
            };
            let sent_at = self.boot_time();
            let request = DirectoryRequest::Claim { session, secret, user: user.clone(), from };
            let reply = self.directory.execute(&[request]).await.pop().flatten();
            match reply {
                Some(DirectoryReply::Granted(granted)) if self.boot_time() < sent_at + GRANT_TIMEOUT => {
                    let accepted = self.accept(token.id, Some(token.secret), granted, sent_at).await;
                    return accepted.map(|_| Claimed::Granted).map_err(|_| AttachRefusal::Unavailable);
                }
                Some(DirectoryReply::OwnedBy(owner, _)) if !may_take => return Ok(Claimed::OnServer(owner)),
                Some(DirectoryReply::OwnedBy(owner, term)) => {
                    if !claim.finish(ClaimOutcome::OwnedBy(owner, term), self.boot_time()) {
                        return Err(AttachRefusal::Unavailable);
                    }
                }
                Some(DirectoryReply::Ended(code)) => {
                    let code = code.and_then(CloseCode::from_repr);
                    return match code.filter(|code| *code != CloseCode::Normal && !code.allows_reconnect()) {
                        Some(code) => Err(AttachRefusal::Ended(code)),
                        None => Ok(Claimed::Unknown),
                    };
                }
                Some(DirectoryReply::Refused) => return Ok(Claimed::Unknown),
                Some(DirectoryReply::OtherUser) => return Err(AttachRefusal::WrongUser),
                Some(DirectoryReply::Unsettled) => return Err(AttachRefusal::Unavailable),
                Some(DirectoryReply::OtherGeneration) => {
                    self.lease_wanted.notify_one();
                    self.timeouts.sleep(RETRY_DELAY).await;
                }
                Some(DirectoryReply::Granted(_) | DirectoryReply::Outcome(_)) | None => {
                    claim.finish(ClaimOutcome::Unknown, self.boot_time());
                    self.timeouts.sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Asks the owner for the session, and waits for its answer until this time of the machine.
    async fn ask(&self, owner: &str, session: SessionId, pending: &PendingClaim, until: Duration) {
        *pending.asked.lock() = Some(owner.to_owned());
        self.directory.send(owner, ServerMessage::Release(session.bytes()));
        let remaining = until.saturating_sub(self.boot_time());
        self.timeouts.within(remaining, pending.released.notified()).await;
        *pending.asked.lock() = None;
    }

    /// Continues a session that was granted to this server. `secret` is known if a client has claimed the session. Returns
    /// false if this server already has the session in this term, because the request was repeated.
    ///
    /// # Errors
    /// The session cannot continue here, and has been released or ended.
    pub(super) async fn accept(
        &self,
        id: SessionId,
        secret: Option<ResumeSecret>,
        granted: GrantedSession,
        sent_at: Duration,
    ) -> Result<bool, NotContinued> {
        let GrantedSession { term, version, is_attached, is_complete, .. } = granted;
        if self.has_in_term(id, term) {
            return Ok(false);
        }
        let mut ownership = Ownership::granted(term, version, is_attached, self.writes.generation());
        if !self.lease.lock().is_valid_since(sent_at, self.boot_time()) {
            ownership.suspect();
        }
        if let Some(former) = granted.former_owner.as_ref().filter(|_| secret.is_some()) {
            // The former owner may still have the session, which had no client there.
            self.directory.send(former, ServerMessage::Release(id.bytes()));
        }
        let digest = SecretDigest::from_bytes(granted.secret);
        let shared = |is_outdated| {
            SharedState::granted(ownership, digest, is_attached, is_outdated || !is_complete, &self.writes)
        };
        if let Err(error) = self.continue_session(&granted, secret, shared).await {
            self.give_back(id, granted, &error).await;
            return Err(error);
        }
        Ok(true)
    }

    /// Whether this server has a session in this term. Removes the session if it belongs to an earlier term, which has
    /// ended.
    fn has_in_term(&self, id: SessionId, term: Term) -> bool {
        let Some(session) = self.sessions.table.registry().get(id) else { return false };
        let is_current = session.lock().shared().is_some_and(|shared| shared.ownership.term() >= term);
        if !is_current {
            self.metrics.sharing.fenced();
            self.sessions.lifecycle.fence(&session, CloseCode::Replaced);
        }
        is_current
    }
}
