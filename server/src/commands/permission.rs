//! Permissions of a client on a channel. One rule applies to all commands and transports: first the server's own
//! checks, which are the claims of the token and the namespace, then the backend's decision.

use std::sync::Arc;

use encke_base::quota::QuotaOwner;
use encke_broker::channel::{ChannelName, InvalidChannelName};
use encke_broker::engine::EngineResponse;
use encke_core::dialect::CommandError;
use futures_util::FutureExt;

use super::CommandContext;
use super::errors::{bad_channel, forbidden, not_allowed};
use crate::auth::{Identity, Permission};
use crate::backend::{Approval, HookKind, HookRequest};
use crate::client::Services;
use crate::session::{JoinAuthoriser, SessionCell};

/// Channel that the client may use, which may be another than the requested one, or the error.
pub(super) type ApprovedChannel = EngineResponse<Result<ChannelName, CommandError>>;

impl CommandContext<'_> {
    /// Returns the channel's name, if the server's own checks allow the client to do this.
    pub(super) fn allowed_channel(
        self,
        permission: Permission,
        text: &str,
    ) -> Result<ChannelName, CommandError> {
        let max_bytes = self.services.settings.channel_name_bytes;
        let name = channel_name(permission, text, max_bytes).map_err(bad_channel)?;
        self.services.check(&self.session.identity(), permission, &name)?;
        Ok(name)
    }

    /// Asks the backend whether the client may subscribe to a channel, list its subscribers or read its history. To be
    /// called after the server's own checks have passed.
    pub(super) fn approved_channel(self, permission: Permission, name: &ChannelName) -> ApprovedChannel {
        let Self { session, services, source } = self;
        services.approve(session, || session.quota_owner(source), permission, name)
    }
}

impl JoinAuthoriser for Services {
    fn authorise(
        self: Arc<Self>,
        session: &SessionCell,
        owner: QuotaOwner,
        name: &ChannelName,
    ) -> ApprovedChannel {
        self.approve(session, || owner, Permission::Subscribe, name)
    }
}

impl Services {
    /// See [`CommandContext::approved_channel`]. The backend is not asked if the session is already subscribed to the
    /// channel, or to the one that the backend has named instead, or if the hook is disabled.
    fn approve(
        self: &Arc<Self>,
        session: &SessionCell,
        owner: impl FnOnce() -> QuotaOwner,
        permission: Permission,
        name: &ChannelName,
    ) -> ApprovedChannel {
        if self.access.backend_for(HookKind::Subscribe).is_none() {
            return EngineResponse::Ready(Ok(name.clone()));
        }
        if let Some(subscribed) = self.sessions.subscriptions.subscribed_channel(session, name.as_str()) {
            let allowed = self.check(&session.identity(), permission, &subscribed);
            return EngineResponse::Ready(allowed.map(|()| subscribed));
        }
        let request = || HookRequest { channel: Some(name.as_str()), ..HookRequest::default() };
        let max_bytes = self.settings.channel_name_bytes;
        let interpret = move |Approval { channel, .. }| approved_name(permission, channel, max_bytes);
        let Some(answer) = self.ask(session, owner, HookKind::Subscribe, request, interpret) else {
            return EngineResponse::Ready(Ok(name.clone()));
        };
        let (services, session) = (Arc::clone(self), self.sessions.table.clone_handle(session));
        let name = name.clone();
        let approved = async move {
            let Some(other) = answer.await? else { return Ok(name) };
            services.check(&session.identity(), permission, &other)?;
            Ok(other)
        };
        EngineResponse::Pending(approved.boxed())
    }

    /// Lets the backend decide about the channels that tokens join, if the hook `subscribe` is enabled.
    pub(crate) fn authorise_token_joins(self: &Arc<Self>) {
        if self.access.backend_for(HookKind::Subscribe).is_some() {
            let services = Arc::downgrade(self);
            self.sessions.subscriptions.set_join_authoriser(services);
        }
    }

    /// Makes the server's own checks.
    pub(super) fn check(
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
            Permission::Publish | Permission::Presence | Permission::Subscribe | Permission::History => {
                Ok(())
            }
        }
    }
}

/// Parses the channel that the backend names instead of the client's, if any. The server's own
/// [checks](Services::check) remain to be made.
pub(super) fn approved_name(
    permission: Permission,
    text: Option<String>,
    max_bytes: usize,
) -> Result<Option<ChannelName>, String> {
    let name = text.map(|text| channel_name(permission, &text, max_bytes)).transpose();
    name.map_err(|error| format!("`channel`: {error}"))
}

fn channel_name(
    permission: Permission,
    text: &str,
    max_bytes: usize,
) -> Result<ChannelName, InvalidChannelName> {
    match permission {
        Permission::Publish => ChannelName::for_publish(text, max_bytes),
        Permission::Subscribe | Permission::Presence | Permission::History => {
            ChannelName::new(text, max_bytes)
        }
    }
}
