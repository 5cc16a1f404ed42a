use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::{
    Command, CommandError, Dialect, ErrorCode, Member, PublishKey, Response, StartPosition, Success,
    TextSink, UserPresence,
};
use encke_core::message::CompactJson;

use super::backend_hooks::Publication;
use super::errors::{bad_data, forbidden};
use super::services::IdentifyError;
use super::{CommandContext, Services, unsubscribed};
use crate::auth::{AuthError, Permission};
use crate::backend::HookKind;
use crate::channel::{ChannelName, InvalidChannelName};
use crate::engine::{EngineResponse, Presence, UserSessions, join_responses};
use crate::session::{Backlog, ClientInput, SubscribeError, SubscribeOutcome};

/// Maximum number of members listed in a presence response, which also states their total number.
const MAX_MEMBERS: usize = 256;

/// Result of a command.
pub(super) type CommandOutcome = Result<Success<'static>, CommandError>;

/// Carries out one request from a client, and writes its response.
pub(super) struct CommandHandler<'a, D, T> {
    pub(super) context: CommandContext<'a>,
    pub(super) backlog: &'a mut Backlog,
    pub(super) dialect: &'a mut D,
    pub(super) out: &'a mut T,
}

impl<'a, D: Dialect, T: TextSink> CommandHandler<'a, D, T> {
    /// Carries out a command other than `close`.
    pub(super) fn carry_out(&mut self, command: Command<'_>) -> EngineResponse<CommandOutcome> {
        EngineResponse::Ready(match command {
            Command::Subscribe { channel, begin } => return self.subscribe(&channel, &begin),
            Command::SubscribeAll { channels } => return self.subscribe_all(&channels),
            Command::Publish { channel, data, key } => return self.publish(&channel, &data, key.as_ref()),
            Command::Service { channel, data } => return self.handle_service_message(&channel, &data),
            Command::Call { method, data } => return self.call(&method, &data),
            Command::Unsubscribe { channel } => {
                self.unsubscribe([&*channel]);
                Ok(Success::Done)
            }
            Command::UnsubscribeAll { channels } => {
                self.unsubscribe(channels.iter().map(|channel| &**channel));
                Ok(Success::Done)
            }
            Command::Presence { channel } => return self.presence(&channel),
            Command::Refresh { token } => self.refresh(&token),
            Command::Ack { .. }
            | Command::Pong { .. }
            | Command::Hold { .. }
            | Command::Noop
            | Command::Violation
            | Command::Close => Ok(Success::Done),
        })
    }

    pub(super) fn close(&mut self, id: Option<D::RequestId>) {
        // Respond before the session ends, while there is still a connection.
        self.respond(id, Ok(Success::Done));
        self.context.apply(ClientInput::Close(CloseReason::Client));
    }

    /// Handles a poll. The connection answers it later, when the session requests the answer.
    pub(super) fn hold(
        &mut self,
        id: Option<D::RequestId>,
        hold: Option<Duration>,
        seq: Option<u64>,
        token: Option<&str>,
    ) {
        let CommandContext { session, services, .. } = self.context;
        if seq.is_some_and(|seq| seq > session.seq()) {
            return self.dialect.refuse_hold(id, self.out);
        }
        if let Some(Err(error)) = token.map(|token| self.refresh(token)) {
            return self.respond(id, Err(error));
        }
        // If there is a `seq`, lost messages are sent again. If not, everything before the last answer has
        // arrived, so there may be room for more.
        self.backlog.has_more |= seq.is_some();
        self.backlog.acknowledged();
        self.dialect.hold(id, seq, self.out);
        self.context.apply(ClientInput::Hold { hold: services.poll_hold(hold, session), seq });
    }

    pub(super) fn respond(&mut self, id: Option<D::RequestId>, outcome: CommandOutcome) {
        // Send the messages of a new subscription after the response.
        self.backlog.has_more |= matches!(outcome, Ok(Success::Subscribed { .. } | Success::SubscribedAll));
        self.dialect.respond(&[Response { id, result: outcome }], self.out);
    }

