//! How a request gets a session that is going to hold it: the same for streams of events and for polls.

use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;
use encke_core::session::{ConnectionKind, Delivery};

use super::query::Query;
use crate::admission::RefusalReason;
use crate::auth::Permission;
use crate::channel::ChannelName;
use crate::client::{Caller, Context};
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::{AttachRequest, Attached, Refusal};

/// Nobody reads it, unless the client has ended only its own half of the connection.
const LATE: &str = "the connection has ended, and the session has another";

/// Why a request gets no session.
#[derive(Debug)]
pub(super) enum NotAdmitted {
    /// It will not get one later either.
    Error(ApiError),
    /// It is sent away, for this reason, which says whether it is to come back.
    Goaway(CloseCode),
}

impl NotAdmitted {
    /// What the request gets instead. `send_away` says when to come back, in the form that its client understands.
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

/// Whether the page that asks may.
pub(super) fn check_origin(caller: &Caller, context: &Context) -> Result<(), ApiError> {
    if caller.origin_allowed {
        return Ok(());
    }
    Err(refused(
        RefusalReason::Origin,
        ApiError::forbidden("this origin is not in auth.origins"),
        caller,
        context,
    ))
}

/// Counts and logs why a request is refused.
pub(super) fn refused(
    reason: RefusalReason,
    error: ApiError,
    caller: &Caller,
    context: &Context,
) -> ApiError {
    context.refusals.refused(reason, caller.address, &error);
    error
}

/// Gives a request its session. Returns the channels that it asks for, too.
pub(super) fn admit(
    query: Query,
    kind: ConnectionKind,
    only_resume: bool,
    caller: &Caller,
    context: &Context,
    has_ended: impl Fn() -> bool,
) -> Result<(Attached, Vec<ChannelName>), NotAdmitted> {
    let Query { resume, seq, token, channels, last: _ } = query;
    let identity = caller.identify(token.as_deref(), context).map_err(|code| match code {
        CloseCode::Overloaded => NotAdmitted::Goaway(code),
        code => ApiError::unauthorized(code.reason()).into(),
    })?;
    if let Some(channel) =
        channels.iter().find(|channel| !identity.allows(Permission::Subscribe, channel.as_str()))
    {
        let message = format!("the token does not allow to subscribe to {channel}");
        return Err(refused(RefusalReason::Channel, ApiError::forbidden(message), caller, context).into());
    }
    let attach = |may_open| AttachRequest {
        resume,
        seq,
        identity,
        address: caller.address,
        kind,
        dialect: DialectName::Json,
        delivery: Delivery::AtLeastOnce,
        may_open,
        only_resume: only_resume || caller.only_resumes(),
    };
    let attached = context.attach(caller.address, attach, has_ended).map_err(|refusal| match refusal {
        Refusal::TooManyConnections | Refusal::TooManySessions | Refusal::TooFast => {
            NotAdmitted::Goaway(CloseCode::Overloaded)
        }
        Refusal::Draining => NotAdmitted::Goaway(CloseCode::Draining),
        Refusal::Ended(code) => NotAdmitted::Goaway(code),
        Refusal::Moved => NotAdmitted::Goaway(CloseCode::Moved),
        Refusal::NotTheUser => ApiError::forbidden("the session is another user's").into(),
        Refusal::Late => ApiError::new(ApiErrorCode::Superseded, LATE).into(),
        // It is asked about when it comes again.
        Refusal::Gone if caller.only_resumes() => NotAdmitted::Goaway(CloseCode::Overloaded),
        Refusal::Gone => gone("the session is gone; with channels=a,b a new one would follow them").into(),
    })?;
    Ok((attached, channels))
}

pub(super) fn gone(message: &str) -> ApiError {
    ApiError::new(ApiErrorCode::Gone, message)
}
