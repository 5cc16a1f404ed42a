//! What clients ask for, and the replies.

use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::dialect::json::{
    Command, CommandError, CompactJson, Done, ErrorCode, Outcome, Present, Reply, ReplyError, Request,
    ServerMessage, Since, parse_command,
};
use encke_core::session::ConnectionInput;

use super::{Attachment, Context, unsubscribed};
use crate::admission::{CommandRate, Pace};
use crate::auth::{AuthError, Permission};
use crate::channel::{BadChannelName, ChannelName, TooManyChannels};
use crate::session::{Backlog, NotSubscribed};

/// The most subscribers that a client is shown; it is told how many there are.
const MOST_PRESENT: usize = 256;

/// What a command did, or why it was refused.
type Answer = Result<Done<'static>, Refused>;

/// Why a command was refused.
struct Refused {
    code: ErrorCode,
    message: String,
}

/// Where replies are written, in the form of the transport.
pub(crate) trait Replies {
    fn write(&mut self, message: &ServerMessage<'_>);
}

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
    pub(crate) fn received(
        &mut self,
        text: &str,
        attachment: &Attachment,
        backlog: &mut Backlog,
        out: &mut impl Replies,
    ) {
        let mut exchange = Exchange { attachment, backlog, out };
        // Acknowledgements and pongs are not commands: they do not show that anyone is there, and cost next to nothing.
        match parse_command(text) {
            Ok(Request { id, command: Command::Ack { seq } }) => {
                exchange.acknowledge(ConnectionInput::Ack { seq }, id);
            }
            Ok(Request { id, command: Command::Pong { seq } }) => {
                exchange.acknowledge(ConnectionInput::PongMessage { seq }, id);
            }
            request => self.command(request, &mut exchange),
        }
    }

    fn command(
        &mut self,
        request: Result<Request<'_>, CommandError>,
        exchange: &mut Exchange<'_, impl Replies>,
    ) {
        if !exchange.attachment.tell(ConnectionInput::Command) {
            // The session has just released this connection: nothing that it asks for counts.
            return;
        }
        let id = match &request {
            Ok(request) => request.id,
            Err(error) => error.id,
        };
        let context = &exchange.attachment.context;
        match self.rate.command(context.timeouts.clock().now()) {
            Pace::Fine => exchange.carry_out(request),
            Pace::TooFast => exchange.reply(id, Err(Refused::rate(context))),
            Pace::Flood => _ = exchange.attachment.tell(ConnectionInput::Close(CloseReason::Limit)),
        }
    }
}

/// Tells the session that the client has received something, which may make room for more.
pub(crate) fn acknowledge(attachment: &Attachment, backlog: &mut Backlog, input: ConnectionInput) -> bool {
    backlog.more |= backlog.until_acknowledged;
    attachment.tell(input)
}

/// One message of a client, and where its replies go.
struct Exchange<'a, R> {
    attachment: &'a Attachment,
    backlog: &'a mut Backlog,
    out: &'a mut R,
}

impl<R: Replies> Exchange<'_, R> {
    fn carry_out(&mut self, request: Result<Request<'_>, CommandError>) {
        let Request { id, command } = match request {
            Ok(request) => request,
            Err(error) => {
                let refused = Refused { code: error.code, message: error.to_string() };
                return self.reply(error.id, Err(refused));
            }
        };
        let answer = match command {
            Command::Subscribe { channel, since } => self.subscribe(&channel, since.as_ref()),
            Command::Unsubscribe { channel } => {
                let Attachment { session, link, context, .. } = self.attachment;
                context.sessions.unsubscribe(session, link, &channel);
                Ok(Done::Nothing {})
            }
            Command::Publish { channel, data } => self.publish(&channel, data),
            Command::Presence { channel } => self.presence(&channel),
            Command::Refresh { token } => self.refresh(&token),
            Command::Close => {
                // While there is still a connection to reply on.
                self.reply(id, Ok(Done::Nothing {}));
                self.attachment.tell(ConnectionInput::Close(CloseReason::Client));
                return;
            }
            Command::Ack { .. } | Command::Pong { .. } => return,
        };
        self.reply(id, answer);
    }

    fn subscribe(&mut self, channel: &str, since: Option<&Since<'_>>) -> Answer {
        let name = self.channel_name(channel)?;
        let Attachment { session, link, context, .. } = self.attachment;
        let subscribed = context.sessions.subscribe(session, link, &name, since)?;
        // What there is to read comes after the reply.
        self.backlog.more = true;
        Ok(Done::Subscribed {
            channel: name.as_str().to_owned().into(),
            epoch: subscribed.channel.epoch().to_owned().into(),
            offset: subscribed.offset,
            recovered: subscribed.recovered,
        })
    }

    fn publish(&self, channel: &str, data: &str) -> Answer {
        let name = self.allowed_channel(Permission::Publish, channel)?;
        let published = self.context().channels.publish(&name, &CompactJson::of(data))?;
        let epoch = published.channel.epoch().to_owned().into();
        Ok(Done::Published { offset: published.offset, epoch })
    }

    fn presence(&self, channel: &str) -> Answer {
        let name = self.allowed_channel(Permission::Presence, channel)?;
        let now = self.context().timeouts.clock().now();
        let (subscribers, total) = match self.context().channels.get(name.as_str()) {
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

    fn refresh(&mut self, token: &str) -> Answer {
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

    /// An acknowledgement that ends the session gets no reply; the Close frame says it.
    fn acknowledge(&mut self, input: ConnectionInput, id: Option<u64>) {
        if acknowledge(self.attachment, self.backlog, input) {
            self.reply(id, Ok(Done::Nothing {}));
        }
    }

    /// Without an `id`, success goes unanswered.
    fn reply(&mut self, id: Option<u64>, answer: Answer) {
        let outcome = match answer {
            Ok(_) if id.is_none() => return,
            Ok(done) => Outcome::Ok(done),
            Err(Refused { code, message }) => Outcome::Error(ReplyError { code, message: message.into() }),
        };
        self.out.write(&ServerMessage::Reply(Reply { id, outcome }));
    }

    fn context(&self) -> &Context {
        &self.attachment.context
    }
}

impl Refused {
    fn forbidden(message: &str) -> Self {
        Self { code: ErrorCode::Forbidden, message: message.to_owned() }
    }

    fn rate(context: &Context) -> Self {
        let limit = context.settings.commands_per_second;
        let message = format!("more than {limit} commands a second (limits.commands_per_second)");
        Self { code: ErrorCode::RateLimited, message }
    }
}

impl From<AuthError> for Refused {
    fn from(error: AuthError) -> Self {
        Self { code: ErrorCode::Unauthorized, message: error.to_string() }
    }
}

impl From<BadChannelName> for Refused {
    fn from(error: BadChannelName) -> Self {
        Self { code: ErrorCode::BadChannel, message: error.to_string() }
    }
}

impl From<TooManyChannels> for Refused {
    fn from(error: TooManyChannels) -> Self {
        Self { code: ErrorCode::Limit, message: error.to_string() }
    }
}

impl From<NotSubscribed> for Refused {
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
