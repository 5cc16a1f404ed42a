//! Asks the backend about commands whose hook is enabled, after the server's own checks.

use std::fmt::Display;

use encke_core::dialect::{CommandError, ErrorCode};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::CommandContext;
use super::errors::forbidden;
use crate::backend::{HookCaller, HookError, HookKind, HookRequest, HookResponse};

/// Future that completes with the backend's answer.
pub(super) type HookAnswer = BoxFuture<'static, Result<HookResponse, CommandError>>;

impl CommandContext<'_> {
    /// Asks the backend about a command. `None` if this hook is disabled.
    pub(super) fn ask<'r>(
        self,
        hook: HookKind,
        request: impl FnOnce() -> HookRequest<'r>,
    ) -> Option<HookAnswer> {
        let backend = self.services.access.backend_for(hook)?;
        let (id, identity) = (self.session.id(), self.session.identity());
        let request = HookRequest { session: Some(id.to_string()), user: identity.user(), ..request() };
        let answer = backend.call::<HookResponse>(hook, HookCaller::Session(id.number()), &request);
        Some(answer.map(|answer| answer.map_err(CommandError::from)).boxed())
    }
}

/// Returns the error for an unusable response from the backend. The client is not at fault.
pub(super) fn invalid_answer(error: &dyn Display) -> CommandError {
    let message = format!("invalid answer from the backend: {error}");
    CommandError { code: ErrorCode::Unavailable, message }
}

impl From<HookError> for CommandError {
    fn from(error: HookError) -> Self {
        let message = error.to_string();
        let code = match error {
            HookError::Refused { code: Some(code), .. } => ErrorCode::Backend(code),
            HookError::Refused { code: None, .. } => return forbidden(message),
            HookError::Unavailable => ErrorCode::Unavailable,
            HookError::TimedOut => ErrorCode::Timeout,
            HookError::Overloaded => ErrorCode::Overloaded,
            HookError::TooLarge => ErrorCode::TooLarge,
        };
        Self { code, message }
    }
}
