//! What clients ask for over a WebSocket, and what they are told.

use encke_core::close::CloseReason;
use encke_core::dialect::{
    Answer, Command, CommandError, Dialect, ErrorCode, Member, Request, Response, Since,
};
use encke_core::message::CompactJson;
use encke_core::session::ConnectionInput;

use super::connection::{Connection, Step};
use crate::auth::{AuthError, Permission, unix_now};
use crate::channel::{BadChannelName, ChannelName, Full};
use crate::session::NotSubscribed;
use crate::transport::attachment::Attachment;
use crate::transport::rate::Pace;

/// How many subscribers a client is shown; it is told how many there are.
const PRESENT_AT_MOST: usize = 256;

/// What came of a command.
type Outcome = Result<Answer<'static>, CommandError>;

impl Connection {
    pub(super) fn received_text(&mut self, text: &str) -> Step {
        for request in self.dialect.read(text) {
            self.received_request(request);
        }
        Ok(())
    }

    fn received_request(&mut self, Request { id, command }: Request<'_, u64>) {
        // Acknowledgements and pongs are no commands: they do not show that anyone is there, and cost next to nothing.
        match command {
            Ok(Command::Ack { seq }) => self.progress(ConnectionInput::Ack { seq }, id),
            Ok(Command::Pong { seq }) => self.progress(ConnectionInput::PongMessage { seq }, id),
            command => {
                if !self.tell(ConnectionInput::Command) {
                    // The session has just let go of this connection: nothing that it asks for counts.
                    return;
                }
                let now = self.shared().timeouts.clock().now();
                match self.rate.command(now) {
                    Pace::Fine => self.carry_out(id, command),
                    Pace::TooFast => self.reply(id, Err(too_fast(self))),
                    Pace::Flood => _ = self.tell(ConnectionInput::Close(CloseReason::Limit)),
                }
            }
        }
    }

    fn carry_out(&mut self, id: Option<u64>, command: Result<Command<'_>, CommandError>) {
        let command = match command {
            Ok(command) => command,
            Err(error) => return self.reply(id, Err(error)),
        };
        let answer = match command {
            Command::Subscribe { channel, since } => self.subscribe(&channel, since.as_ref()),
            Command::Unsubscribe { channel } => {
                let Attachment { session, link, shared, .. } = &self.attachment;
                shared.sessions.unsubscribe(session, link, &channel);
                Ok(Answer::Done)
            }
            Command::Publish { channel, data } => self.publish(&channel, data),
            Command::Presence { channel } => self.presence(&channel),
            Command::Refresh { token } => self.refresh(&token),
            Command::Close => {
                // While there is still a connection to reply on.
                self.reply(id, Ok(Answer::Done));
                self.tell(ConnectionInput::Close(CloseReason::Client));
                return;
            }
            Command::Ack { .. } | Command::Pong { .. } => return,
        };
        self.reply(id, answer);
    }

    fn subscribe(&mut self, channel: &str, since: Option<&Since<'_>>) -> Outcome {
        let name = self.channel_name(channel)?;
        let Attachment { session, link, shared, .. } = &self.attachment;
        let subscribed = shared.sessions.subscribe(session, link, &name, since)?;
        // After the reply comes what there is to read.
        self.left.more = true;
        Ok(Answer::Subscribed {
            channel: name.as_str().to_owned().into(),
            epoch: subscribed.channel.epoch().to_owned().into(),
            offset: subscribed.offset,
            recovered: subscribed.recovered,
        })
    }

    fn publish(&self, channel: &str, data: &str) -> Outcome {
        let name = self.allowed_channel(Permission::Publish, channel)?;
        let published = self.shared().channels.publish(&name, &CompactJson::of(data))?;
        let epoch = published.channel.epoch().to_owned().into();
        Ok(Answer::Published { offset: published.offset, epoch })
    }

    fn presence(&self, channel: &str) -> Outcome {
        let name = self.allowed_channel(Permission::Presence, channel)?;
        let now = self.shared().timeouts.clock().now();
        let (subscribers, total) = match self.shared().channels.get(name.as_str()) {
            Some(channel) => channel.subscribers(0, PRESENT_AT_MOST),
            None => Default::default(),
        };
        let members = subscribers.iter().map(|(_, session)| {
            let view = session.view(now);
            let user = view.identity.user().map(|user| user.to_owned().into());
            Member { user, phase: view.phase_name() }
        });
        let members = members.collect();
        Ok(Answer::Presence { channel: name.as_str().to_owned().into(), total, members })
    }

    fn refresh(&mut self, token: &str) -> Outcome {
        let identity = self.shared().config.auth.identify(Some(token), unix_now())?;
        let Attachment { session, link, shared, .. } = &self.attachment;
        let Some(revoked) = shared.sessions.refresh(session, link, &identity) else {
            return Err(forbidden("the token is another user's"));
        };
        self.tell_revoked(&revoked);
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
        ChannelName::new(text, self.shared().config.channel.name_bytes)
    }

    /// What ended the session gets no reply; the Close frame says it.
    fn progress(&mut self, input: ConnectionInput, id: Option<u64>) {
        if self.tell_progress(input) {
            self.reply(id, Ok(Answer::Done));
        }
    }

    fn reply(&mut self, id: Option<u64>, result: Outcome) {
        self.respond(Response { id, result });
    }
}

fn forbidden(message: &str) -> CommandError {
    CommandError { code: ErrorCode::Forbidden, message: message.to_owned() }
}

fn too_fast(connection: &Connection) -> CommandError {
    let limit = connection.shared().config.limits.commands_per_second;
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

impl From<Full> for CommandError {
    fn from(error: Full) -> Self {
        Self { code: ErrorCode::Limit, message: error.to_string() }
    }
}

impl From<NotSubscribed> for CommandError {
    fn from(error: NotSubscribed) -> Self {
        let code = match error {
            NotSubscribed::Forbidden => ErrorCode::Forbidden,
            NotSubscribed::TooMany { .. } | NotSubscribed::Full(_) | NotSubscribed::Detached => {
                ErrorCode::Limit
            }
        };
        Self { code, message: error.to_string() }
    }
}
