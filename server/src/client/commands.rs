//! What clients ask for, and the replies.

use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::dialect::{
    Answer, Command, CommandError, Dialect, ErrorCode, Member, Request, Response, Since, Texts,
};
use encke_core::message::CompactJson;
use encke_core::session::ConnectionInput;

use super::{Attachment, Context, unsubscribed};
use crate::admission::{CommandRate, Pace};
use crate::auth::{AuthError, Permission, unix_now};
use crate::channel::{BadChannelName, ChannelName, TooManyChannels};
use crate::session::{Backlog, NotSubscribed};

/// The most subscribers that a client is shown; it is told how many there are.
const MOST_PRESENT: usize = 256;

/// What a command did, or why it was refused.
type Outcome = Result<Answer<'static>, CommandError>;

/// Carries out the commands of one connection, as fast as its client may give them.
#[derive(Debug)]
pub(crate) struct Commands {
    rate: CommandRate,
}

impl Commands {
    pub(crate) fn new(context: &Context, now: Timestamp) -> Self {
        Self { rate: CommandRate::new(context.settings.commands_per_second, now) }
    }

    /// Carries out what a text asks for. Replies are written to `out`; `backlog` notes whether there is more to read now.
    pub(crate) fn received<D: Dialect>(
        &mut self,
        text: &str,
        attachment: &Attachment,
        backlog: &mut Backlog,
        dialect: &mut D,
        out: &mut impl Texts,
    ) {
        for Request { id, command } in dialect.read(text) {
            let mut exchange = Exchange { attachment, backlog, dialect, out };
            // Acknowledgements and pongs are not commands: they do not show that anyone is there, and cost next to nothing.
            match command {
                Ok(Command::Ack { seq }) => exchange.acknowledge(ConnectionInput::Ack { seq }, id),
                Ok(Command::Pong { seq }) => exchange.acknowledge(ConnectionInput::PongMessage { seq }, id),
                command => self.command(id, command, &mut exchange),
            }
        }
    }

    fn command<D: Dialect>(
        &mut self,
        id: Option<D::RequestId>,
        command: Result<Command<'_>, CommandError>,
        exchange: &mut Exchange<'_, D, impl Texts>,
    ) {
        if !exchange.attachment.tell(ConnectionInput::Command) {
            // The session has just released this connection: nothing that it asks for counts.
            return;
        }
        let context = &exchange.attachment.context;
        match self.rate.command(context.timeouts.clock().now()) {
            Pace::Fine => exchange.carry_out(id, command),
            Pace::TooFast => exchange.reply(id, Err(too_fast(context))),
            Pace::Flood => _ = exchange.attachment.tell(ConnectionInput::Close(CloseReason::Limit)),
        }
    }
}

/// Tells the session that the client has received something, which may make room for more.
pub(crate) fn acknowledge(attachment: &Attachment, backlog: &mut Backlog, input: ConnectionInput) -> bool {
    backlog.more |= backlog.until_acknowledged;
    attachment.tell(input)
}

/// One request of a client, and where its reply goes.
struct Exchange<'a, D, T> {
    attachment: &'a Attachment,
    backlog: &'a mut Backlog,
    dialect: &'a mut D,
    out: &'a mut T,
}

