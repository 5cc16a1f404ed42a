use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::{
    Beginning, Command, CommandError, Dialect, ErrorCode, Member, PublishKey, Response, Success, Texts,
    UserPresence,
};
use encke_core::message::CompactJson;

use super::asked::Publication;
use super::context::NotIdentified;
use super::errors::{bad_data, forbidden};
use super::{Context, Speaker, unsubscribed};
use crate::auth::{AuthError, Permission};
use crate::backend::Ask;
use crate::channel::{BadChannelName, ChannelName};
use crate::engine::{Answer, Presence, UserSessions, all};
use crate::session::{Backlog, NotSubscribed, Said, Subscribed};

/// The most subscribers that a client is shown; it is told how many there are.
const MOST_PRESENT: usize = 256;

/// What a command did, or why it was refused.
pub(super) type Outcome = Result<Success<'static>, CommandError>;

/// One request of a client, and where its response goes.
pub(super) struct Exchange<'a, D, T> {
    pub(super) speaker: Speaker<'a>,
    pub(super) backlog: &'a mut Backlog,
    pub(super) dialect: &'a mut D,
    pub(super) out: &'a mut T,
}

impl<'a, D: Dialect, T: Texts> Exchange<'a, D, T> {
    /// Carries out a command other than `close`.
    pub(super) fn carry_out(&mut self, command: Command<'_>) -> Answer<Outcome> {
        Answer::Ready(match command {
            Command::Subscribe { channel, begin } => return self.subscribe(&channel, &begin),
            Command::SubscribeAll { channels } => return self.subscribe_all(&channels),
            Command::Publish { channel, data, key } => return self.publish(&channel, &data, key.as_ref()),
            Command::Service { channel, data } => return self.say_to_service(&channel, &data),
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
            | Command::Nothing
            | Command::Violation
            | Command::Close => Ok(Success::Done),
        })
    }

    /// Ends the session.
    pub(super) fn close(&mut self, id: Option<D::RequestId>) {
        // While there is still a connection to respond on.
        self.respond(id, Ok(Success::Done));
        self.speaker.say(Said::Close(CloseReason::Client));
    }

    /// A request that the connection answers when its session says so.
    pub(super) fn hold(
        &mut self,
        id: Option<D::RequestId>,
        hold: Option<Duration>,
        seq: Option<u64>,
        token: Option<&str>,
    ) {
        let Speaker { session, context, .. } = self.speaker;
        if seq.is_some_and(|seq| seq > session.seq()) {
            return self.dialect.refuse_hold(id, self.out);
        }
        if let Some(Err(error)) = token.map(|token| self.refresh(token)) {
            return self.respond(id, Err(error));
        }
        // What may have been lost comes again. Without a seq, all before the last answer has arrived: there may be room for more.
        self.backlog.more |= seq.is_some();
        self.backlog.acknowledged();
        self.dialect.hold(id, seq, self.out);
        self.speaker.say(Said::Hold { hold: context.hold_for(hold, session), seq });
    }

    pub(super) fn respond(&mut self, id: Option<D::RequestId>, outcome: Outcome) {
        // What there is to read from a new subscription comes after the response.
        self.backlog.more |= matches!(outcome, Ok(Success::Subscribed { .. } | Success::SubscribedAll));
        self.dialect.respond(&[Response { id, result: outcome }], self.out);
    }

    fn subscribe(&self, channel: &str, begin: &Beginning<'_>) -> Answer<Outcome> {
        let name = match self.channel_name(channel) {
            Ok(name) => name,
            Err(error) => return Answer::Ready(Err(error.into())),
        };
        self.speaker.subscribe(&name, begin).map(|subscribed| {
            let subscribed = subscribed?;
            Ok(Success::Subscribed {
                channel: subscribed.channel.name().as_str().to_owned().into(),
                epoch: subscribed.channel.epoch().to_owned().into(),
                offset: subscribed.offset,
                recovered: subscribed.recovered,
            })
        })
    }

    /// Subscribes to all channels or to none. Each but the first counts as one more command.
    fn subscribe_all(&self, channels: &[Cow<'_, str>]) -> Answer<Outcome> {
        let Speaker { session, context, via } = self.speaker;
        let names: Result<Vec<_>, _> =
            channels.iter().map(|channel| self.allowed_channel(Permission::Subscribe, channel)).collect();
        let names = match names {
            Ok(names) => names,
            Err(error) => return Answer::Ready(Err(error)),
        };
        let limit = context.settings.max_subscriptions;
        if names.len() > limit {
            return Answer::Ready(Err(NotSubscribed::TooManySubscriptions { limit }.into()));
        }
        let (now, rate) = (context.timeouts.clock().now(), context.settings.commands_per_second);
        // No more than a second's worth: beyond that a session is ended for its next command.
        let others = (names.len() - 1).min(rate as usize);
        session.commands.count(others, rate, now);
        let is_new = |name: &ChannelName| !context.sessions.follows(session, name.as_str());
        let new: Vec<ChannelName> = names.into_iter().filter(is_new).collect();
        let subscribe = |name| self.speaker.subscribe(name, &Beginning::Now);
        let answers: Vec<_> = new.iter().map(subscribe).collect();
        let (sessions, session) = (Arc::clone(&context.sessions), context.sessions.hold(session));
        let conclude = move |results: Vec<Result<Subscribed, CommandError>>| {
            // A reply to several channels cannot say that one is another.
            let error = results.iter().zip(&new).find_map(|(result, name)| match result {
                Ok(subscribed) if subscribed.channel.name() == name => None,
                Ok(_) => Some(forbidden("the backend has another channel in its place")),
                Err(error) => Some(error.clone()),
            });
            let Some(error) = error else { return Ok(Success::SubscribedAll) };
            for subscribed in results.iter().flatten() {
                sessions.unsubscribe(&session, via, subscribed.channel.name().as_str());
            }
            Err(error)
        };
        all(answers).map(conclude)
    }

    fn unsubscribe<'c>(&self, channels: impl IntoIterator<Item = &'c str>) {
        let Speaker { session, context, via } = self.speaker;
        for channel in channels {
            context.sessions.unsubscribe(session, via, channel);
        }
    }

