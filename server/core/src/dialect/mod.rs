//! Dialects: the protocols spoken over connections. A transport moves bytes. A dialect parses what the client
//! sends into [`Command`]s, and encodes [`Response`]s, [`ServerEvent`]s and channel messages as *texts*. A
//! text is what a transport sends as one unit, such as a WebSocket message.
//!
//! ARCHITECTURE.md describes how to add a dialect.

pub mod bayeux;
mod command;
mod event;
pub mod json;
mod json_fields;
mod name;
mod ping_frame;
mod publish_key;

pub use command::{
    Command, CommandError, CommandRequest, ErrorCode, HistoryPage, HistoryRange, Since, StartPosition,
};
pub use event::{Member, Response, ServerEvent, SharedJson, Success, UserPresence};
pub use name::DialectName;
pub use ping_frame::{ping_payload, pong_seq};
pub use publish_key::PublishKey;

use crate::session::Heartbeat;

/// The server's side of a conversation on one connection, with the state that the dialect keeps for it.
///
/// Acknowledgements are reported as [`Command::Ack`] and [`Command::Pong`], regardless of their form in the
/// dialect. Pong frames acknowledge independently of the dialect ([`pong_seq`]). Before the server closes a
/// connection, it may write [`ServerEvent::Goaway`]; the Close frame itself is sent by the transport.
pub trait Dialect: Default + Send + 'static {
    /// The name in metrics and in the admin API.
    const NAME: DialectName;

    /// The part of a request that its response repeats, so that the client can match the two.
    type RequestId: Send;

    /// How the server checks that the client is alive. [`ServerEvent::Ping`] is written only with
    /// [`Heartbeat::Message`].
    fn heartbeat(&self) -> Heartbeat;

    /// Parses the commands of one text, in order. Invalid ones become requests with an error.
    fn read<'a>(
        &mut self,
        text: &'a str,
    ) -> impl Iterator<Item = CommandRequest<'a, Self::RequestId>> + use<'a, Self>;

    /// Writes the responses to the commands of one text. A dialect may combine them into one text or omit
    /// some.
    fn respond(&mut self, responses: &[Response<'_, Self::RequestId>], to: &mut impl TextSink);

    /// Keeps a [held](Command::Hold) request to answer it later. If another request is already held, answers
    /// that request now. `_seq` is the last message that the client has received, if reported; all later
    /// messages are sent again.
    fn hold(&mut self, _id: Option<Self::RequestId>, _seq: Option<u64>, _to: &mut impl TextSink) {}

    /// Rejects a request to be held because the client claims to have messages that were never sent.
    fn refuse_hold(&mut self, _id: Option<Self::RequestId>, _to: &mut impl TextSink) {}

    /// Writes an event as one or more texts, or writes nothing if the dialect cannot express it.
    fn notify(&mut self, event: &ServerEvent<'_>, to: &mut impl TextSink);
}

/// Destination for the texts that a dialect writes. A transport turns each into a frame or an event of a
/// stream.
pub trait TextSink {
    /// Accepts one text.
    fn text(&mut self, text: &str);
}

impl<T: TextSink> TextSink for &mut T {
    fn text(&mut self, text: &str) {
        (**self).text(text);
    }
}
