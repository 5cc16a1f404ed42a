//! Sessions of clients that may be on another server.

use std::net::IpAddr;

use encke_broker::engine::RecordUser;
use encke_core::close::CloseCode;

use super::{Refusal, Services};
use crate::http::{ApiError, ApiErrorCode};
use crate::session::{AcquiredSession, Attached, ResumeToken};

impl Services {
    /// Moves a client's session to this server if another server has it. A session that has a client there is only moved
    /// for a new connection (`may_take`), and only for a client of the same user.
    ///
    /// # Errors
    /// Returns the close code that refuses the client.
    pub(crate) async fn claim_session(
        &self,
        (token, seq): (&str, Option<u64>),
        may_take: bool,
        (user, address): (RecordUser, IpAddr),
    ) -> Result<AcquiredSession, CloseCode> {
        let (Some(shared), Some(token)) = (&self.shared_sessions, ResumeToken::parse(token)) else {
            return Ok(AcquiredSession::Unknown);
        };
        let claimed = shared.acquire((&token, user), seq, may_take).await;
        claimed.map_err(|refusal| self.refuse_attachment(refusal, address).close_code())
    }

    /// Returns the error for a request whose session has just left this server. Nothing was carried out.
    pub(crate) fn moved(&self) -> ApiError {
        match self.shared_sessions {
            Some(_) => {
                let message = "the session is moving to another server; repeat the request";
                ApiError::new(ApiErrorCode::Unavailable, message)
            }
            None => {
                let message = "the server is shutting down; the session is kept";
                ApiError::new(ApiErrorCode::Draining, message)
            }
        }
    }

    /// Waits until this server may serve the session of a new connection, or until other servers can find a new session.
    ///
    /// # Errors
    /// Returns the refusal, after counting and logging it.
    pub(crate) async fn confirm_session(&self, attached: &Attached, address: IpAddr) -> Result<(), Refusal> {
        let Some(shared) = &self.shared_sessions else { return Ok(()) };
        if !attached.recovered {
            shared.await_record(attached).await;
            return Ok(());
        }
        shared.confirm(attached).await.map_err(|refusal| self.refuse_attachment(refusal, address))
    }
}
