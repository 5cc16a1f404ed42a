//! Conversion of errors to the error codes of the dialects.

use encke_broker::channel::InvalidChannelName;
use encke_broker::engine::EngineError;
use encke_core::dialect::{CommandError, ErrorCode};
use encke_core::message::BadJson;

use crate::auth::Permission;
use crate::backend::HookError;
use crate::client::{IdentifyError, Services};
use crate::session::SubscribeError;

pub(super) fn forbidden(message: impl Into<String>) -> CommandError {
    CommandError { code: ErrorCode::Forbidden, message: message.into() }
}

pub(super) fn not_allowed(permission: Permission) -> CommandError {
    forbidden(permission.denial("this channel"))
}

pub(super) fn too_fast(services: &Services) -> CommandError {
    let limit = services.settings.commands_per_second;
    let message = format!("more than {limit} commands a second (limits.commands_per_second)");
    CommandError { code: ErrorCode::RateLimited, message }
}

pub(super) fn owner_too_fast(services: &Services, is_anonymous: bool) -> CommandError {
    let limits = &services.limits;
    let (limit, owner, key) = if is_anonymous {
        let key = "anonymous_commands_per_second_per_address";
        (limits.anonymous_rates.per_second(), "by the anonymous clients of one address", key)
    } else {
        (limits.user_rates.per_second(), "by one user", "user_commands_per_second")
    };
    let message = format!("more than {limit} commands a second {owner} (limits.{key})");
    CommandError { code: ErrorCode::RateLimited, message }
}

impl From<IdentifyError> for CommandError {
    fn from(error: IdentifyError) -> Self {
        match error {
            IdentifyError::TooManyBadSignatures => {
                let message = "too many bad signatures from this session (limits.bad_signatures_per_second)";
                Self { code: ErrorCode::RateLimited, message: message.to_owned() }
            }
            IdentifyError::KeysPending => Self { code: ErrorCode::Unavailable, message: error.to_string() },
            IdentifyError::BadToken(error) => {
                Self { code: ErrorCode::Unauthorized, message: error.to_string() }
            }
        }
    }
}

pub(super) fn bad_data(error: BadJson) -> CommandError {
    CommandError { code: ErrorCode::Malformed, message: error.to_string() }
}

pub(super) fn bad_channel(error: InvalidChannelName) -> CommandError {
    CommandError { code: ErrorCode::BadChannel, message: error.to_string() }
}

pub(super) fn engine_failed(error: EngineError) -> CommandError {
    let code = match error {
        EngineError::TooManyChannels(_) => ErrorCode::Limit,
        EngineError::Draining => ErrorCode::Draining,
        EngineError::Unavailable => ErrorCode::Unavailable,
        EngineError::OutcomeUnknown => ErrorCode::OutcomeUnknown,
        EngineError::Overloaded => ErrorCode::Overloaded,
    };
    CommandError { code, message: error.to_string() }
}

impl From<HookError> for CommandError {
    fn from(error: HookError) -> Self {
        let message = error.to_string();
        let code = match error {
            HookError::Refused { code: Some(code), .. } => ErrorCode::Backend(code),
            HookError::Refused { code: None, .. } => return forbidden(message),
            HookError::Unavailable => ErrorCode::Unavailable,
            HookError::TimedOut => ErrorCode::Timeout,
            HookError::Invalid { .. } => ErrorCode::BackendError,
            HookError::Overloaded => ErrorCode::Overloaded,
            HookError::TooLarge => ErrorCode::TooLarge,
        };
        Self { code, message }
    }
}

impl From<SubscribeError> for CommandError {
    fn from(error: SubscribeError) -> Self {
        let code = match error {
            SubscribeError::Forbidden => return not_allowed(Permission::Subscribe),
            SubscribeError::Draining => ErrorCode::Draining,
            SubscribeError::TooManySubscriptions { .. }
            | SubscribeError::Detached
            | SubscribeError::Ended => ErrorCode::Limit,
            SubscribeError::Engine(error) => return engine_failed(error),
        };
        Self { code, message: error.to_string() }
    }
}
