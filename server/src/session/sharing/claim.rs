//! Claiming a session whose client has connected to this server.

use std::sync::Arc;
use std::time::Duration;

use encke_base::locks::Mutex;
use encke_base::metrics::ClaimResult;
use encke_broker::engine::{DirectoryReply, DirectoryRequest, GrantedSession, ServerMessage};
use encke_core::Timestamp;
use encke_core::close::{CloseCode, SuspendReason};
use encke_core::ownership::{Claim, ClaimOutcome, ClaimStep, GRANT_TIMEOUT, Ownership};
use encke_core::session::Phase;
use tokio::sync::{Notify, oneshot};

use super::SharedSessions;
use crate::session::id::{ResumeToken, SessionId};
use crate::session::lifecycle::AttachRefusal;
use crate::session::table::SharedState;
use crate::session::transport::Transport;

/// How long a client waits for its session.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before a claim is sent again.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// A claim in progress. Further connections that ask for the session wait for its end.
#[derive(Debug, Default)]
pub(super) struct PendingClaim {
    /// Server that was asked for the session.
    asked: Mutex<Option<String>>,
    released: Notify,
    ended: Notify,
}

/// Whether this server has a session.
enum LocalSession {
    /// This server has the session, or has just ended it.
    Here,
    /// Another server has asked for it. The receiver completes when it has been released.
    Leaving(oneshot::Receiver<()>),
    Absent,
}

/// A session that was claimed for a client. When this is dropped, the session no longer waits for the client.
#[derive(Debug)]
pub(crate) struct ClaimedSession {
    session: SessionId,
    shared: Arc<SharedSessions>,
}

impl Drop for ClaimedSession {
    fn drop(&mut self) {
        self.shared.abandon_claim(self.session);
    }
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
    /// Moves a session to this server, if another one has it. The session is then found locally; otherwise, it does not
    /// exist. A session that has a client on another server is only moved if `may_take` is set.
    ///
    /// # Errors
    /// Returns [`AttachRefusal::Unavailable`] if the client has to try again.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        token: &ResumeToken,
        may_take: bool,
    ) -> Result<Option<ClaimedSession>, AttachRefusal> {
        let until = self.timeouts.clock().now() + CLAIM_TIMEOUT;
        loop {
            let remaining = until.since(self.timeouts.clock().now());
            if remaining.is_zero() {
                return Err(AttachRefusal::Unavailable);
            }
            match self.find_local(token.id) {
                LocalSession::Here => return Ok(None),
                LocalSession::Leaving(left) => {
                    self.timeouts.within(remaining.min(RETRY_DELAY), left).await;
                    continue;
                }
                LocalSession::Absent => {}
            }
            let (claim, is_new) = {
                let mut claims = self.claims.lock();
                let is_new = !claims.contains_key(&token.id);
                (Arc::clone(claims.entry(token.id).or_default()), is_new)
            };
            if !is_new {
                self.timeouts.within(remaining.min(RETRY_DELAY), claim.ended.notified()).await;
                continue;
            }
            // In a task of its own, because the outcome matters even if the client leaves.
            let (sender, outcome) = oneshot::channel();
            let (shared, token) = (Arc::clone(self), *token);
            self.executor.spawn(Box::pin(async move {
                let outcome = shared.claim(&token, &claim, may_take, until).await;
                shared.metrics.sharing.claimed(match outcome {
                    Ok(true) => ClaimResult::Granted,
                    Ok(false) | Err(AttachRefusal::Ended(_)) => ClaimResult::Unknown,
                    Err(_) => ClaimResult::Unavailable,
                });
                shared.claims.lock().remove(&token.id);
                claim.ended.notify_waiters();
                _ = sender.send(outcome.map(|_| ClaimedSession { session: token.id, shared }));
            }));
            return outcome.await.unwrap_or(Err(AttachRefusal::Unavailable)).map(Some);
        }
    }

    fn find_local(&self, id: SessionId) -> LocalSession {
        let Some(session) = self.sessions.table.registry().get(id) else {
            return if self.writes.ending(id).is_some() { LocalSession::Here } else { LocalSession::Absent };
        };
        let mut state = session.lock();
        let is_leaving = state.machine.phase() == Phase::Moved;
        match state.shared_mut().filter(|_| is_leaving) {
            Some(shared) => LocalSession::Leaving(shared.wait()),
            None => LocalSession::Here,
        }
    }

    /// Returns whether the session was granted to this server. If not, it does not exist.
    async fn claim(
        &self,
        token: &ResumeToken,
        pending: &PendingClaim,
        may_take: bool,
        until: Timestamp,
    ) -> Result<bool, AttachRefusal> {
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
            let request = DirectoryRequest::Claim { session, secret, from };
            let reply = self.directory.execute(&[request]).await.pop().flatten();
            match reply {
                Some(DirectoryReply::Granted(granted)) if self.boot_time() < sent_at + GRANT_TIMEOUT => {
                    return self.accept(token, granted, sent_at).await.map(|()| true);
                }
                Some(DirectoryReply::OwnedBy(owner, term)) => {
                    if !may_take || !claim.finish(ClaimOutcome::OwnedBy(owner, term), self.boot_time()) {
                        return Err(AttachRefusal::Unavailable);
                    }
                }
                Some(DirectoryReply::Ended(code)) => {
                    let code = code.and_then(CloseCode::from_repr);
                    return match code.filter(|code| *code != CloseCode::Normal && !code.allows_reconnect()) {
                        Some(code) => Err(AttachRefusal::Ended(code)),
                        None => Ok(false),
                    };
                }
                Some(DirectoryReply::Refused) => return Ok(false),
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

    /// Continues a session that was granted to this server.
    async fn accept(
        &self,
        token: &ResumeToken,
        granted: GrantedSession,
        sent_at: Duration,
    ) -> Result<(), AttachRefusal> {
        let GrantedSession { term, version, is_attached, is_complete, .. } = granted;
        let mut ownership = Ownership::granted(term, version, is_attached, self.writes.generation());
        if !self.lease.lock().is_valid_since(sent_at, self.boot_time()) {
            ownership.suspect();
        }
        if let Some(former) = &granted.former_owner {
            // The former owner may still have the session, which had no client there.
            self.directory.send(former, ServerMessage::Release(token.id.bytes()));
        }
        let shared = |is_outdated| {
            SharedState::granted(ownership, is_attached, is_outdated || !is_complete, &self.writes)
        };
        match self.continue_session(&granted, Some(token.secret), shared).await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.give_back(token.id, granted, &error).await;
                Err(AttachRefusal::Unavailable)
            }
        }
    }

    /// Records that the client for which a session was claimed has not been attached.
    fn abandon_claim(&self, session: SessionId) {
        let Some(session) = self.sessions.table.registry().get(session) else { return };
        let (was_claimed, polls) = {
            let mut state = session.lock();
            let polls = state.transport == Transport::Poll;
            (state.shared_mut().is_some_and(SharedState::take_claim), polls)
        };
        // A client that polls is expected to poll again, here or elsewhere.
        if was_claimed && !polls {
            self.detach(&session, SuspendReason::Moved);
        }
    }
}
