//! Attaches event stream and poll requests to their sessions.

use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;
use encke_core::session::{ConnectionKind, DeliveryMode};

use super::query::Query;
use crate::admission::RefusalReason;
use crate::auth::Permission;
use crate::channel::ChannelName;
use crate::client::{Caller, Services};
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::{AttachRefusal, AttachRequest, Attached};

/// Error message for a superseded connection. Only a client that has closed just its own half of the
/// connection can read it.
const SUPERSEDED: &str = "the connection has ended, and the session has a newer one";

/// Why a request gets no session.
#[derive(Debug)]
pub(super) enum NotAdmitted {
    /// Another attempt would also fail.
    Error(ApiError),
    /// The client is sent away for this reason, which determines whether it should reconnect.
    Goaway(CloseCode),
}

impl NotAdmitted {
    /// Converts this into a response. `send_away` creates the response that says when to reconnect, in a form
    /// that the client understands.
    pub(super) fn reply(self, send_away: impl FnOnce(CloseCode) -> Reply) -> Reply {
        match self {
            Self::Error(error) => error.into(),
            Self::Goaway(code) => send_away(code),
        }
    }
}

impl From<ApiError> for NotAdmitted {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
}

/// Checks that the origin of the requesting page is allowed.
pub(super) fn check_origin(caller: &Caller, services: &Services) -> Result<(), ApiError> {
    if caller.origin_allowed {
        return Ok(());
    }
    Err(report_refusal(
        RefusalReason::Origin,
        ApiError::forbidden("this origin is not in auth.origins"),
        caller,
        services,
    ))
}

/// Counts and logs the refusal of a request.
pub(super) fn report_refusal(
    reason: RefusalReason,
    error: ApiError,
    caller: &Caller,
    services: &Services,
) -> ApiError {
    services.refusals.record(reason, caller.address, &error);
    error
}

/// Attaches a request to its session. Also returns the channels that it asks for.
pub(super) fn admit(
    query: Query,
    kind: ConnectionKind,
    only_resume: bool,
    caller: &Caller,
    services: &Services,
    has_ended: impl Fn() -> bool,
) -> Result<(Attached, Vec<ChannelName>), NotAdmitted> {
    let Query { resume, seq, token, channels, last: _ } = query;
    let identity = caller.identify(token.as_deref(), services).map_err(|code| match code {
        CloseCode::Overloaded => NotAdmitted::Goaway(code),
        code => ApiError::unauthorized(code.reason()).into(),
    })?;
    if let Some(channel) =
        channels.iter().find(|channel| !identity.allows(Permission::Subscribe, channel.as_str()))
    {
        let message = format!("the token does not allow subscribing to {channel}");
        return Err(
            report_refusal(RefusalReason::Channel, ApiError::forbidden(message), caller, services).into()
        );
    }
    let attach = |may_open| AttachRequest {
        resume,
        seq,
        identity,
        address: caller.address,
        kind,
        dialect: DialectName::Json,
        delivery: DeliveryMode::AtLeastOnce,
        can_open: may_open,
        only_resume: only_resume || caller.can_only_resume(),
    };
    let attached = services.attach(caller.address, attach, has_ended).map_err(|refusal| match refusal {
        AttachRefusal::TooManyConnections
        | AttachRefusal::TooManySessions
        | AttachRefusal::TooManyNewSessions => NotAdmitted::Goaway(CloseCode::Overloaded),
        AttachRefusal::Draining => NotAdmitted::Goaway(CloseCode::Draining),
        AttachRefusal::Ended(code) => NotAdmitted::Goaway(code),
        AttachRefusal::Moved => NotAdmitted::Goaway(CloseCode::Moved),
        AttachRefusal::WrongUser => ApiError::forbidden("the session belongs to another user").into(),
        AttachRefusal::AlreadyReconnected => ApiError::new(ApiErrorCode::Superseded, SUPERSEDED).into(),
        // Make the client reconnect: the backend is called then.
        AttachRefusal::SessionGone if caller.can_only_resume() => NotAdmitted::Goaway(CloseCode::Overloaded),
        AttachRefusal::SessionGone => {
            gone("the session no longer exists; add channels=a,b to open a new one").into()
        }
    })?;
    Ok((attached, channels))
}

pub(super) fn gone(message: &str) -> ApiError {
    ApiError::new(ApiErrorCode::Gone, message)
}
