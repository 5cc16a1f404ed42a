//! The `json` dialect: one compact JSON object a text, in both directions.
//!
//! [`Json`] is the server's side. [`ServerMessage`] has all objects that a client can receive, for reading and for
//! writing: clients in Rust use it.

mod envelope;
mod read;
mod wire;
mod write;

pub use read::parse_command;
pub use wire::{
    Delivery, Done, Follower, Gap, Goaway, Hello, Outcome, PatternPlace, Ping, Present, PresentUser, Reply,
    ReplyError, ServerMessage, Subscribed, Unsubscribed,
};

use super::{ByPattern, Dialect, DialectName, Encoded, Encoding, Event, Request, Response, Texts};
use crate::message::{Message, Stamp};
use crate::session::Heartbeat;

/// The version that [`Hello`] announces.
pub const VERSION: u32 = 1;

/// The dialect. A connection chooses its kind of heartbeat; there is nothing else to remember.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json {
    /// Ping frames, or `ping` objects.
    pub heartbeat: Heartbeat,
}

impl Dialect for Json {
    const NAME: DialectName = DialectName::Json;

    type RequestId = u64;

    fn heartbeat(&self) -> Heartbeat {
        self.heartbeat
    }

    fn read<'a>(&mut self, text: &'a str) -> impl Iterator<Item = Request<'a, u64>> + use<'a> {
        std::iter::once(parse_command(text))
    }

    /// Without an id, success goes unanswered.
    fn respond(&mut self, responses: &[Response<'_, u64>], to: &mut impl Texts) {
        for response in responses.iter().filter(|response| response.id.is_some() || response.result.is_err())
        {
            to.text(&ServerMessage::from(response).to_json());
        }
    }

    fn notify(&mut self, event: &Event<'_>, to: &mut impl Texts) {
        match ServerMessage::from(event) {
            ServerMessage::Hello(hello) => to.text(&write::hello(&hello)),
            message => to.text(&message.to_json()),
        }
    }
}

impl Encoding for Json {
    fn encode(message: &Message<'_>) -> Encoded<Self> {
        write::encode(message)
    }

    fn stamp_before_data(before: &str) -> Stamp<'_> {
        write::stamp_before_data(before)
    }

    fn encode_pattern(name: &str, epoch: &str) -> Box<str> {
        write::encode_pattern(name, epoch)
    }

    fn message_len(encoded: &str, seq: u64, by: Option<ByPattern<'_>>) -> usize {
        write::message_len(encoded, seq, by)
    }

    fn write_message(encoded: &str, seq: u64, by: Option<ByPattern<'_>>, out: &mut Vec<u8>) {
        write::write_message(encoded, seq, by, out);
    }
}

#[cfg(test)]
mod tests;
