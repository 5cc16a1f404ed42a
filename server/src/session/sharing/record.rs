//! Records from which another server continues a session.

use std::time::Duration;

use encke_base::quota::QuotaOwner;
use encke_broker::engine::{DirectoryRequest, EngineError, GrantedSession, RecordUser, RecordWrite};
use encke_core::close::CloseCode;
use encke_core::ownership::Operation;
use encke_core::session::Phase;

use super::SharedSessions;
use crate::session::id::{ResumeSecret, SecretDigest, SessionId};
use crate::session::lifecycle::RestoredSessions;
use crate::session::table::{MovedSession, NotRestored, SessionCell, SessionState, SharedState};

/// Why a session that was granted to this server cannot continue here.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotContinued {
    #[error("the record cannot be decoded: {0}")]
    BadEncoding(#[from] minicbor::decode::Error),
    #[error(transparent)]
    NotRestored(#[from] NotRestored),
    #[error("a log is not available: {0}")]
    Log(#[from] EngineError),
}

impl NotContinued {
    /// Whether the session can continue neither later nor on another server.
    fn is_final(&self) -> bool {
        match self {
            Self::BadEncoding(_)
            | Self::NotRestored(NotRestored::BadRecord(_) | NotRestored::Contradiction(_)) => true,
            Self::NotRestored(NotRestored::TooManySessions) | Self::Log(_) => false,
        }
    }
}

impl SharedSessions {
    /// Returns what the directory stores of a session.
    pub(super) fn record(
        &self,
        session: &SessionCell,
        state: &SessionState,
        digest: SecretDigest,
    ) -> RecordWrite {
        let settings = self.sessions.lifecycle.settings();
        let mut machine = state.machine.record(settings);
        let remaining = Duration::from_nanos(machine.reconnect_ns);
        let bytes = match state.machine.phase() {
            Phase::Closed(reason) => reason.close_code().code().to_string().into_bytes(),
            _ => {
                let logs = self.sessions.subscriptions.logs_to_move(state, &mut machine.outbox);
                let session = self.sessions.record_of(session, state, digest, machine);
                let shared = state.shared();
                let has_client = state.machine.phase().has_client();
                // If this server fails, the client has received messages that are not in the record.
                let is_outdated = has_client || shared.is_some_and(|shared| shared.is_outdated);
                let is_attached = has_client || shared.is_some_and(|shared| shared.was_attached);
                let moved = MovedSession { session, logs, is_outdated, is_attached };
                minicbor::to_vec(&moved).expect("a record can be encoded into memory")
            }
        };
        let user = RecordUser::Known(state.identity.user().map(ToOwned::to_owned));
        RecordWrite { remaining, secret: digest.bytes(), user, state: bytes }
    }

    /// Continues a session that the directory has granted to this server. `secret` is known if a client has claimed the
    /// session.
    pub(super) async fn continue_session(
        &self,
        granted: &GrantedSession,
        secret: Option<ResumeSecret>,
        shared: impl FnOnce(bool) -> SharedState,
    ) -> Result<(), NotContinued> {
        let MovedSession { session: mut stored, logs, is_outdated, is_attached } =
            minicbor::decode(&granted.state)?;
        stored.machine.reconnect_ns = u64::try_from(granted.remaining.as_nanos()).unwrap_or(u64::MAX);
        let owner = QuotaOwner::from_text(&stored.owner);
        let owner = owner.ok_or(NotRestored::Contradiction("an unknown quota owner"))?;
        let subscriptions = &self.sessions.subscriptions;
        let logs = subscriptions.open_moved(&logs, &stored.machine.outbox, &owner).await?;
        let shared = shared(is_outdated);
        let mut restored = RestoredSessions::default();
        self.sessions.restore_with(
            stored,
            is_attached,
            secret,
            |state| state.set_shared(shared),
            |session, outbox| subscriptions.restore_moved(session, outbox, &logs),
            &mut restored,
        )?;
        self.sessions.settle(restored);
        Ok(())
    }

    /// Releases a session that cannot continue on this server, with the state that was granted. Ends the session if its
    /// record is invalid.
    pub(super) async fn give_back(&self, session: SessionId, granted: GrantedSession, error: &NotContinued) {
        let GrantedSession { term, version, remaining, secret, mut state, .. } = granted;
        let operation = if error.is_final() {
            tracing::error!(%session, %error, "session ended: its record in Redis is invalid");
            state = CloseCode::Internal.code().to_string().into_bytes();
            Operation::End { version, is_first: false }
        } else {
            tracing::warn!(%session, %error, "session cannot continue on this server");
            Operation::Release { version, is_first: false }
        };
        let write = RecordWrite { remaining, secret, user: RecordUser::Unknown, state };
        let request = DirectoryRequest::Operate { session: session.bytes(), term, operation, write };
        self.directory.execute(&[request]).await;
    }
}
