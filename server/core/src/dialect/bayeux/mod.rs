//! Bayeux 1.0 as used by the clients of CometD and Faye: arrays of messages, each on a channel.
//!
//! One peculiarity is outside the scope of [`Dialect`]: a client opens its session (`/meta/handshake`) and
//! polls (`/meta/connect`) by sending ordinary messages. The transport parses these with [`ClientMessage`]
//! and answers them with a [`MessageReply`]. All other messages are commands.
//!
//! A `clientId` is the session's resume token.

mod advice;
mod message;
mod missed_events;
mod reply;

#[cfg(test)]
mod tests;

pub use advice::{Advice, Reconnect};
pub use message::{
    BadBody, BadMessage, ClientMessage, ConnectOptions, HandshakeOptions, MAX_MESSAGES, MessageKind,
    split_messages,
};
pub use missed_events::MissedEvents;
pub use reply::{Ack, Extensions, MessageReply, ReplyTo, event_len, write_event};

use super::{
    Command, CommandError, CommandRequest, Dialect, DialectName, ErrorCode, Response, ServerEvent, Success,
    TextSink,
};
use crate::session::Heartbeat;

/// Version of Bayeux, as sent in a handshake.
pub const VERSION: &str = "1.0";

/// The server's side of a Bayeux conversation. Each text is an array of messages.
#[derive(Debug, Default)]
pub struct Bayeux {
    /// The `clientId` that every message must have. `None` if the caller has already checked it.
    client_id: Option<Box<str>>,
    /// Events to report in the next reply to `/meta/connect`.
    missed: MissedEvents,
    /// The held `/meta/connect`.
    held: Option<Box<ReplyTo>>,
    /// Seq of the last message that the client has, or receives with the next reply to `/meta/connect`, if the
    /// client acknowledges messages.
    pub seq: u64,
}

impl Bayeux {
    /// Creates a conversation with the client that has this resume token.
    #[must_use]
    pub fn with_client(client_id: &str) -> Self {
        Self { client_id: Some(client_id.into()), ..Self::default() }
    }

    /// Whether a request is held.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Takes the held request, with the events to report in its reply.
    pub fn release(&mut self) -> Option<(Box<ReplyTo>, MissedEvents)> {
        let held = self.held.take()?;
        Some((held, std::mem::take(&mut self.missed)))
    }

    fn request<'a>(&self, text: &'a str, is_alone: bool) -> CommandRequest<'a, ReplyTo> {
        let message = match ClientMessage::parse(text) {
            Ok(message) => message,
            Err(error) => return CommandRequest { id: Some(ReplyTo::default()), command: Err(error.into()) },
        };
        if self.client_id.as_deref().is_some_and(|own| message.client_id().is_ok_and(|id| *id == *own)) {
            return message.into_request(is_alone);
        }
        let id = Some(message.reply_to().unknown_session());
        CommandRequest { id, command: Err(unknown_session()) }
    }
}

/// Returns the error for a message whose session has ended, or is not the session of this connection.
fn unknown_session() -> CommandError {
    CommandError { code: ErrorCode::Unauthorized, message: "the session is unknown".to_owned() }
}

impl Dialect for Bayeux {
    const NAME: DialectName = DialectName::Bayeux;

    type RequestId = ReplyTo;

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat::Frame
    }

    fn read<'a>(&mut self, text: &'a str) -> impl Iterator<Item = CommandRequest<'a, ReplyTo>> + use<'a> {
        let requests = match split_messages(text) {
            Err(_) => vec![CommandRequest { id: None, command: Ok(Command::Violation) }],
            Ok(texts) if texts.is_empty() => vec![CommandRequest { id: None, command: Ok(Command::Noop) }],
            Ok(texts) => {
                let is_alone = texts.len() == 1;
                texts.into_iter().map(|text| self.request(text, is_alone)).collect()
            }
        };
        requests.into_iter()
    }

    /// Writes one reply to each message.
    fn respond(&mut self, responses: &[Response<'_, ReplyTo>], to: &mut impl TextSink) {
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
                Err(_) if id.is_unknown_session => id.reply().unknown_session(),
                Err(error) => id.reply().failed(error),
            };
            to.text(&reply.to_array());
        }
    }

    fn hold(&mut self, id: Option<ReplyTo>, seq: Option<u64>, to: &mut impl TextSink) {
        // Continue from the client's seq: with a higher seq in the reply, the client would acknowledge messages
        // that it does not have.
        self.seq = seq.unwrap_or(self.seq);
        if let Some(before) = std::mem::replace(&mut self.held, id.map(Box::new)) {
            to.text(&before.reply().succeeded().to_array());
        }
    }

    fn refuse_hold(&mut self, id: Option<ReplyTo>, to: &mut impl TextSink) {
        to.text(&id.unwrap_or_default().reply().ack_out_of_range().to_array());
    }

    /// Records a missed event for the next reply to `/meta/connect`. Transports send all other events in
    /// replies.
    fn notify(&mut self, event: &ServerEvent<'_>, _: &mut impl TextSink) {
        self.missed.record(event);
    }
}
