use encke_core::close::CloseReason;
use encke_core::dialect::json::{
    Command, CompactJson, Done, Outcome as ReplyOutcome, Present, Reply, ReplyError, ServerMessage, Since,
};
use encke_core::session::ConnectionInput;

use super::commands::{Replies, acknowledge};
use super::refused::Refused;
use super::{Attachment, Context, unsubscribed};
use crate::auth::Permission;
use crate::channel::{BadChannelName, ChannelName};
use crate::engine::Answer;
use crate::session::Backlog;

/// The most subscribers that a client is shown; it is told how many there are.
const MOST_PRESENT: usize = 256;

/// What a command did, or why it was refused.
pub(super) type Outcome = Result<Done<'static>, Refused>;

/// One message of a client, and where its replies go.
pub(super) struct Exchange<'a, R> {
    pub(super) attachment: &'a Attachment,
    pub(super) backlog: &'a mut Backlog,
    pub(super) out: &'a mut R,
}

impl<R: Replies> Exchange<'_, R> {
    /// Carries out a command other than `close`.
    pub(super) fn carry_out(&mut self, command: Command<'_>) -> Answer<Outcome> {
        Answer::Ready(match command {
            Command::Subscribe { channel, since } => return self.subscribe(&channel, since.as_ref()),
            Command::Publish { channel, data } => return self.publish(&channel, data),
            Command::Unsubscribe { channel } => {
                let Attachment { session, link, context, .. } = self.attachment;
                context.sessions.unsubscribe(session, link, &channel);
                Ok(Done::Nothing {})
            }
            Command::Presence { channel } => self.presence(&channel),
            Command::Refresh { token } => self.refresh(&token),
            Command::Ack { .. } | Command::Pong { .. } | Command::Close => Ok(Done::Nothing {}),
        })
    }

    /// Ends the session.
    pub(super) fn close(&mut self, id: Option<u64>) {
        // While there is still a connection to reply on.
        self.finish(id, Ok(Done::Nothing {}));
        self.attachment.tell(ConnectionInput::Close(CloseReason::Client));
    }

    /// An acknowledgement that ends the session gets no reply; the Close frame says it.
    pub(super) fn acknowledge(&mut self, input: ConnectionInput, id: Option<u64>) {
        if acknowledge(self.attachment, self.backlog, input) {
            self.finish(id, Ok(Done::Nothing {}));
        }
    }

    /// Replies. Without an `id`, success goes unanswered.
    pub(super) fn finish(&mut self, id: Option<u64>, outcome: Outcome) {
        // What there is to read from a new subscription comes after its reply.
        self.backlog.more |= matches!(outcome, Ok(Done::Subscribed { .. }));
        let outcome = match outcome {
            Ok(_) if id.is_none() => return,
            Ok(done) => ReplyOutcome::Ok(done),
            Err(Refused { code, message }) => {
                ReplyOutcome::Error(ReplyError { code, message: message.into() })
            }
        };
        self.out.write(&ServerMessage::Reply(Reply { id, outcome }));
    }

    fn subscribe(&self, channel: &str, since: Option<&Since<'_>>) -> Answer<Outcome> {
        let name = match self.channel_name(channel) {
            Ok(name) => name,
            Err(error) => return Answer::Ready(Err(error.into())),
        };
        let Attachment { session, link, context, .. } = self.attachment;
        context.sessions.subscribe(session, link, &name, since).map(|subscribed| {
            let subscribed = subscribed?;
            Ok(Done::Subscribed {
                channel: subscribed.channel.name().as_str().to_owned().into(),
                epoch: subscribed.channel.epoch().to_owned().into(),
                offset: subscribed.offset,
                recovered: subscribed.recovered,
            })
        })
    }

    fn publish(&self, channel: &str, data: &str) -> Answer<Outcome> {
        let name = match self.allowed_channel(Permission::Publish, channel) {
            Ok(name) => name,
            Err(refused) => return Answer::Ready(Err(refused)),
        };
        self.context().logs.engine.append(&name, &CompactJson::of(data)).map(|published| {
            let published = published?;
            Ok(Done::Published { offset: published.offset, epoch: String::from(published.epoch).into() })
        })
    }

    fn presence(&self, channel: &str) -> Outcome {
        let name = self.allowed_channel(Permission::Presence, channel)?;
        let now = self.context().timeouts.clock().now();
        let (subscribers, total) = match self.context().logs.channels.get(name.as_str()) {
            Some(channel) => channel.subscribers(0, MOST_PRESENT),
            None => Default::default(),
        };
        let present = subscribers.iter().map(|(_, session)| {
            let view = session.view(now);
            let user = view.identity.user().map(|user| user.to_owned().into());
            Present { user, phase: view.phase_name().into() }
        });
        Ok(Done::Present { channel: name.as_str().to_owned().into(), total, present: present.collect() })
    }

    fn refresh(&mut self, token: &str) -> Outcome {
        let context = self.context();
        let identity = context.auth.identify(Some(token), context.timeouts.clock().unix_now())?;
        let Attachment { session, link, context, .. } = self.attachment;
        let Some(revoked) = context.sessions.refresh(session, link, &identity) else {
            return Err(Refused::forbidden("the token is another user's"));
        };
        for channel in &revoked {
            self.out.write(&unsubscribed(channel, "forbidden"));
        }
        Ok(Done::Nothing {})
    }

    /// The name of a channel on which the client may do this.
    fn allowed_channel(&self, permission: Permission, text: &str) -> Result<ChannelName, Refused> {
        let name = self.channel_name(text)?;
        if self.attachment.session.identity().allows(permission, name.as_str()) {
            return Ok(name);
        }
        let doing = match permission {
            Permission::Subscribe => "to subscribe to",
            Permission::Publish => "to publish to",
            Permission::Presence => "to see who follows",
        };
        Err(Refused::forbidden(&format!("the token does not allow {doing} this channel")))
    }

    fn channel_name(&self, text: &str) -> Result<ChannelName, BadChannelName> {
        ChannelName::new(text, self.context().settings.channel_name_bytes)
    }

    fn context(&self) -> &Context {
        &self.attachment.context
    }
}
