//! Finding the session of a client, on this server or on another one.

use std::sync::Arc;
use std::time::Duration;

use encke_base::metrics::ClaimResult;
use encke_broker::engine::RecordUser;
use encke_core::close::SuspendReason;
use encke_core::session::Phase;
use tokio::sync::oneshot;

use super::SharedSessions;
use super::claim::{Claimed, PendingClaim, RETRY_DELAY};
use crate::session::id::{ResumeToken, SessionId};
use crate::session::lifecycle::AttachRefusal;
use crate::session::table::SharedState;
use crate::session::transport::Transport;

/// How long a client waits for its session.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the session of a client is.
#[derive(Debug)]
pub(crate) enum AcquiredSession {
    /// On this server. Set if it was claimed for the client.
    Here(Option<ClaimedSession>),
    /// It has a client on this server.
    OnServer(String),
    /// It does not exist, or is ending on this server.
    Unknown,
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

/// Whether this server has a session.
enum LocalSession {
    Here,
    Ending,
    /// The ownership of the session is being verified, or another server has asked for the session. The receiver
    /// completes after the next operation.
    Changing(oneshot::Receiver<()>),
    Absent,
}

impl SharedSessions {
    /// Moves a session to this server, if another one has it. A session that has a client on another server is only moved if `may_take` is set. `seq` is the last seq
    /// that the client has received, if it reports one.
    ///
    /// # Errors
    /// Returns [`AttachRefusal::Unavailable`] if the client has to try again, and other refusals if the session has ended or
    /// belongs to another user.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        (token, user): (&ResumeToken, RecordUser),
        seq: Option<u64>,
        may_take: bool,
    ) -> Result<AcquiredSession, AttachRefusal> {
        let until = self.timeouts.clock().now() + ACQUIRE_TIMEOUT;
        let mut is_suspected = false;
        loop {
            let remaining = until.since(self.timeouts.clock().now());
            if remaining.is_zero() {
                return Err(AttachRefusal::Unavailable);
            }
            match self.find_local(token.id, seq, &mut is_suspected) {
                LocalSession::Here => return Ok(AcquiredSession::Here(None)),
                LocalSession::Ending => return Ok(AcquiredSession::Unknown),
                LocalSession::Changing(changed) => {
                    self.timeouts.within(remaining.min(RETRY_DELAY), changed).await;
                }
                LocalSession::Absent => match self.begin_claim(token.id) {
                    Ok(claim) => return self.run_claim((*token, user), claim, may_take).await,
                    Err(other) => {
                        self.timeouts.within(remaining.min(RETRY_DELAY), other.ended.notified()).await;
                    }
                },
            }
        }
    }

    /// Begins a claim or an adoption of a session.
    ///
    /// # Errors
    /// Returns the one that is already in progress.
    pub(super) fn begin_claim(&self, session: SessionId) -> Result<Arc<PendingClaim>, Arc<PendingClaim>> {
        let mut claims = self.claims.lock();
        if let Some(other) = claims.get(&session) {
            return Err(Arc::clone(other));
        }
        let claim = Arc::<PendingClaim>::default();
        claims.insert(session, Arc::clone(&claim));
        Ok(claim)
    }

    pub(super) fn end_claim(&self, session: SessionId, claim: &PendingClaim) {
        self.claims.lock().remove(&session);
        claim.ended.notify_waiters();
    }

    /// Claims a session in a task of its own, because the outcome matters even if the client leaves.
    async fn run_claim(
        self: &Arc<Self>,
        (token, user): (ResumeToken, RecordUser),
        claim: Arc<PendingClaim>,
        may_take: bool,
    ) -> Result<AcquiredSession, AttachRefusal> {
        let (sender, outcome) = oneshot::channel();
        let shared = Arc::clone(self);
        let until = self.timeouts.clock().now() + ACQUIRE_TIMEOUT;
        self.executor.spawn(Box::pin(async move {
            let outcome = shared.claim((&token, &user), &claim, may_take, until).await;
            let result = match &outcome {
                Ok(Claimed::Granted) => Some(ClaimResult::Granted),
                Ok(Claimed::Unknown) | Err(AttachRefusal::Ended(_) | AttachRefusal::WrongUser) => {
                    Some(ClaimResult::Unknown)
                }
                Ok(Claimed::OnServer(_)) => None,
                Err(_) => Some(ClaimResult::Unavailable),
            };
            result.into_iter().for_each(|result| shared.metrics.sharing.claimed(result));
            shared.end_claim(token.id, &claim);
            _ = sender.send(outcome.map(|claimed| match claimed {
                Claimed::OnServer(server) => AcquiredSession::OnServer(server),
                Claimed::Granted => AcquiredSession::Here(Some(ClaimedSession { session: token.id, shared })),
                Claimed::Unknown => AcquiredSession::Unknown,
            }));
        }));
        outcome.await.unwrap_or(Err(AttachRefusal::Unavailable))
    }

    /// Looks for a session on this server. If the client has received more than this server has sent, another server has
    /// taken the session since, unless the client reports a wrong seq: the ownership is verified once.
    fn find_local(&self, id: SessionId, seq: Option<u64>, is_suspected: &mut bool) -> LocalSession {
        let Some(session) = self.sessions.table.registry().get(id) else {
            return if self.writes.ending(id).is_some() {
                LocalSession::Ending
            } else {
                LocalSession::Absent
            };
        };
        let is_ahead = seq.is_some_and(|seq| !session.may_have_sent(seq));
        let mut state = session.lock();
        let is_leaving = state.machine.phase() == Phase::Moved;
        let Some(shared) = state.shared_mut() else { return LocalSession::Here };
        if is_ahead && !std::mem::replace(is_suspected, true) {
            shared.ownership.suspect();
            shared.enqueue(session.reference(), true);
        }
        let is_verifying = is_ahead && !shared.ownership.is_verified();
        if is_leaving || is_verifying { LocalSession::Changing(shared.wait()) } else { LocalSession::Here }
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
