//! The `json` dialect: each text is one compact JSON object, in both directions.
//!
//! [`Json`] is the server's side. [`ServerMessage`] represents every object that a client can receive.
//! Clients written in Rust use it for parsing.

mod encoded;
mod positions;
mod read;
mod wire;
mod write;

pub use encoded::{ByPattern, EncodedMessage, EncodedPattern};
pub use positions::parse_positions;
pub use read::parse_command;
pub use wire::{
    ChannelMessage, Gap, Goaway, Hello, PatternPosition, Ping, Reply, ReplyOutcome, ServerMessage,
    Subscribed, Unsubscribed,
};

use super::{CommandRequest, Dialect, DialectName, Response, ServerEvent, TextSink};
use crate::session::Heartbeat;

/// Version announced in [`Hello`].
pub const VERSION: u32 = 1;

/// The `json` dialect. Its only state is the kind of heartbeat chosen for the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json {
    /// Whether heartbeats are ping frames or `ping` objects.
    pub heartbeat: Heartbeat,
}

impl Dialect for Json {
    const NAME: DialectName = DialectName::Json;

    type RequestId = u64;

    fn heartbeat(&self) -> Heartbeat {
        self.heartbeat
    }

    fn read<'a>(&mut self, text: &'a str) -> impl Iterator<Item = CommandRequest<'a, u64>> + use<'a> {
        std::iter::once(parse_command(text))
    }

    /// Writes all responses except those to successful commands without an id.
    fn respond(&mut self, responses: &[Response<'_, u64>], to: &mut impl TextSink) {
        for response in responses.iter().filter(|response| response.id.is_some() || response.result.is_err())
        {
            to.text(&ServerMessage::from(response).to_json());
        }
    }

    fn notify(&mut self, event: &ServerEvent<'_>, to: &mut impl TextSink) {
        match ServerMessage::from(event) {
            ServerMessage::Hello(hello) => to.text(&write::hello(&hello)),
            message => to.text(&message.to_json()),
        }
    }
}

#[cfg(test)]
mod tests;
