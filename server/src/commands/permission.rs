//! Permissions of a client on a channel. One rule applies to all commands and transports: first the server's own checks,
//! which are the claims of the token and the namespace, then the backend's decision.

use std::sync::Arc;

use encke_broker::channel::ChannelName;
use encke_core::dialect::CommandError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::CommandContext;
use super::errors::{bad_channel, forbidden, invalid_answer, not_allowed};
use crate::auth::{Identity, Permission};
use crate::backend::{Approval, HookKind, HookRequest};
use crate::client::Services;

/// Future that completes with the channel that the backend approves, which may be another one.
pub(super) type ApprovedChannel = BoxFuture<'static, Result<ChannelName, CommandError>>;

impl CommandContext<'_> {
    /// Returns the channel's name, if the server's own checks allow the client to do this.
    pub(super) fn allowed_channel(
        self,
        permission: Permission,
        text: &str,
    ) -> Result<ChannelName, CommandError> {
        let name = self.services.channel_name(permission, text)?;
        self.services.check(&self.session.identity(), permission, &name)?;
        Ok(name)
    }

    /// Asks the backend whether the client may subscribe to a channel, or read about it. `None` if the session is
    /// already subscribed, or if this hook is disabled.
    pub(super) fn ask_to_subscribe(
        self,
        permission: Permission,
        name: &ChannelName,
    ) -> Option<ApprovedChannel> {
        let Self { session, services, .. } = self;
        services.access.backend_for(HookKind::Subscribe)?;
        if services.sessions.subscriptions.is_subscribed(session, name.as_str()) {
            return None;
        }
        let request = || HookRequest { channel: Some(name.as_str()), ..HookRequest::default() };
        let answer = self.ask::<Approval>(HookKind::Subscribe, request)?;
        let (services, session) = (Arc::clone(services), services.sessions.table.clone_handle(session));
        let name = name.clone();
        Some(
            async move {
                let Some(other) = answer.await?.channel else { return Ok(name) };
                services.replaced_channel(HookKind::Subscribe, &session.identity(), permission, &other)
            }
            .boxed(),
        )
    }
}

impl Services {
    fn channel_name(&self, permission: Permission, text: &str) -> Result<ChannelName, CommandError> {
        let max_bytes = self.settings.channel_name_bytes;
        match permission {
            Permission::Publish => ChannelName::for_publish(text, max_bytes),
            Permission::Subscribe | Permission::Presence => ChannelName::new(text, max_bytes),
        }
        .map_err(bad_channel)
    }

    /// Makes the server's own checks.
    fn check(
        &self,
        identity: &Identity,
        permission: Permission,
        name: &ChannelName,
    ) -> Result<(), CommandError> {
        if !identity.allows(permission, name.as_str()) {
            return Err(not_allowed(permission));
        }
        let rules = self.logs.channels.namespaces().rules_of(name.as_str());
        match permission {
            Permission::Publish if !rules.publish => {
                Err(forbidden("clients may not publish to this channel"))
            }
            Permission::Presence if !rules.presence => {
                Err(forbidden("clients may not list the subscribers of this channel"))
            }
            Permission::Publish | Permission::Presence | Permission::Subscribe => Ok(()),
        }
    }

    /// Returns the channel that the backend names instead of the client's, if the server's own checks allow it.
    pub(super) fn replaced_channel(
        &self,
        hook: HookKind,
        identity: &Identity,
        permission: Permission,
        text: &str,
    ) -> Result<ChannelName, CommandError> {
        let name = self.channel_name(permission, text).map_err(|error| {
            if let Some(backend) = self.access.backend_for(hook) {
                backend.report_invalid(hook, &format!("`channel`: {error}"));
            }
            invalid_answer(&error)
        })?;
        self.check(identity, permission, &name)?;
        Ok(name)
    }
}