    fn subscribe(&self, channel: &str, begin: &StartPosition<'_>) -> EngineResponse<CommandOutcome> {
        let name = match self.channel_name(channel) {
            Ok(name) => name,
            Err(error) => return EngineResponse::Ready(Err(error.into())),
        };
        self.context.subscribe(&name, begin).map(|subscribed| {
            let subscribed = subscribed?;
            Ok(Success::Subscribed {
                channel: subscribed.channel.name().as_str().to_owned().into(),
                epoch: subscribed.channel.epoch().to_owned().into(),
                offset: subscribed.offset,
                recovered: subscribed.recovered,
            })
        })
    }

    /// Subscribes to all channels or to none. Each channel after the first counts as an additional command.
    fn subscribe_all(&self, channels: &[Cow<'_, str>]) -> EngineResponse<CommandOutcome> {
        let CommandContext { session, services, source } = self.context;
        let names: Result<Vec<_>, _> =
            channels.iter().map(|channel| self.allowed_channel(Permission::Subscribe, channel)).collect();
        let names = match names {
            Ok(names) => names,
            Err(error) => return EngineResponse::Ready(Err(error)),
        };
        let limit = services.settings.max_subscriptions;
        if names.len() > limit {
            return EngineResponse::Ready(Err(SubscribeError::TooManySubscriptions { limit }.into()));
        }
        let (now, rate) = (services.timeouts.clock().now(), services.settings.commands_per_second);
        // Count at most one second's worth. Otherwise the session would be closed for its next command.
        let others = (names.len() - 1).min(rate as usize);
        session.commands.count_input(others, rate, now);
        let is_new = |name: &ChannelName| !services.sessions.is_subscribed(session, name.as_str());
        let new: Vec<ChannelName> = names.into_iter().filter(is_new).collect();
        let subscribe = |name| self.context.subscribe(name, &StartPosition::Now);
        let responses: Vec<_> = new.iter().map(subscribe).collect();
        let (sessions, session) = (Arc::clone(&services.sessions), services.sessions.clone_handle(session));
        let conclude = move |results: Vec<Result<SubscribeOutcome, CommandError>>| {
            // A reply for several channels cannot report that the backend has replaced one of them.
            let error = results.iter().zip(&new).find_map(|(result, name)| match result {
                Ok(subscribed) if subscribed.channel.name() == name => None,
                Ok(_) => Some(forbidden("the backend has replaced a channel")),
                Err(error) => Some(error.clone()),
            });
            let Some(error) = error else { return Ok(Success::SubscribedAll) };
            for subscribed in results.iter().flatten() {
                sessions.unsubscribe(&session, source, subscribed.channel.name().as_str());
            }
            Err(error)
        };
        join_responses(responses).map(conclude)
    }

    fn unsubscribe<'c>(&self, channels: impl IntoIterator<Item = &'c str>) {
        let CommandContext { session, services, source } = self.context;
        for channel in channels {
            services.sessions.unsubscribe(session, source, channel);
        }
    }

    /// Passes a service message to the server's own code or, if that does not accept it, to the backend.
    fn handle_service_message(&self, channel: &str, data: &str) -> EngineResponse<CommandOutcome> {
        let (name, data) = match self.service_message(channel, data) {
            Ok(message) => message,
            Err(error) => return EngineResponse::Ready(Err(error)),
        };
        let CommandContext { session, services, .. } = self.context;
        if services.sessions.service_message(session, name.as_str(), data.as_str()) {
            return EngineResponse::Ready(Ok(Success::Done));
        }
        if services.backend_for(HookKind::Call).is_some() {
            return self.context.call(name.as_str(), data.as_str());
        }
        let message = "no handler accepts messages on this channel".to_owned();
        EngineResponse::Ready(Err(CommandError { code: ErrorCode::UnknownCommand, message }))
    }

