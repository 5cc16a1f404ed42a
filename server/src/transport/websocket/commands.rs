//! What clients ask for over a WebSocket, and what they are told.

use encke_core::close::CloseReason;
use encke_core::dialect::json::{
    Command, CommandError, CompactJson, Done, ErrorCode, Outcome, Present, Reply, ReplyError, Request,
    ServerMessage, Since, parse_command,
};
use encke_core::session::ConnectionInput;

use super::connection::{Connection, Step};
use crate::auth::{AuthError, Permission, unix_now};
use crate::channel::{BadChannelName, ChannelName, Full};
use crate::session::NotSubscribed;
use crate::transport::Socket;
use crate::transport::attachment::Attachment;
use crate::transport::rate::Pace;

/// How many subscribers a client is shown; it is told how many there are.
const PRESENT_AT_MOST: usize = 256;

/// What became of a command: what there is to tell, or why it was refused.
type Answer = Result<Done<'static>, Refused>;

/// Why a command was refused.
struct Refused {
    code: ErrorCode,
    message: String,
}

impl<S: Socket> Connection<S> {
    pub(super) fn received_text(&mut self, text: &str) -> Step {
        let request = parse_command(text);
        // Acknowledgements and pongs are no commands: they do not show that anyone is there, and cost next to nothing.
        match request {
            Ok(Request { id, command: Command::Ack { seq } }) => {
                self.progress(ConnectionInput::Ack { seq }, id);
            }
            Ok(Request { id, command: Command::Pong { seq } }) => {
                self.progress(ConnectionInput::PongMessage { seq }, id);
            }
            request => {
                if !self.tell(ConnectionInput::Command) {
                    // The session has just let go of this connection: nothing that it asks for counts.
                    return Ok(());
                }
                let id = match &request {
                    Ok(request) => request.id,
                    Err(error) => error.id,
                };
                let now = self.shared().timeouts.clock().now();
                match self.rate.command(now) {
                    Pace::Fine => self.carry_out(request),
                    Pace::TooFast => {
                        self.reply(id, Err(Refused::rate(self.shared().config.limits.commands_per_second)))
                    }
                    Pace::Flood => _ = self.tell(ConnectionInput::Close(CloseReason::Limit)),
                }
            }
        }
        Ok(())
    }

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
                let Attachment { session, link, shared, .. } = &self.attachment;
                shared.sessions.unsubscribe(session, link, &channel);
                Ok(Done::Nothing {})
            }
            Command::Publish { channel, data } => self.publish(&channel, data),
            Command::Presence { channel } => self.presence(&channel),
            Command::Refresh { token } => self.refresh(&token),
            Command::Close => {
                // While there is still a connection to reply on.
                self.reply(id, Ok(Done::Nothing {}));
                self.tell(ConnectionInput::Close(CloseReason::Client));
                return;
            }
            Command::Ack { .. } | Command::Pong { .. } => return,
        };
        self.reply(id, answer);
    }

    fn subscribe(&mut self, channel: &str, since: Option<&Since<'_>>) -> Answer {
        let name = self.channel_name(channel)?;
        let Attachment { session, link, shared, .. } = &self.attachment;
        let subscribed = shared.sessions.subscribe(session, link, &name, since)?;
        // After the reply comes what there is to read.
        self.left.more = true;
        Ok(Done::Subscribed {
            channel: name.as_str().to_owned().into(),
            epoch: subscribed.channel.epoch().to_owned().into(),
            offset: subscribed.offset,
            recovered: subscribed.recovered,
        })
    }

    fn publish(&self, channel: &str, data: &str) -> Answer {
        let name = self.allowed_channel(Permission::Publish, channel)?;
        let published = self.shared().channels.publish(&name, &CompactJson::of(data))?;
        let epoch = published.channel.epoch().to_owned().into();
        Ok(Done::Published { offset: published.offset, epoch })
    }

    fn presence(&self, channel: &str) -> Answer {
        let name = self.allowed_channel(Permission::Presence, channel)?;
        let now = self.shared().timeouts.clock().now();
        let (subscribers, total) = match self.shared().channels.get(name.as_str()) {
            Some(channel) => channel.subscribers(0, PRESENT_AT_MOST),
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
        let identity = self.shared().config.auth.identify(Some(token), unix_now())?;
        let Attachment { session, link, shared, .. } = &self.attachment;
        let Some(revoked) = shared.sessions.refresh(session, link, &identity) else {
            return Err(Refused::forbidden("the token is another user's"));
        };
        self.tell_revoked(&revoked);
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
        ChannelName::new(text, self.shared().config.channel.name_bytes)
    }

    /// What ended the session gets no reply; the Close frame says it.
    fn progress(&mut self, input: ConnectionInput, id: Option<u64>) {
        if self.tell_progress(input) {
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
        self.write_message(&ServerMessage::Reply(Reply { id, outcome }));
    }
}

impl Refused {
    fn forbidden(message: &str) -> Self {
        Self { code: ErrorCode::Forbidden, message: message.to_owned() }
    }

    fn rate(limit: u32) -> Self {
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

impl From<Full> for Refused {
    fn from(error: Full) -> Self {
        Self { code: ErrorCode::Limit, message: error.to_string() }
    }
}

impl From<NotSubscribed> for Refused {
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