impl<D: Dialect, T: Texts> Exchange<'_, D, T> {
    fn carry_out(&mut self, id: Option<D::RequestId>, command: Result<Command<'_>, CommandError>) {
        let command = match command {
            Ok(command) => command,
            Err(error) => return self.reply(id, Err(error)),
        };
        let answer = match command {
            Command::Subscribe { channel, since } => self.subscribe(&channel, since.as_ref()),
            Command::Unsubscribe { channel } => {
                let Attachment { session, link, context, .. } = self.attachment;
                context.sessions.unsubscribe(session, link, &channel);
                Ok(Answer::Done)
            }
            Command::Publish { channel, data } => self.publish(&channel, data),
            Command::Presence { channel } => self.presence(&channel),
            Command::Refresh { token } => self.refresh(&token),
            Command::Close => {
                // While there is still a connection to reply on.
                self.reply(id, Ok(Answer::Done));
                self.attachment.tell(ConnectionInput::Close(CloseReason::Client));
                return;
            }
            Command::Ack { .. } | Command::Pong { .. } => return,
        };
        self.reply(id, answer);
    }

    fn subscribe(&mut self, channel: &str, since: Option<&Since<'_>>) -> Outcome {
        let name = self.channel_name(channel)?;
        let Attachment { session, link, context, .. } = self.attachment;
        let subscribed = context.sessions.subscribe(session, link, &name, since)?;
        // What there is to read comes after the reply.
        self.backlog.more = true;
        Ok(Answer::Subscribed {
            channel: name.as_str().to_owned().into(),
            epoch: subscribed.channel.epoch().to_owned().into(),
            offset: subscribed.offset,
            recovered: subscribed.recovered,
        })
    }

    fn publish(&self, channel: &str, data: &str) -> Outcome {
        let name = self.allowed_channel(Permission::Publish, channel)?;
        let published = self.context().channels.publish(&name, &CompactJson::of(data))?;
        let epoch = published.channel.epoch().to_owned().into();
        Ok(Answer::Published { offset: published.offset, epoch })
    }

    fn presence(&self, channel: &str) -> Outcome {
        let name = self.allowed_channel(Permission::Presence, channel)?;
        let now = self.context().timeouts.clock().now();
        let (subscribers, total) = match self.context().channels.get(name.as_str()) {
            Some(channel) => channel.subscribers(0, MOST_PRESENT),
            None => Default::default(),
        };
        let members = subscribers.iter().map(|(_, session)| {
            let view = session.view(now);
            let user = view.identity.user().map(|user| user.to_owned().into());
            Member { user, phase: view.phase_name() }
        });
        Ok(Answer::Presence { channel: name.as_str().to_owned().into(), total, members: members.collect() })
    }

    fn refresh(&mut self, token: &str) -> Outcome {
        let identity = self.context().auth.identify(Some(token), unix_now())?;
        let Attachment { session, link, context, .. } = self.attachment;
        let Some(revoked) = context.sessions.refresh(session, link, &identity) else {
            return Err(forbidden("the token is another user's"));
        };
        for channel in &revoked {
            self.dialect.notify(&unsubscribed(channel, "forbidden"), self.out);
        }
        Ok(Answer::Done)
    }

    /// The name of a channel on which the client may do this.
    fn allowed_channel(&self, permission: Permission, text: &str) -> Result<ChannelName, CommandError> {
        let name = self.channel_name(text)?;
        if self.attachment.session.identity().allows(permission, name.as_str()) {
            return Ok(name);
        }
        let doing = match permission {
            Permission::Subscribe => "to subscribe to",
            Permission::Publish => "to publish to",
            Permission::Presence => "to see who follows",
        };
        Err(forbidden(&format!("the token does not allow {doing} this channel")))
    }

    fn channel_name(&self, text: &str) -> Result<ChannelName, BadChannelName> {
        ChannelName::new(text, self.context().settings.channel_name_bytes)
    }

    /// An acknowledgement that ends the session gets no reply; the Close frame says it.
    fn acknowledge(&mut self, input: ConnectionInput, id: Option<D::RequestId>) {
        if acknowledge(self.attachment, self.backlog, input) {
            self.reply(id, Ok(Answer::Done));
        }
    }

    fn reply(&mut self, id: Option<D::RequestId>, result: Outcome) {
        self.dialect.respond(&[Response { id, result }], self.out);
    }

    fn context(&self) -> &Context {
        &self.attachment.context
    }
}

fn forbidden(message: &str) -> CommandError {
    CommandError { code: ErrorCode::Forbidden, message: message.to_owned() }
}

fn too_fast(context: &Context) -> CommandError {
    let limit = context.settings.commands_per_second;
    let message = format!("more than {limit} commands a second (limits.commands_per_second)");
    CommandError { code: ErrorCode::RateLimited, message }
}

impl From<AuthError> for CommandError {
    fn from(error: AuthError) -> Self {
        Self { code: ErrorCode::Unauthorized, message: error.to_string() }
    }
}

impl From<BadChannelName> for CommandError {
    fn from(error: BadChannelName) -> Self {
        Self { code: ErrorCode::BadChannel, message: error.to_string() }
    }
}

impl From<TooManyChannels> for CommandError {
    fn from(error: TooManyChannels) -> Self {
        Self { code: ErrorCode::Limit, message: error.to_string() }
    }
}

impl From<NotSubscribed> for CommandError {
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