    fn service_message<'d>(
        &self,
        channel: &str,
        data: &'d str,
    ) -> Result<(ChannelName, CompactJson<'d>), CommandError> {
        let name = self.channel_name(channel)?;
        if !self.context.session.identity().allows(Permission::Publish, name.as_str()) {
            return Err(not_allowed(Permission::Publish));
        }
        Ok((name, CompactJson::parse(data).map_err(bad_data)?))
    }

    fn call(&self, method: &str, data: &str) -> EngineResponse<CommandOutcome> {
        match CompactJson::parse(data) {
            Ok(data) => self.context.call(method, data.as_str()),
            Err(error) => EngineResponse::Ready(Err(bad_data(error))),
        }
    }

    fn publish(
        &self,
        channel: &str,
        data: &str,
        key: Option<&PublishKey<'_>>,
    ) -> EngineResponse<CommandOutcome> {
        let name = match self.allowed_channel(Permission::Publish, channel) {
            Ok(name) => name,
            Err(error) => return EngineResponse::Ready(Err(error)),
        };
        let data = match CompactJson::parse(data) {
            Ok(data) => data,
            Err(error) => return EngineResponse::Ready(Err(bad_data(error))),
        };
        self.context.publish(Publication { channel: name, data, key })
    }

    fn presence(&self, channel: &str) -> EngineResponse<CommandOutcome> {
        let name = match self.allowed_channel(Permission::Presence, channel) {
            Ok(name) => name,
            Err(error) => return EngineResponse::Ready(Err(error)),
        };
        // Join and leave notices identify members by their sessions.
        let is_named = self.services().logs.channels.namespaces().rules_of(name.as_str()).join_leave;
        self.services().logs.engine.presence(&name, 0, MAX_MEMBERS).map(move |presence| {
            let presence = presence?;
            let users = presence.users().into_iter().map(|UserSessions { user, sessions, connections }| {
                UserPresence { user: user.to_owned().into(), sessions, connections }
            });
            let users = users.collect();
            let Presence { total, members, incomplete, .. } = presence;
            let members = members.into_iter().map(|member| Member {
                session: is_named.then(|| member.id.into()),
                user: member.user.map(Into::into),
                phase: member.phase.into(),
            });
            Ok(Success::Presence {
                channel: name.as_str().to_owned().into(),
                total,
                members: members.collect(),
                users,
                incomplete: incomplete.into_iter().map(Into::into).collect(),
            })
        })
    }

    fn refresh(&mut self, token: &str) -> CommandOutcome {
        let CommandContext { session, services, source } = self.context;
        if services.has_connect_hook() {
            return Err(forbidden(
                "tokens cannot be refreshed: the backend authenticates clients when they connect",
            ));
        }
        let identity = services.identify(Some(token), source.address()).inspect_err(|error| {
            if *error == IdentifyError::BadToken(AuthError::BadSignature) {
                // The token is forged. Checking more such tokens would cost the server more than the client.
                services.refusals.record(error.reason(), source.address(), error);
                session.close_connection(source, CloseCode::Unauthorized);
            }
        })?;
        let Some(revoked) = services.sessions.refresh(session, source, &identity) else {
            return Err(forbidden("the token belongs to another user"));
        };
        for channel in &revoked {
            self.dialect.notify(&unsubscribed(channel, "forbidden"), self.out);
        }
        Ok(Success::Done)
    }

    /// Returns the channel's name, if the client has this permission on the channel.
    fn allowed_channel(&self, permission: Permission, text: &str) -> Result<ChannelName, CommandError> {
        let name = match permission {
            Permission::Publish => {
                ChannelName::for_publish(text, self.services().settings.channel_name_bytes)?
            }
            Permission::Subscribe | Permission::Presence => self.channel_name(text)?,
        };
        if !self.context.session.identity().allows(permission, name.as_str()) {
            return Err(not_allowed(permission));
        }
        let rules = self.services().logs.channels.namespaces().rules_of(name.as_str());
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

    fn channel_name(&self, text: &str) -> Result<ChannelName, InvalidChannelName> {
        ChannelName::new(text, self.services().settings.channel_name_bytes)
    }

    fn services(&self) -> &'a Services {
        self.context.services
    }
}

fn not_allowed(permission: Permission) -> CommandError {
    let action = match permission {
        Permission::Subscribe => "subscribing to",
        Permission::Publish => "publishing to",
        Permission::Presence => "listing the subscribers of",
    };
    forbidden(format!("the token does not allow {action} this channel"))
}
