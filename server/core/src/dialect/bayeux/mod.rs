//! Bayeux 1.0, as the clients of CometD and Faye speak it: arrays of messages, each on a channel.
//!
//! What is special about it, [`Dialect`] does not know: a client opens its session (`/meta/handshake`) and asks for what is new
//! (`/meta/connect`) by messages like any other. A transport reads these with [`ClientMessage`], and answers them with a [`Reply`].
//! All else is a command.
//!
//! A `clientId` is the session's resume token.

mod advice;
mod message;
mod missed;
mod reply;

#[cfg(test)]
mod tests;

pub use advice::{Advice, Reconnect};
pub use message::{
    BadMessage, ClientMessage, Connect, Handshake, MOST_MESSAGES, MessageKind, Unreadable, messages,
};
pub use missed::Missed;
pub use reply::{Ack, EnckeExtension, Extensions, Reply, ReplyTo, event_len, write_event};

use super::{
    Command, CommandError, Dialect, DialectName, ErrorCode, Event, Request, Response, Success, Texts,
};
use crate::session::Heartbeat;

/// The version of the protocol.
pub const VERSION: &str = "1.0";

/// One side of a conversation.
///
/// Its texts are arrays of messages.
#[derive(Debug, Default)]
pub struct Bayeux {
    /// Every message must have it. Without one, those who read messages have looked.
    client_id: Option<Box<str>>,
    /// What the client does not know yet: the next reply to `/meta/connect` tells.
    missed: Missed,
    /// The `/meta/connect` that is held.
    held: Option<Box<ReplyTo>>,
}

impl Bayeux {
    /// The conversation of the client with this resume token.
    #[must_use]
    pub fn with_client(client_id: &str) -> Self {
        Self { client_id: Some(client_id.into()), ..Self::default() }
    }

    /// Whether a request waits for an answer.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Takes the request that is held, and what its client is to be told.
    pub fn release(&mut self) -> Option<(Box<ReplyTo>, Missed)> {
        let held = self.held.take()?;
        Some((held, std::mem::take(&mut self.missed)))
    }

    fn request<'a>(&self, text: &'a str, is_alone: bool) -> Request<'a, ReplyTo> {
        let message = match ClientMessage::parse(text) {
            Ok(message) => message,
            Err(error) => return Request { id: Some(ReplyTo::default()), command: Err(error.into()) },
        };
        if self.client_id.as_deref().is_some_and(|own| message.client_id().is_ok_and(|id| *id == *own)) {
            return message.into_request(is_alone);
        }
        let id = Some(message.reply_to().of_no_session());
        Request { id, command: Err(unknown_session()) }
    }
}

/// Why a message is refused whose session is gone, or another than that of its connection.
fn unknown_session() -> CommandError {
    CommandError { code: ErrorCode::Unauthorized, message: "the session is unknown".to_owned() }
}

impl Dialect for Bayeux {
    const NAME: DialectName = DialectName::Bayeux;

    type RequestId = ReplyTo;

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat::Frame
    }

    fn read<'a>(&mut self, text: &'a str) -> impl Iterator<Item = Request<'a, ReplyTo>> + use<'a> {
        let requests = match messages(text) {
            Err(_) => vec![Request { id: None, command: Ok(Command::Violation) }],
            Ok(texts) if texts.is_empty() => vec![Request { id: None, command: Ok(Command::Nothing) }],
            Ok(texts) => {
                let is_alone = texts.len() == 1;
                texts.into_iter().map(|text| self.request(text, is_alone)).collect()
            }
        };
        requests.into_iter()
    }

    /// Every message has a reply.
    fn respond(&mut self, responses: &[Response<'_, ReplyTo>], to: &mut impl Texts) {
        for Response { id, result } in responses {
            let Some(id) = id else {
                to.text("[]");
                continue;
            };
            let reply = match result {
                Ok(Success::Called { data }) => {
                    to.text(&id.answered(data));
                    continue;
                }
                Ok(_) => id.reply().succeeded(),
                Err(_) if id.is_of_no_session => id.reply().of_no_session(),
                Err(error) => id.reply().failed(error),
            };
            to.text(&reply.to_array());
        }
    }

    fn hold(&mut self, id: Option<ReplyTo>, _: Option<u64>, to: &mut impl Texts) {
        if let Some(before) = std::mem::replace(&mut self.held, id.map(Box::new)) {
            to.text(&before.reply().succeeded().to_array());
        }
    }

    fn refuse_hold(&mut self, id: Option<ReplyTo>, to: &mut impl Texts) {
        to.text(&id.unwrap_or_default().reply().beyond_what_was_sent().to_array());
    }

    /// What a client missed, it is told with the next reply to `/meta/connect`. For all else that happens, transports have replies.
    fn notify(&mut self, event: &Event<'_>, _: &mut impl Texts) {
        self.missed.note(event);
    }
}
