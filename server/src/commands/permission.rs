//! Permissions of a client on a channel. One rule applies to all commands and transports: first the server's own checks,
//! which are the claims of the token and the namespace, then the backend's decision.

use std::sync::Arc;

use encke_broker::channel::ChannelName;
use encke_broker::engine::EngineResponse;
use encke_core::dialect::CommandError;
use futures_util::FutureExt;

use super::CommandContext;
use super::errors::{bad_channel, forbidden, invalid_answer, not_allowed};
use crate::auth::{Identity, Permission};
use crate::backend::{Approval, HookKind, HookRequest};
use crate::client::Services;

/// Channel that the client may use, which may be another than the requested one, or the error.
pub(super) type ApprovedChannel = EngineResponse<Result<ChannelName, CommandError>>;

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

    /// Asks the backend whether the client may subscribe to a channel, or read about it. The server's own checks
    /// have allowed the requested channel. The backend is not asked if the session is already subscribed to the
    /// channel, or to the one that the backend has named instead, or if the hook is disabled.
    pub(super) fn approved_channel(self, permission: Permission, name: &ChannelName) -> ApprovedChannel {
        let Self { session, services, .. } = self;
        if services.access.backend_for(HookKind::Subscribe).is_none() {
            return EngineResponse::Ready(Ok(name.clone()));
        }
        if let Some(subscribed) = services.sessions.subscriptions.subscribed_channel(session, name.as_str()) {
            let allowed = services.check(&session.identity(), permission, &subscribed);
            return EngineResponse::Ready(allowed.map(|()| subscribed));
        }
        let request = || HookRequest { channel: Some(name.as_str()), ..HookRequest::default() };
        let Some(answer) = self.ask::<Approval>(HookKind::Subscribe, request) else {
            return EngineResponse::Ready(Ok(name.clone()));
        };
        let (services, session) = (Arc::clone(services), services.sessions.table.clone_handle(session));
        let name = name.clone();
        let approved = async move {
            let Some(other) = answer.await?.channel else { return Ok(name) };
            services.replaced_channel(HookKind::Subscribe, &session.identity(), permission, &other)
        };
        EngineResponse::Pending(approved.boxed())
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
