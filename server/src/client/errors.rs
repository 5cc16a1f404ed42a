//! Why commands are refused, in the words of the dialects.

use encke_core::dialect::{CommandError, ErrorCode};
use encke_core::message::BadJson;

use super::Context;
use super::context::NotIdentified;
use crate::channel::BadChannelName;
use crate::engine::EngineError;
use crate::session::NotSubscribed;

pub(super) fn forbidden(message: impl Into<String>) -> CommandError {
    CommandError { code: ErrorCode::Forbidden, message: message.into() }
}

pub(super) fn too_fast(context: &Context) -> CommandError {
    let limit = context.settings.commands_per_second;
    let message = format!("more than {limit} commands a second (limits.commands_per_second)");
    CommandError { code: ErrorCode::RateLimited, message }
}

pub(super) fn user_too_fast(context: &Context) -> CommandError {
    let limit = context.user_rates.per_second();
    let message =
        format!("more than {limit} commands a second by one user (limits.user_commands_per_second)");
    CommandError { code: ErrorCode::RateLimited, message }
}

impl From<NotIdentified> for CommandError {
    fn from(error: NotIdentified) -> Self {
        match error {
            NotIdentified::TooManyBadSignatures => {
                let message = "too many bad signatures from this address (limits.bad_signatures_per_second)";
                Self { code: ErrorCode::RateLimited, message: message.to_owned() }
            }
            NotIdentified::KeysUnknown => Self { code: ErrorCode::Unavailable, message: error.to_string() },
            NotIdentified::BadToken(error) => {
                Self { code: ErrorCode::Unauthorized, message: error.to_string() }
            }
        }
    }
}

pub(super) fn bad_data(error: BadJson) -> CommandError {
    CommandError { code: ErrorCode::Malformed, message: error.to_string() }
}

impl From<BadChannelName> for CommandError {
    fn from(error: BadChannelName) -> Self {
        Self { code: ErrorCode::BadChannel, message: error.to_string() }
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        let code = match error {
            EngineError::TooManyChannels(_) => ErrorCode::Limit,
            EngineError::Draining => ErrorCode::Draining,
            EngineError::Unavailable => ErrorCode::Unavailable,
            EngineError::OutcomeUnknown => ErrorCode::OutcomeUnknown,
            EngineError::Overloaded => ErrorCode::Overloaded,
        };
        Self { code, message: error.to_string() }
    }
}

impl From<NotSubscribed> for CommandError {
    fn from(error: NotSubscribed) -> Self {
        let code = match error {
            NotSubscribed::Forbidden => ErrorCode::Forbidden,
            NotSubscribed::Draining => ErrorCode::Draining,
            NotSubscribed::TooManySubscriptions { .. } | NotSubscribed::Detached | NotSubscribed::Ended => {
                ErrorCode::Limit
            }
            NotSubscribed::Engine(error) => return error.into(),
        };
        Self { code, message: error.to_string() }
    }
}
