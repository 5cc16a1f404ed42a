use std::sync::Arc;

use encke_base::quota::QuotaOwner;
use encke_core::dialect::CommandError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::backend::{HookCaller, HookKind, HookRequest};
use crate::client::{Attachment, Services};
use crate::session::{ClientInput, CommandSource, SessionCell};

/// Future that completes with the backend's answer.
pub(super) type HookAnswer<T> = BoxFuture<'static, Result<T, CommandError>>;

/// The session and the services that a command uses, and how the command arrived.
#[derive(Clone, Copy)]
pub(crate) struct CommandContext<'a> {
    pub(crate) session: &'a SessionCell,
    pub(crate) services: &'a Arc<Services>,
    pub(crate) source: CommandSource,
}

impl<'a> From<&'a Attachment> for CommandContext<'a> {
    /// Returns the context of commands that arrive over this connection.
    fn from(Attachment { session, services, mailbox, .. }: &'a Attachment) -> Self {
        Self { session, services, source: CommandSource::connection(mailbox) }
    }
}

impl CommandContext<'_> {
    /// Applies an input to the session. Returns whether the session still accepts input from this source.
    pub(crate) fn apply(self, input: ClientInput) -> bool {
        self.services.sessions.lifecycle.handle_client_input(self.session, self.source, input)
    }

    /// Asks the backend about a command. `interpret` is that of [`Backend::call`](crate::backend::Backend::call).
    /// `None` if this hook is disabled.
    pub(super) fn ask<'r, T: DeserializeOwned, U: Send + 'static>(
        self,
        hook: HookKind,
        request: impl FnOnce() -> HookRequest<'r>,
        interpret: impl FnOnce(T) -> Result<U, String> + Send + 'static,
    ) -> Option<HookAnswer<U>> {
        let Self { session, services, source } = self;
        services.ask(session, || session.quota_owner(source), hook, request, interpret)
    }
}

impl Services {
    /// Calls the backend on behalf of a session. The request counts against the quota owner that `owner` returns.
    /// Returns `None` if the hook is disabled.
    pub(super) fn ask<'r, T: DeserializeOwned, U: Send + 'static>(
        &self,
        session: &SessionCell,
        owner: impl FnOnce() -> QuotaOwner,
        hook: HookKind,
        request: impl FnOnce() -> HookRequest<'r>,
        interpret: impl FnOnce(T) -> Result<U, String> + Send + 'static,
    ) -> Option<HookAnswer<U>> {
        let backend = self.access.backend_for(hook)?;
        let (id, identity) = (session.id(), session.identity());
        let request = HookRequest { session: Some(id.to_string()), user: identity.user(), ..request() };
        let caller = HookCaller { owner: owner(), session: Some(id.number()) };
        let answer = backend.call(hook, caller, &request, interpret);
        Some(answer.map(|answer| answer.map_err(CommandError::from)).boxed())
    }
}
