use encke_core::dialect::json::{CommandError, ErrorCode};

use super::Context;
use crate::auth::AuthError;
use crate::channel::{BadChannelName, TooManyChannels};
use crate::session::NotSubscribed;

/// Why a command was refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) code: ErrorCode,
    pub(super) message: String,
}

impl Refused {
    pub(super) fn forbidden(message: &str) -> Self {
        Self { code: ErrorCode::Forbidden, message: message.to_owned() }
    }

    pub(super) fn rate(context: &Context) -> Self {
        let limit = context.settings.commands_per_second;
        let message = format!("more than {limit} commands a second (limits.commands_per_second)");
        Self { code: ErrorCode::RateLimited, message }
    }
}

impl From<CommandError> for Refused {
    fn from(error: CommandError) -> Self {
        Self { code: error.code, message: error.to_string() }
    }
}

impl From<AuthError> for Refused {
    fn from(error: AuthError) -> Self {
        Self { code: ErrorCode::Unauthorized, message: error.to_string() }
    }
}

impl From<BadChannelName> for Refused {
    fn from(error: BadChannelName) -> Self {
        Self { code: ErrorCode::BadChannel, message: error.to_string() }
    }
}

impl From<TooManyChannels> for Refused {
    fn from(error: TooManyChannels) -> Self {
        Self { code: ErrorCode::Limit, message: error.to_string() }
    }
}

impl From<NotSubscribed> for Refused {
    fn from(error: NotSubscribed) -> Self {
        let code = match error {
            NotSubscribed::Forbidden => ErrorCode::Forbidden,
            NotSubscribed::TooManySubscriptions { .. }
            | NotSubscribed::TooManyChannels(_)
            | NotSubscribed::Detached => ErrorCode::Limit,
        };
        Self { code, message: error.to_string() }
    }
}
