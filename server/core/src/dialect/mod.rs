//! Dialects: what the bytes on a connection mean. A transport moves them; a dialect reads [`Command`]s from what the
//! client sends, and writes [`Response`]s, [`Event`]s and channel messages as texts.
//!
//! A new dialect is a folder here with one type that implements [`Dialect`], a [`DialectName`] and a place in
//! [`Encodings`](crate::encodings::Encodings). In the server, `public/query.rs` chooses which one a WebSocket speaks; `metrics/connections.rs`
//! lists those that are shown before anyone speaks them. Logs and WebSockets name none; streams of events speak `json`.

pub mod bayeux;
mod command;
mod encoded;
mod event;
pub mod json;
mod name;
mod ping_frame;
mod publish_key;

pub use command::{Beginning, Command, CommandError, ErrorCode, Request, Since};
pub use encoded::{ByPattern, Encoded};
pub use event::{Event, Member, Response, Success, UserPresence};
pub use name::DialectName;
pub use ping_frame::{ping_payload, pong_seq};
pub use publish_key::PublishKey;

use crate::message::{Message, Stamp};
use crate::session::Heartbeat;

/// One side of one connection's conversation: the value keeps what the dialect has to remember of it.
///
/// Acknowledgements arrive as [`Command::Ack`] and [`Command::Pong`], however a dialect carries them. Pong frames
/// acknowledge below every dialect ([`pong_seq`]). Before the server closes a connection, it may write
/// [`Event::Goaway`]; the Close frame itself is the transport's.
pub trait Dialect: Default + Send + 'static {
    /// The name in metrics and in the admin API.
    const NAME: DialectName;

    /// What a response needs of its request, so that the client can match them.
    type RequestId: Send;

    /// How the server asks for signs of life. [`Event::Ping`] is written only under [`Heartbeat::Message`].
    fn heartbeat(&self) -> Heartbeat;

    /// Reads the commands of one text, in order. What is no command is a request with an error.
    fn read<'a>(
        &mut self,
        text: &'a str,
    ) -> impl Iterator<Item = Request<'a, Self::RequestId>> + use<'a, Self>;

    /// Writes responses to the commands of one text. A dialect may join them into one text, or leave some out.
    fn respond(&mut self, responses: &[Response<'_, Self::RequestId>], to: &mut impl Texts);

    /// Keeps a request that is not answered yet because it is [held](Command::Hold). If there is one already, that is answered.
    /// `_seq` is the last message that the client has, if it says so: what follows comes again.
    fn hold(&mut self, _id: Option<Self::RequestId>, _seq: Option<u64>, _to: &mut impl Texts) {}

    /// Refuses such a request, since the client says that it has what was never sent.
    fn refuse_hold(&mut self, _id: Option<Self::RequestId>, _to: &mut impl Texts) {}

    /// Writes an event: as one text, as several, or not at all if the dialect cannot express it.
    fn notify(&mut self, event: &Event<'_>, to: &mut impl Texts);
}

/// A dialect whose messages are the same text for all readers, but for their seqs: logs keep it.
pub trait Encoding: Dialect {
    /// Encodes a message for all its readers: all of the text but what depends on the reader's seq.
    fn encode(message: &Message<'_>) -> Encoded<Self>;

    /// What the server says of an encoded message, in the part before its data.
    fn stamp_before_data(before: &str) -> Stamp<'_>;

    /// Encodes what all messages by one pattern have in common: its name, and the epoch of its log.
    fn encode_pattern(name: &str, epoch: &str) -> Box<str>;

    /// The length, in bytes, of what [`Self::write_message`] appends.
    fn message_len(encoded: &str, seq: u64, by: Option<ByPattern<'_>>) -> usize;

    /// Appends the whole text of an encoded message under a reader's seq, to which it may have come by a pattern.
    fn write_message(encoded: &str, seq: u64, by: Option<ByPattern<'_>>, out: &mut Vec<u8>);
}

/// Takes the texts that a dialect writes: a transport makes each a frame, or an event of a stream.
pub trait Texts {
    /// One text.
    fn text(&mut self, text: &str);
}
