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

pub use advice::{Advice, Reconnect};
pub use message::{
    BadMessage, ClientMessage, Connect, Handshake, MOST_MESSAGES, MessageKind, Unreadable, messages,
};
pub use missed::Missed;
pub use reply::{Ack, EnckeExtension, Extensions, Reply, ReplyTo, event_len, write_event};

use super::{Dialect, DialectName, Event, Request, Response, Texts};
use crate::session::Heartbeat;

/// The version of the protocol.
pub const VERSION: &str = "1.0";

/// One side of a conversation.
#[derive(Debug, Default)]
pub struct Bayeux {
    /// What the client does not know yet: a reply to `/meta/connect` tells.
    pub missed: Missed,
}

impl Dialect for Bayeux {
    const NAME: DialectName = DialectName::Bayeux;

    type RequestId = ReplyTo;

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat::Frame
    }

    /// Reads one message.
    fn read<'a>(&mut self, text: &'a str) -> impl Iterator<Item = Request<'a, ReplyTo>> + use<'a> {
        std::iter::once(match ClientMessage::parse(text) {
            Ok(message) => message.into_request(),
            Err(error) => Request { id: Some(ReplyTo::default()), command: Err(error.into()) },
        })
    }

    /// Every message has a reply.
    fn respond(&mut self, responses: &[Response<'_, ReplyTo>], to: &mut impl Texts) {
        for Response { id, result } in responses {
            let reply_to = id.as_ref().map_or_else(Reply::default, ReplyTo::reply);
            to.text(&match result {
                Ok(_) => reply_to.succeeded().to_json(),
                Err(error) => reply_to.failed(error).to_json(),
            });
        }
    }

    /// What a client missed, it is told with the next reply to `/meta/connect`. For all else that happens, transports have replies.
    fn notify(&mut self, event: &Event<'_>, _: &mut impl Texts) {
        self.missed.note(event);
    }
}
