use std::sync::Arc;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::TextSink;
use encke_core::dialect::bayeux::{Advice, BadMessage, Bayeux, ClientMessage, MessageKind, MessageReply};
use encke_core::session::Phase;

use super::session::{FoundSession, Requester, check_command, session};
use crate::client::bayeux::refuse_with;
use crate::client::{Services, retry_delay};
use crate::commands::{self as client_commands, CommandContext};
use crate::session::CommandSource;

/// Replies, separated by commas.
#[derive(Default)]
pub(in crate::public) struct Replies(pub(in crate::public) String);

impl Replies {
    pub(super) fn push(&mut self, reply: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(reply);
    }
}

impl TextSink for Replies {
    /// Appends the members of `array`. Bayeux replies are arrays.
    fn text(&mut self, array: &str) {
        self.push(&array[1..array.len() - 1]);
    }
}

/// Handles the messages of a text or a request except for the first `/meta/connect`, which is returned.
/// `has_session` is called whenever the client has shown that it has a session.
pub(super) async fn commands<'t>(
    messages: Vec<Result<ClientMessage<'t>, BadMessage>>,
    requester: &Requester,
    services: &Arc<Services>,
    has_session: impl Fn(),
) -> (Replies, Option<ClientMessage<'t>>) {
    let (mut replies, mut connect) = (Replies::default(), None);
    for message in messages {
        match message {
            Ok(message) if message.kind() == MessageKind::Connect && connect.is_none() => {
                connect = Some(message);
            }
            Ok(message) => {
                if command(message, requester, services, &mut replies).await {
                    has_session();
                }
            }
            Err(error) => replies.push(&error.reply()),
        }
    }
    (replies, connect)
}

/// Handles a command that arrives in a request rather than on its session's connection. The reply is complete
/// before the next command begins. Returns whether the client has shown that it has a session.
async fn command(
    message: ClientMessage<'_>,
    requester: &Requester,
    services: &Arc<Services>,
    replies: &mut Replies,
) -> bool {
    let found = session(&message, requester.caller.address, services).await.and_then(|found| {
        check_command(&message, &found.session, requester, services)?;
        Ok(found)
    });
    let FoundSession { session, .. } = &match found {
        Ok(found) => found,
        Err(refused) => {
            replies.push(&refused);
            return false;
        }
    };
    services.count_request(session).await;
    if message.kind() == MessageKind::Connect {
        // Answer immediately: only one `/meta/connect` of a request is held.
        replies.push(&message.reply_to().reply().succeeded().to_json());
    } else {
        let source = CommandSource::request(requester.caller.address);
        let context = CommandContext { session, services, source };
        carry_out(message, context, replies).await;
    }
    true
}

/// Handles a message other than a `/meta/connect` for an existing session, and replies.
pub(in crate::public) async fn carry_out(
    message: ClientMessage<'_>,
    context: CommandContext<'_>,
    replies: &mut Replies,
) {
    let CommandContext { session, services, .. } = context;
    let reply_to = message.reply_to();
    let before = replies.0.len();
    let request = [message.into_request(false)];
    let is_received = client_commands::carry_out::<Bayeux>(request, context, replies).await;
    if replies.0.len() == before {
        // The command has ended the session, or the session had already ended. In the latter case nothing was
        // done, and no reply may claim otherwise.
        let has_ended_well = |reason: CloseReason| reason.close_code() == CloseCode::Normal;
        let reply = match session.phase() {
            Phase::Closed(reason) if is_received || !has_ended_well(reason) => {
                refuse_with(reply_to.reply(), reason.close_code(), services)
            }
            Phase::Moved => {
                let reply = reply_to.reply().failed_with(503, CloseCode::Moved.reason());
                let retry = retry_delay(CloseCode::Moved, &services.entropy);
                MessageReply { advice: Some(Advice::pause(retry)), ..reply }
            }
            _ => reply_to.reply().unknown_session(),
        };
        replies.push(&reply.to_json());
    }
}
