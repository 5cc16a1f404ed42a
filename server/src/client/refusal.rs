//! Refusals of clients, as each protocol expresses them.

use encke_core::close::CloseCode;
use encke_core::dialect::bayeux::{Advice, MessageReply};

use super::bayeux::refuse_with;
use super::{Services, retry_delay};
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::{AttachRefusal, SessionCell};

/// Error message for a superseded connection.
const SUPERSEDED: &str = "the session has a newer connection";

/// Whether the client has to come back later, although nothing is wrong with its token.
fn is_temporary(code: CloseCode) -> bool {
    matches!(code, CloseCode::Overloaded | CloseCode::BackendFailed)
}

/// Why a client gets no session.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The request is invalid, or the client may not do what it asks for.
    Request(ApiError),
    Unidentified(CloseCode),
    NotAttached(AttachRefusal),
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self::Request(error)
    }
}

impl Refusal {
    /// Returns the close code for a WebSocket.
    pub(crate) fn close_code(&self) -> CloseCode {
        match self {
            Self::Request(_) => CloseCode::ProtocolError,
            Self::Unidentified(code) | Self::NotAttached(AttachRefusal::Ended(code)) => *code,
            Self::NotAttached(refusal) => match refusal {
                AttachRefusal::Draining => CloseCode::Draining,
                AttachRefusal::Moved => CloseCode::Moved,
                AttachRefusal::AlreadyReconnected => CloseCode::Replaced,
                AttachRefusal::WrongUser | AttachRefusal::SessionGone => CloseCode::Unauthorized,
                _ => CloseCode::Overloaded,
            },
        }
    }

    /// Returns the HTTP response. `send_away` creates the response that says when to reconnect, in a form
    /// that the client understands.
    pub(crate) fn reply(self, send_away: impl FnOnce(CloseCode) -> Reply) -> Reply {
        let error = match self {
            Self::Request(error) => error,
            Self::Unidentified(code) if !is_temporary(code) => ApiError::unauthorized(code.reason()),
            Self::NotAttached(AttachRefusal::WrongUser) => {
                ApiError::forbidden("the session belongs to another user")
            }
            // 409 ends an `EventSource` for good, so a superseded one cannot disturb the newer connection.
            Self::NotAttached(AttachRefusal::AlreadyReconnected) => ApiError::superseded(SUPERSEDED),
            Self::NotAttached(AttachRefusal::SessionGone) => ApiError::new(
                ApiErrorCode::Gone,
                "the session no longer exists; add channels=a,b to open a new one",
            ),
            refusal => return send_away(refusal.close_code()),
        };
        error.into()
    }

    /// Returns the reply to a `/meta/connect`.
    pub(crate) fn connect_reply<'a>(
        self,
        reply: MessageReply<'a>,
        session: &SessionCell,
        services: &Services,
    ) -> MessageReply<'a> {
        let code = self.close_code();
        let is_overloaded = match self {
            Self::NotAttached(AttachRefusal::SessionGone) => return reply.unknown_session(),
            Self::NotAttached(_) => code == CloseCode::Overloaded,
            Self::Request(_) | Self::Unidentified(_) => false,
        };
        if is_overloaded || matches!(code, CloseCode::Replaced | CloseCode::Moved) {
            session.note_pause();
        }
        if is_overloaded {
            // Advise the client to retry: the session still exists.
            let advice = Some(Advice::pause(retry_delay(code, &services.entropy)));
            return MessageReply { advice, ..reply.failed_with(503, code.reason()) };
        }
        refuse_with(reply, code, services)
    }

    /// Returns the reply to a `/meta/handshake`.
    pub(crate) fn handshake_reply<'a>(
        self,
        reply: MessageReply<'a>,
        services: &Services,
    ) -> MessageReply<'a> {
        let code = match self.close_code() {
            // `Moved` means that the session continues in the next process; a handshake has no session yet.
            CloseCode::Moved => CloseCode::Draining,
            code => code,
        };
        let is_unidentified = matches!(self, Self::Unidentified(code) if !is_temporary(code));
        let status = if is_unidentified { 401 } else { 503 };
        let advice = match code.allows_reconnect() {
            true => Advice::handshake(retry_delay(code, &services.entropy)),
            false => Advice::none(),
        };
        MessageReply { advice: Some(advice), ..reply.failed_with(status, code.reason()) }
    }
}
