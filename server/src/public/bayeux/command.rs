use std::net::IpAddr;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::Texts;
use encke_core::dialect::bayeux::{Advice, Bayeux, ClientMessage, MessageKind, Reply};
use encke_core::session::Phase;

use super::session::{check_token, session};
use crate::client::bayeux::{retry, turned_away};
use crate::client::{Commands, Context, Speaker};
use crate::session::{Backlog, Via};

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

impl Texts for Replies {
    /// Bayeux writes arrays.
    fn text(&mut self, array: &str) {
        self.push(&array[1..array.len() - 1]);
    }
}

/// Carries out a command that comes beside its session's connection, and has its reply, before that of the next. Returns whether
/// the client has shown that it has a session.
pub(super) async fn command(
    message: ClientMessage<'_>,
    address: IpAddr,
    context: &Context,
    replies: &mut Replies,
) -> bool {
    let found = session(&message, context).and_then(|session| {
        // A client that leaves needs no new token for that: it has the secret.
        if message.kind() != MessageKind::Disconnect {
            check_token(&message, &session, context)?;
        }
        Ok(session)
    });
    let session = match found {
        Ok(session) => session,
        Err(refused) => {
            replies.push(&refused);
            return false;
        }
    };
    if let Some(pause) = context.pause(&session) {
        pause.await;
    }
    context.count_frames(&session, 1);
    if message.kind() == MessageKind::Connect {
        // Of several in one request, another is answered with what there is.
        replies.push(&message.reply_to().reply().succeeded().to_json());
    } else {
        let speaker = Speaker { session: &session, context, via: Via::request(address) };
        carry_out(message, speaker, replies).await;
    }
    true
}

/// Carries out a message that is no connect, for a session that was found, and replies.
pub(in crate::public) async fn carry_out(
    message: ClientMessage<'_>,
    speaker: Speaker<'_>,
    replies: &mut Replies,
) {
    let Speaker { session, context, .. } = speaker;
    let reply_to = message.reply_to();
    let before = replies.0.len();
    let (mut commands, mut backlog, mut dialect) = (Commands::new(), Backlog::default(), Bayeux::default());
    let is_heard =
        commands.requested(message.into_request(false), speaker, &mut backlog, &mut dialect, replies);
    commands.finish(speaker, &mut backlog, &mut dialect, replies).await;
    if replies.0.len() == before {
        // It has ended the session, or has found it ended: then nothing was done, and no reply may say that it was.
        let has_ended_well = |reason: CloseReason| reason.close_code() == CloseCode::Normal;
        let reply = match session.phase() {
            Phase::Closed(reason) if is_heard || !has_ended_well(reason) => {
                turned_away(reply_to.reply(), reason.close_code(), context)
            }
            Phase::Moved => {
                let reply = reply_to.reply().failed_with(503, CloseCode::Moved.reason());
                Reply { advice: Some(Advice::pause(retry(CloseCode::Moved, context))), ..reply }
            }
            _ => reply_to.reply().of_no_session(),
        };
        replies.push(&reply.to_json());
    }
}