    /// What no hook takes, the backend is called for.
    fn say_to_service(&self, channel: &str, data: &str) -> Answer<Outcome> {
        let (name, data) = match self.service_message(channel, data) {
            Ok(message) => message,
            Err(error) => return Answer::Ready(Err(error)),
        };
        let Speaker { session, context, .. } = self.speaker;
        if context.sessions.service_message(session, name.as_str(), data.as_str()) {
            return Answer::Ready(Ok(Success::Done));
        }
        if context.backend_for(Ask::Call).is_some() {
            return self.speaker.call(name.as_str(), data.as_str());
        }
        let message = "nothing takes messages on this channel".to_owned();
        Answer::Ready(Err(CommandError { code: ErrorCode::UnknownCommand, message }))
    }

    fn service_message<'d>(
        &self,
        channel: &str,
        data: &'d str,
    ) -> Result<(ChannelName, CompactJson<'d>), CommandError> {
        let name = self.channel_name(channel)?;
        if !self.speaker.session.identity().allows(Permission::Publish, name.as_str()) {
            return Err(not_allowed(Permission::Publish));
        }
        Ok((name, CompactJson::parse(data).map_err(bad_data)?))
    }

    fn call(&self, method: &str, data: &str) -> Answer<Outcome> {
        match CompactJson::parse(data) {
            Ok(data) => self.speaker.call(method, data.as_str()),
            Err(error) => Answer::Ready(Err(bad_data(error))),
        }
    }

    fn publish(&self, channel: &str, data: &str, key: Option<&PublishKey<'_>>) -> Answer<Outcome> {
        let name = match self.allowed_channel(Permission::Publish, channel) {
            Ok(name) => name,
            Err(error) => return Answer::Ready(Err(error)),
        };
        let data = match CompactJson::parse(data) {
            Ok(data) => data,
            Err(error) => return Answer::Ready(Err(bad_data(error))),
        };
        self.speaker.publish(Publication { channel: name, data, key })
    }

    fn presence(&self, channel: &str) -> Answer<Outcome> {
        let name = match self.allowed_channel(Permission::Presence, channel) {
            Ok(name) => name,
            Err(error) => return Answer::Ready(Err(error)),
        };
        // By these, joins and leaves name sessions.
        let is_named = self.context().logs.channels.namespaces().rules_of(name.as_str()).join_leave;
        self.context().logs.engine.presence(&name, 0, MOST_PRESENT).map(move |presence| {
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

    fn refresh(&mut self, token: &str) -> Outcome {
        let Speaker { session, context, via } = self.speaker;
        if context.asks_who_comes() {
            return Err(forbidden("the backend says who you are, when you connect"));
        }
        let identity = context.identify(Some(token), via.address()).inspect_err(|error| {
            if *error == NotIdentified::BadToken(AuthError::BadSignature) {
                // It was made up. Trying on would cost the server more than the client.
                context.refusals.refused(error.reason(), via.address(), error);
                session.close_connection(via, CloseCode::Unauthorized);
            }
        })?;
        let Some(revoked) = context.sessions.refresh(session, via, &identity) else {
            return Err(forbidden("the token is another user's"));
        };
        for channel in &revoked {
            self.dialect.notify(&unsubscribed(channel, "forbidden"), self.out);
        }
        Ok(Success::Done)
    }

    /// The name of a channel on which the client may do this.
    fn allowed_channel(&self, permission: Permission, text: &str) -> Result<ChannelName, CommandError> {
        let name = match permission {
            Permission::Publish => ChannelName::to_publish(text, self.context().settings.channel_name_bytes)?,
            Permission::Subscribe | Permission::Presence => self.channel_name(text)?,
        };
        if !self.speaker.session.identity().allows(permission, name.as_str()) {
            return Err(not_allowed(permission));
        }
        let rules = self.context().logs.channels.namespaces().rules_of(name.as_str());
        match permission {
            Permission::Publish if !rules.publish => {
                Err(forbidden("clients may not publish to this channel"))
            }
            Permission::Presence if !rules.presence => {
                Err(forbidden("clients may not see who follows this channel"))
            }
            Permission::Publish | Permission::Presence | Permission::Subscribe => Ok(name),
        }
    }

    fn channel_name(&self, text: &str) -> Result<ChannelName, BadChannelName> {
        ChannelName::new(text, self.context().settings.channel_name_bytes)
    }

    fn context(&self) -> &'a Context {
        self.speaker.context
    }
}

fn not_allowed(permission: Permission) -> CommandError {
    let doing = match permission {
        Permission::Subscribe => "to subscribe to",
        Permission::Publish => "to publish to",
        Permission::Presence => "to see who follows",
    };
    forbidden(format!("the token does not allow {doing} this channel"))
}
