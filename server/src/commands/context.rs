use encke_broker::channel::ChannelName;
use encke_core::dialect::CommandError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::errors::{bad_channel, forbidden, not_allowed};
use crate::auth::Permission;
use crate::backend::{HookCaller, HookKind, HookRequest, HookResponse};
use crate::client::{Attachment, Services};
use crate::session::{ClientInput, CommandSource, SessionCell};

/// Future that completes with the backend's answer.
pub(super) type HookAnswer = BoxFuture<'static, Result<HookResponse, CommandError>>;

/// The session and the services that a command uses, and how the command arrived.
#[derive(Clone, Copy)]
pub(crate) struct CommandContext<'a> {
    pub(crate) session: &'a SessionCell,
    pub(crate) services: &'a Services,
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

    /// Returns the channel's name, if the client has this permission on the channel.
    pub(super) fn allowed_channel(
        self,
        permission: Permission,
        text: &str,
    ) -> Result<ChannelName, CommandError> {
        let name = match permission {
            Permission::Publish => {
                let max_bytes = self.services.settings.channel_name_bytes;
                ChannelName::for_publish(text, max_bytes).map_err(bad_channel)?
            }
            Permission::Subscribe | Permission::Presence => self.channel_name(text)?,
        };
        if !self.session.identity().allows(permission, name.as_str()) {
            return Err(not_allowed(permission));
        }
        let rules = self.services.logs.channels.namespaces().rules_of(name.as_str());
        match permission {
            Permission::Publish if !rules.publish => {
                Err(forbidden("clients may not publish to this channel"))
            }
            Permission::Presence if !rules.presence => {
                Err(forbidden("clients may not list the subscribers of this channel"))
            }
            Permission::Publish | Permission::Presence | Permission::Subscribe => Ok(name),
        }
    }

    pub(super) fn channel_name(self, text: &str) -> Result<ChannelName, CommandError> {
        ChannelName::new(text, self.services.settings.channel_name_bytes).map_err(bad_channel)
    }

    /// Asks the backend about a command. `None` if this hook is disabled.
    pub(super) fn ask<'r>(
        self,
        hook: HookKind,
        request: impl FnOnce() -> HookRequest<'r>,
    ) -> Option<HookAnswer> {
        let backend = self.services.access.backend_for(hook)?;
        let (id, identity) = (self.session.id(), self.session.identity());
        let request = HookRequest { session: Some(id.to_string()), user: identity.user(), ..request() };
        let caller = HookCaller { owner: self.session.quota_owner(self.source), session: Some(id.number()) };
        let answer = backend.call::<HookResponse>(hook, caller, &request);
        Some(answer.map(|answer| answer.map_err(CommandError::from)).boxed())
    }
}
